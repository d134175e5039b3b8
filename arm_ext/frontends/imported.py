# SPDX-License-Identifier: Apache-2.0
"""What every front end returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import tvm


@dataclass(frozen=True)
class TensorSpec:
    """A model input or output.

    Attributes:
        name: The model's own name for it.
        shape: Static shape.
        dtype: numpy's name of the element type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    def describe(self) -> str:
        """Return "name float32[1, 3, 224, 224]"."""
        return f"{self.name} {self.dtype}{list(self.shape)}"

    def check(self, value: npt.NDArray[Any]) -> str | None:
        """Return what keeps `value` from being passed here, or None."""
        if str(value.dtype) != self.dtype:
            return f"dtype is {value.dtype}, the model takes {self.dtype}"
        if value.shape != self.shape:
            return f"shape is {list(value.shape)}, the model takes {list(self.shape)}"
        return None


@dataclass(frozen=True)
class ImportedModel:
    """A model as Relax, with what a user knows it by.

    Attributes:
        mod: `main` takes the inputs in the model's order and returns a tensor, or a tuple in the order of `outputs`.
            Every call carries the name of the source node it came from.
        name: Short name, from the file.
        format: "onnx" or "tflite".
        sha256: Of the model file's bytes.
        inputs: In the model's order.
        outputs: In the model's order.
        nodes: Source node name → its operator, for every node of the source, in the source's order.
        quantized: Whether the source holds quantised operators (QDQ).
        reference: The source's own runtime: inputs → outputs (none where it cannot run), its name and settings.
    """

    mod: tvm.IRModule
    name: str
    format: str
    sha256: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    nodes: dict[str, str]
    quantized: bool
    reference: Callable[[list[npt.NDArray[Any]]], tuple[list[npt.NDArray[Any]], str]]
