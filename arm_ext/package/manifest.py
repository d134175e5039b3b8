# SPDX-License-Identifier: Apache-2.0
"""manifest.json as records; `arm_ext.schema("manifest")` is its JSON schema.

A manifest may come from anybody. What the records accept can be used without another look: sizes are bounded, paths
stay in the package, and fields that repeat each other agree.
"""

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from arm_ext.common.json_record import ClosedJsonRecord
from arm_ext.frontends.common.imported import TensorSpec

SCHEMA_VERSION: Literal[2] = 2

_ELEMENT_TYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)
_RANK = 32  # above the maximum rank of any framework
_MOST_BYTES = 1 << 40  # maximum bytes of a tensor; no board for these packages has a terabyte

Precision = Literal["fp32", "fp16", "bf16"]
Method = Literal["minmax", "percentile", "entropy", "mse"]
Correction = Literal["equalize", "smooth", "bias", "round"]
Sparsity = Literal["2:4"]
ActivationType = Literal["int8", "int16"]

WeightType = Literal["int8", "int4"]
Numerics = Literal["qdq", "tosa"]


Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Dim = Annotated[int, Field(ge=0, lt=1 << 31)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
# A word that is passed to programs: it must neither look like an option nor have a meaning in a shell.
Word = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9_.,=+-]*)?$")]


def _inside(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or str(pure) != path or path == "." or not path.isprintable():
        raise ValueError(f"{path!r} is not the plain path of a file within the package")
    return path


def _known_type(name: str) -> str:
    if name not in _ELEMENT_TYPES:
        raise ValueError(f"{name!r} is not an element type of a tensor")
    return name


ElementType = Annotated[str, AfterValidator(_known_type)]
InnerPath = Annotated[str, AfterValidator(_inside)]


class _ManifestRecord(ClosedJsonRecord):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Tensor(_ManifestRecord):
    """An input or output, in the model's order."""

    name: str = Field(description="Name of the input or output in the model.")
    shape: list[Dim] = Field(
        max_length=_RANK,
        description="Sizes of all dimensions; a size that is known at run time alone has its value in the "
        "self-test.",
    )
    dtype: ElementType = Field(description="Element type, by numpy's name.")
    batch: str = Field(
        default="",
        description="Name of the first dimension if it is any number of samples, else empty and not written.",
    )
    open: list[str] = Field(
        default=[],
        description='For each dimension, what it is if it is known at run time alone, such as "n<=512", else empty; '
        "not written if all sizes are fixed.",
    )

    labels: list[str] = Field(
        default=[],
        description="Labels of a classifier's classes, whose scores are its columns or whose numbers are its values; "
        "not written for other tensors.",
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.bytes > _MOST_BYTES:
            raise ValueError(f"{self.name} would take {self.bytes:,} bytes; the maximum is {_MOST_BYTES:,}")
        if self.open and len(self.open) != len(self.shape):
            raise ValueError(
                f"{self.name} says of {len(self.open)} sizes what they are, and has {len(self.shape)}"
            )
        if self.batch and not self.shape:
            raise ValueError(f"{self.name} is a scalar, which has no batch axis")
        return self

    @property
    def bytes(self) -> int:
        """Size of the tensor in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {
            key: value for key, value in fields.items() if value or key not in ("batch", "open", "labels")
        }

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schema of the fields.

        Of a serialiser's result, pydantic only knows that it is a mapping.
        """
        fields: Any = {key: value for key, value in core.items() if key != "serialization"}
        return handler(fields)

    def spec(self) -> TensorSpec:
        """Return the tensor as the front ends' record."""
        return TensorSpec(
            self.name, tuple(self.shape), self.dtype, self.batch, tuple(self.open), tuple(self.labels)
        )


class State(_ManifestRecord):
    """A state: an input, and the output that is the input's value in the next step.

    States are the last inputs and outputs, both in the order of the states.
    """

    input: str = Field(description="Input that takes the state.")
    output: str = Field(description="Output that is the state of the next step.")
    shape: list[Dim] = Field(max_length=_RANK, description="Sizes of all dimensions.")
    dtype: ElementType = Field(description="Element type, by numpy's name.")
    initial: Literal["zeros", "given"] = Field(
        description='Value in the first step: "zeros", or "given" by the model or by who compiled it.'
    )


class FloatDistance(_ManifestRecord):
    """How far an output of a model that was quantised is from the float model's."""

    output: str = Field(description="Name of the output.")
    sqnr_db: float = Field(
        description="Signal-to-quantisation-noise ratio in decibels, 10 log10(sum of reference^2 / sum of "
        "difference^2), within -100 and 200."
    )
    relative: float = Field(
        description="Largest absolute difference as a share of the largest absolute reference value."
    )


class Calibration(_ManifestRecord):
    """How a float model was quantised; sha256 is of the file with the samples."""

    method: Method = Field(
        description="Method by which the range of an activation was derived from the samples."
    )
    samples: Count = Field(description="Number of calibration samples.")
    sha256: Sha256 = Field(description="SHA-256 of the file with the samples.")
    compared: Count = Field(
        default=0,
        description="Number of samples on which outputs were compared with the float model's, both in "
        "onnxruntime; 0 if it cannot run them.",
    )
    distance: list[FloatDistance] = Field(
        default=[], description="Distance of each output to the float model's on these samples."
    )
    selftest: list[FloatDistance] = Field(
        default=[],
        description="Distance of each output of ours to the float model's in the self-test, whose inputs "
        "are random unless they were given.",
    )
    largest: dict[str, float] = Field(
        default={}, description="Largest absolute value of each input in the samples, by the input's name."
    )


class ModelInfo(_ManifestRecord):
    """The source model; sha256 is of its file's bytes. `calibration` is of a float model that was quantised."""

    name: str = Field(description="Name of the model: that of its file or graph.")
    format: str = Field(description="Format of the source, such as onnx or tflite.")
    sha256: Sha256 = Field(description="SHA-256 of the model file.")
    calibration: Calibration | None = Field(
        default=None, description="How a float model was quantised by `compile`; null if it was not."
    )


class TargetInfo(_ManifestRecord):
    """The resolved profile; features are LLVM's names, after --mattr."""

    profile: str = Field(description="Name that --target was given.")
    core: str = Field(description="Core that kernels were chosen for.")
    triple: Word = Field(description="LLVM target triple.")
    cpu: Word = Field(description="LLVM's name of the CPU.")
    features: list[Word] = Field(description="Instruction-set extensions by LLVM's names, after --mattr.")
    qemu_cpu: Word | None = Field(
        description="CPU model with which QEMU emulates the target; null for the machine that compiled."
    )
    mca_cpu: Word = Field(description="LLVM's name of the CPU whose scheduling model estimates cycles.")


class Linker(_ManifestRecord):
    """The linker of model.so."""

    name: str = Field(description="Name of the linker.")
    version: str = Field(description="Version of the linker.")


class Versions(_ManifestRecord):
    """Versions that decide the bytes of model.so."""

    arm_ext: str = Field(description="Version of arm-ext.")
    tvm: str = Field(description="Version of apache-tvm.")
    tvm_ffi: str = Field(description="Version of apache-tvm-ffi.")
    llvm: str = Field(description="Major version of TVM's LLVM.")
    linker: Linker = Field(description="The linker and its version.")


class WideLayer(_ManifestRecord):
    """A kernel call, its source nodes, and the bytes alive while it runs (inputs, outputs, values for later)."""

    kernel: str = Field(description="Function of model.so.")
    sources: list[str] = Field(description="Source nodes computed in the call.")
    live_bytes: Count = Field(
        description="Bytes alive while it runs: inputs, outputs and values kept for later."
    )

    def describe(self) -> str:
        """Return the call as a line of a list."""
        return f"  {self.live_bytes:>12,} bytes  {', '.join(self.sources) or self.kernel}"


class Memory(_ManifestRecord):
    """Memory in bytes.

    The peak is of one inference: planned activations and the largest workspace of a kernel.
    """

    peak_activation_bytes: Count = Field(
        description="Bytes that one inference allocates: planned activations and the largest workspace."
    )
    workspace_bytes: Count = Field(description="Bytes of the largest workspace of a kernel.")
    weight_bytes: Count = Field(description="Bytes of all constants.")
    widest: list[WideLayer] = Field(description="Kernel calls with the most bytes alive, the greatest first.")


class PackageFile(_ManifestRecord):
    """A file of the package."""

    path: InnerPath = Field(description="Path within the package.")
    bytes: Count = Field(description="Size in bytes.")
    sha256: Sha256 = Field(description="SHA-256 of its bytes.")


class NpuFile(_ManifestRecord):
    """A file of a region for an NPU, which the package's `files` list, too; sha256 is of its bytes."""

    path: InnerPath = Field(description="Path within the package.")
    sha256: Sha256 = Field(description="SHA-256 of its bytes.")


class NpuMemory(_ManifestRecord):
    """Bytes that a region takes: its payload's areas, and Vela's estimate of the maximum in each memory."""

    weight_bytes: Count = Field(description="Bytes of weights and biases in the payload.")
    scratch_bytes: Count = Field(description="Bytes of the area for activations.")
    fast_bytes: Count = Field(description="Bytes of the area in fast memory.")
    copied_bytes: Count = Field(
        description="Bytes that each inference copies between the CPU's memory and the NPU's: inputs and "
        "outputs."
    )
    peak_bytes: dict[str, Count] = Field(
        description="Most bytes in use of each memory of the system, by Vela's estimate."
    )


class NpuRegion(_ManifestRecord):
    """A part of the model for the NPU."""

    payload: NpuFile = Field(description="File that the NPU runs: command stream and weights.")
    tosa: NpuFile = Field(description="TOSA graph that was compiled.")
    values: NpuFile = Field(
        description="Inputs and outputs in the self-test, as the CPU computes them (.npz)."
    )
    sources: list[str] = Field(description="Source nodes computed in the region.")
    inputs: list[Tensor] = Field(
        description="Inputs in the payload's order, named after values of the integer graph."
    )
    outputs: list[Tensor] = Field(description="Outputs in the payload's order.")
    macs: Count = Field(description="Multiply-accumulates of one inference.")
    cycles: Count = Field(description="Cycles of the NPU for one inference, by Vela's estimate.")
    memory: NpuMemory = Field(description="Memory that the region needs.")


class Npu(_ManifestRecord):
    """The regions compiled for the NPU, with Vela's version and configuration."""

    accelerator: str = Field(description="Name of the NPU, such as ethos-u65-256.")
    on_error: Literal["fallback", "fail"] = Field(
        description="What happens if a run on the NPU fails: the CPU computes the region, or the inference fails."
    )
    arena_bytes: Count = Field(
        description="Bytes that all regions share on the NPU's side, beside the CPU's activations; a "
        "driver may want more."
    )
    vela: str = Field(description="Version of Vela.")
    tosa_tools: str = Field(description="Version of the TOSA tools that wrote the graphs.")
    system_config: str = Field(description="Vela's system configuration: clock and memories.")
    memory_mode: str = Field(description="Vela's memory mode: what lies in which memory.")
    regions: list[NpuRegion] = Field(description="The parts of the model that the NPU can run.")


class TunedKernel(_ManifestRecord):
    """A record of a tuning database that decided a kernel: its id, the task's key, the kernel and its parameters."""

    record: str = Field(description="Id of the record in the tuning database.")
    task: str = Field(description="Key of the workload.")
    candidate: dict[str, Any] = Field(description="The kernel and its parameters.")


class Check(_ManifestRecord):
    """How `run --check` compares outputs with `expected`, and the reason for the bound."""

    relative_bound: float = Field(
        ge=0,
        description="Largest |difference| allowed, as a share of max |expected| of a float output.",
    )
    differing: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Largest share of the elements of an integer output that may differ, as floats may decide them: of "
        "two scores that are nearly equal the other one may be the greatest.",
    )
    reason: str = Field(description="Why this bound was chosen.")


class Library(_ManifestRecord):
    """A model in a C library: its name there, and the memory that it takes."""

    name: str = Field(description="Prefix of the model's symbols.")
    archive: str | None = Field(
        default=None,
        description="Name of the library if it has several models; null if the library has this model's name.",
    )
    arena_bytes: Count = Field(
        description="Bytes that a caller gives an instance, in all regions, if inputs and outputs are in the "
        "caller's buffers."
    )
    in_place_bytes: Count = Field(
        description="Bytes that a caller gives an instance if inputs and outputs are in the regions, too."
    )
    regions: dict[str, Count] = Field(
        description="Bytes that a caller gives an instance, by region of memory, the fastest first."
    )
    stack_bytes: Count | None = Field(
        description="Upper bound of the stack that a call takes, in bytes, without the functions in `requires`; "
        "null if it was not analysed."
    )
    weight_bytes: Count = Field(
        description="Bytes of the model's constants, without shared ones; if the weights of several models are one "
        "file, those of this model."
    )
    shared_weight_bytes: Count = Field(
        default=0, description="Bytes of the constants that several models of the library read."
    )
    requires: list[str] = Field(description="Functions that the library calls and does not define.")

    @property
    def file(self) -> str:
        """Name of the archive."""
        return f"lib{self.archive or self.name}.a"


class BucketInfo(_ManifestRecord):
    """Shapes that `main` chooses from: inputs and outputs in the model's order, and an inference's memory."""

    inputs: list[Tensor] = Field(description="Inputs in the model's order.")
    outputs: list[Tensor] = Field(description="Outputs in the model's order.")
    memory: Memory = Field(description="Memory of one inference of these shapes.")
    macs: Count = Field(description="Multiply-accumulates of one inference.")
    check: Check = Field(description="How outputs are compared with the self-test.")
    selftest: InnerPath = Field(description="File with inputs and expected outputs.")


class LevelInfo(_ManifestRecord):
    """An instruction-set level of a package for a family of cores."""

    name: InnerPath = Field(
        description="Name of the level; its report is in the folder of this name in `levels`."
    )
    core: str = Field(description="Core that its kernels were chosen for.")
    features: list[Word] = Field(
        description="Instruction-set extensions that a CPU needs for it, by LLVM's names; none for the first."
    )
    cpu: Word = Field(description="LLVM's name of that core.")
    mca_cpu: Word = Field(description="LLVM's name of the CPU whose scheduling model estimates cycles.")


class Manifest(_ManifestRecord):
    """manifest.json; `files` are all others of the package, or of the C library that `library` is of."""

    schema_version: Literal[2] = Field(default=SCHEMA_VERSION, description="Version of this schema.")
    files: list[PackageFile] = Field(description="All other files of the package.")
    model: ModelInfo = Field(description="The source model.")
    inputs: list[Tensor] = Field(description="Inputs in the model's order; states are the last.")
    outputs: list[Tensor] = Field(
        min_length=1, description="Outputs in the model's order; states are the last."
    )
    states: list[State] = Field(default=[], description="Inputs that are the outputs of the step before.")
    target: TargetInfo = Field(description="What the package was compiled for.")
    precision: Precision = Field(default="fp32", description="What float operators compute in.")
    numerics: Numerics = Field(
        default="qdq",
        description="What quantised operators compute: rounding as in QDQ form, or as TOSA defines it.",
    )
    versions: Versions = Field(description="Those of arm-ext, TVM, LLVM and the linker.")
    memory: Memory = Field(
        description="Memory of one inference; of several shapes, of the one that needs most, with the "
        "weights of all."
    )
    macs: Count = Field(
        description="Multiply-accumulates of one inference; of several shapes, of the one that needs most "
        "memory."
    )
    check: Check = Field(description="How outputs are compared with the self-test.")
    npu: Npu | None = Field(default=None, description="What was compiled for an NPU; null without one.")
    tuned: list[TunedKernel] = Field(
        default=[], description="Records of a tuning database that decided kernels, in the model's order."
    )
    buckets: list[BucketInfo] = Field(default=[], description="Shapes to choose from, if there are several.")
    library: Library | None = Field(
        default=None, description="What a C library was generated from the model; null without one."
    )
    levels: list[LevelInfo] = Field(
        default=[],
        description="Of a family of cores, the levels that model.so chooses from when it runs: the last of which the "
        "CPU has all features. Each has the features of the one before.",
    )

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
        """Check that the states are the last inputs and outputs."""
        count = len(self.states)
        for ends, tensors in (
            ([(state.input, state.shape, state.dtype) for state in self.states], self.inputs),
            ([(state.output, state.shape, state.dtype) for state in self.states], self.outputs),
        ):
            last = tensors[len(tensors) - count :]
            if count and ends != [(tensor.name, tensor.shape, tensor.dtype) for tensor in last]:
                raise ValueError("the states are not the last inputs and outputs")

    def _check_files(self) -> None:
        """Check that files named in other fields are in `files`, with the same hash."""
        hashes = {file.path: file.sha256 for file in self.files}
        for bucket in self.buckets:
            if bucket.selftest not in hashes:
                raise ValueError(f"{bucket.selftest} is not among the files")
        regions = () if self.npu is None else self.npu.regions
        for file in (file for region in regions for file in (region.payload, region.tosa, region.values)):
            if hashes.get(file.path) != file.sha256:
                raise ValueError(f"{file.path} is not among the files with this hash")


class LibraryEntry(_ManifestRecord):
    """One model of a C library with several models."""

    name: str = Field(description="Prefix of the model's symbols.")
    manifest: InnerPath = Field(
        description="File with the model's manifest, whose paths are relative to the library's folder."
    )
    report: InnerPath = Field(description="File with the model's report.")


class LibraryManifest(_ManifestRecord):
    """manifest.json of a C library of several models."""

    schema_version: Literal[2] = Field(default=SCHEMA_VERSION, description="Version of this schema.")
    files: list[PackageFile] = Field(description="All other files of the library.")
    archive: str = Field(description="Name of the library, whose file is lib….a.")
    models: list[LibraryEntry] = Field(min_length=1, description="Models of the library.")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        _refuse_twice("a file", (file.path for file in self.files))
        paths = {file.path for file in self.files}
        for path in (path for model in self.models for path in (model.manifest, model.report)):
            if path not in paths:
                raise ValueError(f"{path} is not among the files")
        return self


def _refuse_twice(what: str, names: Iterable[str]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{twice[0]!r} is {what} twice")


def _kind(tensor: Tensor) -> tuple[str, str, int]:
    return tensor.name, tensor.dtype, len(tensor.shape)
