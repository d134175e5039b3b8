# SPDX-License-Identifier: Apache-2.0
"""Batch and sequence sizes, and an ONNX model with a smaller one, whose gain is measured by building it.

resized: tokens [1, 33] → …    →    tokens [1, 32] → …

Kernels compute rows in blocks; a size just above a multiple of a block has a last one that is almost empty.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.onnx.shapes import fold_shapes, forget_shapes
from arm_ext.report.advice.changes import Changed
from relay_passes.ir.calls import nodes_of
from relay_passes.rules.common.linear_calls import CONVOLUTIONS

BLOCKS = (64, 32, 16, 8)
"""Numbers of rows that kernels block products by, largest first; see `schedules/kernels/gemm`."""

# A size is just above a multiple of a block by no more than this share of the block, and at least by one.
_JUST_ABOVE = 1 / 16

_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators of ONNX with weights."""

# Ranks of inputs [N, T] and [N, T, C].
_TOKENS, _FRAMES = 2, 3


@dataclass(frozen=True)
class Size:
    """A batch or sequence size just above a multiple of a block.

    Attributes:
        axis: Axis of the inputs that have it.
        size: The size.
        smaller: The multiple of the block below it.
        block: The number of rows.
        inputs: Names of the inputs that have the size in the axis.
    """

    axis: int
    size: int
    smaller: int
    block: int
    inputs: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Return "batch" or "sequence"."""
        return "sequence" if self.axis else "batch"

    def shapes(self, specs: Iterable[TensorSpec]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of inputs, with the smaller size."""
        return {spec.name: self._smaller(spec) for spec in specs}

    def _smaller(self, spec: TensorSpec) -> tuple[int, ...]:
        if spec.name not in self.inputs:
            return spec.shape
        return tuple(self.smaller if axis == self.axis else n for axis, n in enumerate(spec.shape))

    def changed(self, model: ImportedModel | onnx.ModelProto) -> Changed:
        """Return a model with the smaller size as a change."""
        return Changed(model, self.inputs, f"{self.kind} {self.size} → {self.smaller}", comparable=False)


def just_above(size: int) -> tuple[int, int] | None:
    """Return the multiple of a block that a size is just above, and the block; None if it is above none."""
    for block in BLOCKS:
        more = size % block
        if size > block and 1 <= more <= max(1, block * _JUST_ABOVE):
            return size - more, block
    return None


def sizes_above_blocks(model: ImportedModel) -> Iterator[Size]:
    """Yield the batch and sequence sizes of the inputs that are just above a multiple of a block."""
    main = model.mod["main"]
    convolved = {node.operands[0] for node in nodes_of(main) if node.name in CONVOLUTIONS}
    found: dict[tuple[int, int], list[str]] = {}
    for spec, param in zip(model.inputs, main.params, strict=True):
        for axis in _axes(spec, param in convolved):
            if axis < len(spec.shape):
                found.setdefault((axis, spec.shape[axis]), []).append(spec.name)
    for (axis, size), inputs in found.items():
        below = just_above(size)
        if below is not None:
            yield Size(axis, size, *below, tuple(inputs))


def _axes(spec: TensorSpec, convolved: bool) -> tuple[int, ...]:
    """Return the axes of an input that can be a batch or a sequence; the second one of numbers [N, C] is channels."""
    rank = len(spec.shape)
    if rank == _TOKENS and spec.dtype in ("int32", "int64"):
        return (0, 1)
    if rank == _FRAMES:
        return (0, 2 if convolved else 1)
    return (0,)


def resized(model: onnx.ModelProto, size: Size) -> Changed | None:
    """Return the model with the smaller size; None if its nodes do not allow that.

    Where the size stands in constants, too, such as embeddings of positions, these lose their last elements.

    Args:
        model: A model whose values have static shapes.
        size: The size to change.
    """
    for constants in (False, True):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        for value in copy.graph.input:
            if value.name in size.inputs:
                value.type.tensor_type.shape.dim[size.axis].dim_value = size.smaller
        if constants:
            _shorten_constants(copy, size)
        forget_shapes(copy.graph)
        if _holds(copy):
            return size.changed(copy)
    return None


def _holds(model: onnx.ModelProto) -> bool:
    """Whether no shape contradicts another."""
    trial = onnx.ModelProto()
    trial.CopyFrom(model)
    try:
        fold_shapes(trial, "")
    except ModelError:
        return False
    return True


def _shorten_constants(model: onnx.ModelProto, size: Size) -> None:
    """Replace the size in constants that are shapes, and shorten axes of that size in others; weights are left."""
    weights = {name for node in model.graph.node if node.op_type in _PRODUCTS for name in node.input}
    shapes = {
        name for node in model.graph.node if node.op_type in ("Reshape", "Expand") for name in node.input[1:]
    }
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            continue
        array = numpy_helper.to_array(tensor)
        if tensor.name in shapes:
            changed = np.where(array == size.size, size.smaller, array)
        else:
            changed = array[tuple(slice(size.smaller if each == size.size else None) for each in array.shape)]
        if changed.shape != array.shape or not np.array_equal(changed, array):
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(changed), tensor.name))
