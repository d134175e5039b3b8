# SPDX-License-Identifier: Apache-2.0
"""manifest.json as records; its JSON schema ships as schemas/manifest.schema.json.

A manifest may come from anybody. What the records accept can be used without another look: sizes are bounded, paths
stay in the package, and what is said twice is said alike.
"""

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from arm_ext.frontends.common.imported import TensorSpec

SCHEMA_VERSION: Literal[2] = 2

_ELEMENT_TYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)
_RANK = 32  # beyond that of any framework that models come from
_MOST_BYTES = 1 << 40  # of a tensor; a terabyte is in no board that runs these packages

Precision = Literal["fp32", "fp16", "bf16"]
Method = Literal["minmax", "percentile", "entropy", "mse"]
Numerics = Literal["qdq", "tosa"]


Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Dim = Annotated[int, Field(ge=0, lt=1 << 31)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
# What programs are called with: no option of theirs, and no word of a shell.
Word = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9_.,=+-]*)?$")]


def _inside(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or str(pure) != path or path == "." or not path.isprintable():
        raise ValueError(f"{path!r} is not the plain path of a file within the package")
    return path


def _known_type(name: str) -> str:
    if name not in _ELEMENT_TYPES:
        raise ValueError(f"{name!r} is no element type of a tensor")
    return name


ElementType = Annotated[str, AfterValidator(_known_type)]
InnerPath = Annotated[str, AfterValidator(_inside)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Tensor(_Record):
    """An input or output, in the model's order.

    `batch` is the name of the first dimension where that is any number of samples, `open` has for each dimension that
    is known at run time what it is, such as "n<=512"; `shape` has the self-test's. They are not written where there is
    none.
    """

    name: str
    shape: list[Dim] = Field(max_length=_RANK)
    dtype: ElementType
    batch: str = ""
    open: list[str] = []

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.bytes > _MOST_BYTES:
            raise ValueError(f"{self.name} would take {self.bytes:,} bytes, and the most is {_MOST_BYTES:,}")
        if self.open and len(self.open) != len(self.shape):
            raise ValueError(
                f"{self.name} says of {len(self.open)} sizes what they are, and has {len(self.shape)}"
            )
        if self.batch and not self.shape:
            raise ValueError(f"{self.name} is one value, which has no batch")
        return self

    @property
    def bytes(self) -> int:
        """Size of the tensor in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {key: value for key, value in fields.items() if value or key not in ("batch", "open")}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return that of the fields: of what a serialiser returns pydantic knows only that it is a mapping."""
        fields: Any = {key: value for key, value in core.items() if key != "serialization"}
        return handler(fields)

    def spec(self) -> TensorSpec:
        """Return it as the front ends' record."""
        return TensorSpec(self.name, tuple(self.shape), self.dtype, self.batch, tuple(self.open))


class State(_Record):
    """An input and the output that is its value in the next step; they are last, in the order of the states.

    `initial` is "zeros", or "given" where the model or who compiled it has another value for the first step.
    """

    input: str
    output: str
    shape: list[Dim] = Field(max_length=_RANK)
    dtype: ElementType
    initial: Literal["zeros", "given"]


class FloatDistance(_Record):
    """How far an output of a model that was quantised is from the float model's.

    `sqnr_db` is the signal-to-quantisation-noise ratio in decibels, 10 log10(sum of reference^2 / sum of
    difference^2), within -100 and 200; `relative` is max |difference| / max |reference|.
    """

    output: str
    sqnr_db: float
    relative: float


class Calibration(_Record):
    """How a float model was quantised; sha256 is of the file with the samples.

    `distance` is of the outputs on `compared` of the samples, both models in onnxruntime; nothing where that cannot
    run them. `selftest` is of our own outputs in the self-test, whose inputs are random ones if none were given.
    `largest` has for each input the largest absolute value in the samples.
    """

    method: Method
    samples: Count
    sha256: Sha256
    compared: Count = 0
    distance: list[FloatDistance] = []
    selftest: list[FloatDistance] = []
    largest: dict[str, float] = {}


class ModelInfo(_Record):
    """The source model; sha256 is of its file's bytes. `calibration` is of a float model that was quantised."""

    name: str
    format: str
    sha256: Sha256
    calibration: Calibration | None = None


class TargetInfo(_Record):
    """The resolved profile; features are LLVM's names, after --mattr."""

    profile: str
    core: str
    triple: Word
    cpu: Word
    features: list[Word]
    qemu_cpu: Word | None
    mca_cpu: Word


class Linker(_Record):
    """What linked model.so."""

    name: str
    version: str


class Versions(_Record):
    """Versions that decide the bytes of model.so."""

    arm_ext: str
    tvm: str
    tvm_ffi: str
    llvm: str
    linker: Linker


class WideLayer(_Record):
    """A kernel call, the bytes alive while it runs (inputs, outputs and values kept for later), its source nodes."""

    kernel: str
    sources: list[str]
    live_bytes: Count


class Memory(_Record):
    """Bytes. The peak is what one inference allocates: planned activations and the largest kernel's workspace."""

    peak_activation_bytes: Count
    workspace_bytes: Count
    weight_bytes: Count
    widest: list[WideLayer]


class PackageFile(_Record):
    """A file of the package."""

    path: InnerPath
    bytes: Count
    sha256: Sha256


class NpuFile(_Record):
    """A file of the package for a region, which `files` has too; sha256 is of its bytes."""

    path: InnerPath
    sha256: Sha256


class NpuMemory(_Record):
    """Bytes that a region wants: its payload's areas, and by Vela's estimate at most in each memory of the system.

    `copied_bytes` is what each inference copies between the CPU's memory and the NPU's: inputs and outputs.
    """

    weight_bytes: Count
    scratch_bytes: Count
    fast_bytes: Count
    copied_bytes: Count
    peak_bytes: dict[str, Count]


class NpuRegion(_Record):
    """A part of the model for the NPU: its payload, the TOSA graph that was compiled, the source nodes computed in it.

    `values` are its inputs and outputs in the self-test, as the CPU computes them (.npz, computed on the host).
    Inputs and outputs are in the payload's order, named after the values of the integer graph. `cycles` are Vela's
    estimate.
    """

    payload: NpuFile
    tosa: NpuFile
    values: NpuFile
    sources: list[str]
    inputs: list[Tensor]
    outputs: list[Tensor]
    macs: Count
    cycles: Count
    memory: NpuMemory


class Npu(_Record):
    """What was compiled for the NPU, by which version of Vela and for which of its configurations.

    `on_error` is what a failed run leads to: the CPU computes its region, or the inference fails. `arena_bytes` is what
    all regions share on the NPU's side, beside `memory.peak_activation_bytes` on the CPU's; a driver may want more.
    """

    accelerator: str
    on_error: Literal["fallback", "fail"]
    arena_bytes: Count
    vela: str
    tosa_tools: str
    system_config: str
    memory_mode: str
    regions: list[NpuRegion]


class TunedKernel(_Record):
    """A record of a tuning database that decided a kernel: its id, the task's key, the kernel and its parameters."""

    record: str
    task: str
    candidate: dict[str, Any]


class Check(_Record):
    """How `run --check` compares outputs with `expected`, and why that bound.

    Integer outputs are compared exactly. `relative_bound` is on |difference| / max|expected| of a float output.
    """

    relative_bound: float = Field(ge=0)
    reason: str


class Library(_Record):
    """The C library of a folder: what its symbols begin with, and what it takes.

    `arena_bytes` is what a caller gives an instance, `stack_bytes` a bound on the stack of a call without that of the
    functions in `requires`, which are all that the library does not have itself; nothing where it was not analysed.
    """

    name: str
    arena_bytes: Count
    stack_bytes: Count | None
    weight_bytes: Count
    requires: list[str]


class BucketInfo(_Record):
    """Shapes that `main` chooses by: inputs and outputs in the model's order, and what one inference of them takes.

    `selftest` is the file with its inputs and outputs.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]
    memory: Memory
    macs: Count
    check: Check
    selftest: InnerPath


class Manifest(_Record):
    """manifest.json; `files` are all others of the package, or of the C library that `library` is of.

    `precision` is what float operators compute in, `numerics` what quantised ones do. `tuned` are the records of a
    tuning database that were used, in the model's order. Of a package with `buckets`, `inputs`, `outputs`, `macs` and
    `check` are those of the one with the greatest peak of memory; `memory.weight_bytes` is of all.
    """

    schema_version: Literal[2] = SCHEMA_VERSION
    files: list[PackageFile]
    model: ModelInfo
    inputs: list[Tensor]
    outputs: list[Tensor] = Field(min_length=1)
    states: list[State] = []
    target: TargetInfo
    precision: Precision = "fp32"
    numerics: Numerics = "qdq"
    versions: Versions
    memory: Memory
    macs: Count
    check: Check
    npu: Npu | None = None
    tuned: list[TunedKernel] = []
    buckets: list[BucketInfo] = []
    library: Library | None = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        _refuse_twice("a file", (file.path for file in self.files))
        _refuse_twice("an input", (tensor.name for tensor in self.inputs))
        self._check_states()
        self._check_files()
        for bucket in self.buckets:
            for what, of_all, own in (
                ("inputs", self.inputs, bucket.inputs),
                ("outputs", self.outputs, bucket.outputs),
            ):
                if [_kind(tensor) for tensor in own] != [_kind(tensor) for tensor in of_all]:
                    raise ValueError(f"the {what} of a bucket are not those of the package with other sizes")
        return self

    @property
    def so_sha256(self) -> str:
        """The hash of model.so."""
        return next(file.sha256 for file in self.files if file.path == "model.so")

    def _check_states(self) -> None:
        """Whether they are the last inputs and outputs."""
        count = len(self.states)
        for ends, tensors in (
            ([(state.input, state.shape, state.dtype) for state in self.states], self.inputs),
            ([(state.output, state.shape, state.dtype) for state in self.states], self.outputs),
        ):
            last = tensors[len(tensors) - count :]
            if count and ends != [(tensor.name, tensor.shape, tensor.dtype) for tensor in last]:
                raise ValueError("the states are not the last inputs and outputs")

    def _check_files(self) -> None:
        """Whether what is named elsewhere is listed, with one hash."""
        hashes = {file.path: file.sha256 for file in self.files}
        for bucket in self.buckets:
            if bucket.selftest not in hashes:
                raise ValueError(f"{bucket.selftest} is not among the files")
        regions = () if self.npu is None else self.npu.regions
        for file in (file for region in regions for file in (region.payload, region.tosa, region.values)):
            if hashes.get(file.path) != file.sha256:
                raise ValueError(f"{file.path} is not among the files with this hash")


def _refuse_twice(what: str, names: Iterable[str]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{twice[0]!r} is {what} twice")


def _kind(tensor: Tensor) -> tuple[str, str, int]:
    return tensor.name, tensor.dtype, len(tensor.shape)


def manifest_schema() -> dict[str, object]:
    """Return the JSON schema of manifest.json, which ships as schemas/manifest.schema.json."""
    return json_schema(Manifest)


def json_schema(record: type[BaseModel]) -> dict[str, object]:
    """Return the JSON schema of what a record is written as."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **record.model_json_schema(mode="serialization"),
    }
