# SPDX-License-Identifier: Apache-2.0
"""`ImportedModel`: the result of every front end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from arm_ext.common.names import check_name

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class TensorSpec:
    """A model input or output.

    Attributes:
        name: The model's own name for it.
        shape: Static shape; sizes that are known at run time have the self-test's value.
        dtype: numpy's name of the element type.
        batch: Name of the first dimension if it is any number of samples; else "".
        open: What each dimension is that is known at run time, such as "n<=512", or "n // 2" for an output,
            and "" for the others; an empty tuple if all are static.
        labels: For an output of a classifier, the labels of the classes: its columns are their scores, or its values
            are their numbers.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    batch: str = ""
    open: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return "name float32[1, 3, 224, 224]"."""
        sizes = [self.batch, *self.shape[1:]] if self.batch else self.shape
        if self.open:
            sizes = [text or size for text, size in zip(self.open, self.shape, strict=True)]
        return f"{self.name} {self.dtype}[{', '.join(map(str, sizes))}]"

    def check(self, value: npt.NDArray[Any]) -> str | None:
        """Return the reason why `value` cannot be passed for this tensor; None if it can."""
        if str(value.dtype) != self.dtype:
            return f"dtype is {value.dtype}, the model takes {self.dtype}"
        if value.ndim != len(self.shape) or not all(map(self._fits, range(value.ndim), value.shape)):
            taken = self.describe().removeprefix(f"{self.name} {self.dtype}")
            return f"shape is {list(value.shape)}, the model takes {taken}"
        return None

    def _fits(self, axis: int, size: int) -> bool:
        if self.open and (text := self.open[axis]):
            bound = text.partition("<=")[2]
            return 1 <= size <= int(bound) if bound else True
        return size == self.shape[axis] or (axis == 0 and bool(self.batch))


@dataclass(frozen=True, eq=False)
class State:
    """A state: an input whose value is an output of the previous run.

    Attributes:
        input: Name of the input.
        output: Name of the output that is the next value.
        initial: Value of the state in the first run.
    """

    input: str
    output: str
    initial: npt.NDArray[Any]


Reference = Callable[[list[npt.NDArray[Any]]], tuple[list[npt.NDArray[Any]], str]]
"""A runtime of the source's: inputs → outputs, none where it cannot run the model, and its name and settings."""


@dataclass(frozen=True)
class ImportedModel:
    """A model as a Relax module, with its inputs, outputs and states.

    Attributes:
        mod: `main` takes the inputs in the model's order and returns a tensor, or a tuple in the order of `outputs`.
            Every call carries the name of the source node it came from.
            With control flow it has more functions: those with `if` hold nothing but calls of others and tuples.
        name: Short name, from the file.
        format: "onnx", "stablehlo", "tflite" or "torch".
        sha256: SHA-256 of the model file's bytes.
        inputs: Inputs in the model's order.
        outputs: Outputs in the model's order.
        nodes: Source node name → its operator, for every node of the source, in the source's order.
        quantized: Whether the source holds quantised operators (QDQ).
        reference: The source's own runtime: a function from inputs to outputs (none where it cannot run), and
            its name and settings.
        float_reference: For a model that was quantised here, the same for its float form.
        states: Their inputs are the last ones and their outputs too, in this order.
        for_npu: The model with what it can have in QDQ form, where `mod` has integers of the source's own for it, which
            no NPU computes; None where it is the same.
        lengths: For a model with a bounded length, `mod` for other lengths than the self-test's.
        least: The least length that the model takes.
        files: Name → content of further files for a package, such as a tokenizer.
        examples: Input name → a value for the self-test, where random numbers would not do.
    """

    mod: "tvm.IRModule"
    name: str
    format: str
    sha256: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    nodes: dict[str, str]
    quantized: bool
    reference: Reference
    float_reference: Reference | None = None
    states: tuple[State, ...] = ()
    for_npu: "Callable[[], ImportedModel] | None" = None
    lengths: "Mapping[int, tvm.IRModule]" = field(default_factory=dict)
    least: int = 1
    files: "Mapping[str, bytes]" = field(default_factory=dict)
    examples: "Mapping[str, npt.NDArray[Any]]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse names of inputs and outputs that reports cannot print."""
        for what, specs in (("an input", self.inputs), ("an output", self.outputs)):
            for spec in specs:
                check_name(what, spec.name)
