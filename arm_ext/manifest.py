# SPDX-License-Identifier: Apache-2.0
"""manifest.json as records; its JSON schema ships as schemas/manifest.schema.json."""

from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from arm_ext.frontends.imported import TensorSpec

SCHEMA_VERSION: Literal[1] = 1


Precision = Literal["fp32", "fp16", "bf16"]
Method = Literal["minmax", "percentile", "entropy"]
Numerics = Literal["qdq", "tosa"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tensor(_Record):
    """An input or output, in the model's order.

    `batch` is the name of the first dimension where that is any number of samples, `open` has for each dimension that
    is known at run time what it is, such as "n<=512"; `shape` has the self-test's. They are not written where there is
    none.
    """

    name: str
    shape: list[int]
    dtype: str
    batch: str = ""
    open: list[str] = []

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
    shape: list[int]
    dtype: str
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
    samples: int
    sha256: str
    compared: int = 0
    distance: list[FloatDistance] = []
    selftest: list[FloatDistance] = []
    largest: dict[str, float] = {}


class ModelInfo(_Record):
    """The source model; sha256 is of its file's bytes. `calibration` is of a float model that was quantised."""

    name: str
    format: str
    sha256: str
    calibration: Calibration | None = None


class TargetInfo(_Record):
    """The resolved profile; features are LLVM's names, after --mattr."""

    profile: str
    core: str
    triple: str
    cpu: str
    features: list[str]
    qemu_cpu: str | None
    mca_cpu: str


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
    live_bytes: int


class Memory(_Record):
    """Bytes. The peak is what one inference allocates: planned activations and the largest kernel's workspace."""

    peak_activation_bytes: int
    workspace_bytes: int
    weight_bytes: int
    widest: list[WideLayer]


class NpuFile(_Record):
    """A file of the package; sha256 is of its bytes."""

    path: str
    sha256: str


class NpuMemory(_Record):
    """Bytes that a region wants: its payload's areas, and by Vela's estimate at most in each memory of the system.

    `copied_bytes` is what each inference copies between the CPU's memory and the NPU's: inputs and outputs.
    """

    weight_bytes: int
    scratch_bytes: int
    fast_bytes: int
    copied_bytes: int
    peak_bytes: dict[str, int]


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
    macs: int
    cycles: int
    memory: NpuMemory


class Npu(_Record):
    """What was compiled for the NPU, by which version of Vela and for which of its configurations.

    `on_error` is what a failed run leads to: the CPU computes its region, or the inference fails. `arena_bytes` is what
    all regions share on the NPU's side, beside `memory.peak_activation_bytes` on the CPU's; a driver may want more.
    """

    accelerator: str
    on_error: Literal["fallback", "fail"]
    arena_bytes: int
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

    relative_bound: float
    reason: str


class BucketInfo(_Record):
    """Shapes that `main` chooses by: inputs and outputs in the model's order, and what one inference of them takes.

    `selftest` is the file with its inputs and outputs.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]
    memory: Memory
    macs: int
    check: Check
    selftest: str


class Manifest(_Record):
    """manifest.json; so_sha256 is of model.so.

    `precision` is what float operators compute in, `numerics` what quantised ones do. `tuned` are the records of a
    tuning database that were used, in the model's order. Of a package with `buckets`, `inputs`, `outputs`, `macs` and
    `check` are those of the one with the greatest peak of memory; `memory.weight_bytes` is of all.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    so_sha256: str
    model: ModelInfo
    inputs: list[Tensor]
    outputs: list[Tensor]
    states: list[State] = []
    target: TargetInfo
    precision: Precision = "fp32"
    numerics: Numerics = "qdq"
    versions: Versions
    memory: Memory
    macs: int
    check: Check
    npu: Npu | None = None
    tuned: list[TunedKernel] = []
    buckets: list[BucketInfo] = []


def manifest_schema() -> dict[str, object]:
    """Return the JSON schema of manifest.json, which ships as schemas/manifest.schema.json."""
    return json_schema(Manifest)


def json_schema(record: type[BaseModel]) -> dict[str, object]:
    """Return the JSON schema of what a record is written as."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **record.model_json_schema(mode="serialization"),
    }
