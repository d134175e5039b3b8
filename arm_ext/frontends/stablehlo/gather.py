# SPDX-License-Identifier: Apache-2.0
"""StableHLO's gather and scatter: windows of a tensor at run-time indices.

A window's last axes that are whole make up rows; all axes before are counted as one, so that a row has one number: the
form of an embedding.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo
from tvm import relax
from tvm.ir import Expr

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Shape, Value
from arm_ext.frontends.stablehlo.attributes import ints
from arm_ext.frontends.stablehlo.rearrange import result_shape, sliced
from arm_ext.frontends.stablehlo.scalars import evaluate, reducer_of
from arm_ext.frontends.stablehlo.translator import Convert, Translator

R = relax.op

_REDUCTIONS = {
    "stablehlo.add": "add",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.multiply": "mul",
}


@dataclass(frozen=True)
class _Windows:
    """A batch of windows of a tensor, at the indices of a gather or scatter.

    Attributes:
        shape: Shape of the tensor.
        sizes: Sizes of a window.
        indexed: Axis of the tensor that each component of an index vector indexes.
        batching: Batch axes of the tensor (operand_batching_dims).
        batches: The axes of the batch that these correspond to, in the same order.
        gone: Axes of the tensor that the result's window lacks.
        batch: Shape of the indices, without their vectors.
    """

    shape: Shape
    sizes: Shape
    indexed: Sequence[int]
    batching: Sequence[int]
    batches: Sequence[int]
    gone: Sequence[int]
    batch: Shape

    @property
    def head(self) -> int:
        """Number of leading axes that row numbers count over; each window spans all later axes, which form one row."""
        fixed = {*self.indexed, *self.gone}
        head = len(self.shape)
        while head and self.sizes[head - 1] == self.shape[head - 1] and head - 1 not in fixed:
            head -= 1
        return head

    @property
    def kept(self) -> list[int]:
        """The axes of the tensor that are axes of the window."""
        return [axis for axis in range(len(self.shape)) if axis not in self.gone]

    @property
    def rows(self) -> tuple[int, int]:
        """Number of rows of the tensor, and elements per row."""
        return math.prod(self.shape[: self.head]), math.prod(self.shape[self.head :])

    @property
    def places(self) -> list[int]:
        """Shape of the row numbers: the batch, then the window's axes among the first `head` axes."""
        return [*self.batch, *(self.sizes[axis] for axis in self.kept if axis < self.head)]

    def numbers(self, t: Translator, starts: Sequence[Expr]) -> Expr:
        """Return the row numbers; `starts` holds one index tensor of the batch's shape per indexed axis."""
        rank = len(self.places)
        total: Expr = relax.const(0, "int32")
        inner = [axis for axis in self.kept if axis < self.head]
        for axis in range(self.head):
            stride = relax.const(math.prod(self.shape[axis + 1 : self.head]), "int32")
            terms: list[Expr] = []
            if axis in self.indexed:
                start = t.reshaped(starts[list(self.indexed).index(axis)], [*self.batch, *[1] * len(inner)])
                terms.append(start)
            if axis in self.batching:
                along = self.batches[list(self.batching).index(axis)]
                terms.append(_along(np.arange(self.shape[axis]), along, rank))
            if axis in inner and self.sizes[axis] > 1:
                terms.append(_along(np.arange(self.sizes[axis]), len(self.batch) + inner.index(axis), rank))
            for term in terms:
                total = t.emit(R.add(total, t.emit(R.multiply(term, stride))))
        if [int(n) for n in total.ty.shape] != self.places:
            total = t.emit(R.broadcast_to(total, self.places))
        return total


def _along(counted: Any, axis: int, rank: int) -> Expr:
    return relax.const(counted.astype(np.int32).reshape([-1 if a == axis else 1 for a in range(rank)]))


def _vectors(t: Translator, indices: Value, vector: int) -> tuple[list[Expr], Shape]:
    """Return the components of the index vectors, each in the batch's shape, and the batch's shape."""
    x = indices.full
    dtype = str(x.ty.dtype)
    if dtype != "int32":
        # An index that does not fit into int32 is out of bounds, and stays so when clamped to int32.
        limits = np.iinfo(np.int32)
        if np.iinfo(dtype).max > limits.max:
            x = t.emit(R.minimum(x, relax.const(limits.max, dtype)))
        if np.iinfo(dtype).min < limits.min:
            x = t.emit(R.maximum(x, relax.const(limits.min, dtype)))
        x = t.emit(R.astype(x, "int32"))
    if vector == len(indices.shape):
        return [x], indices.shape
    batch = (*indices.shape[:vector], *indices.shape[vector + 1 :])
    parts = []
    for k in range(indices.shape[vector]):
        start, limit = [0] * len(indices.shape), list(indices.shape)
        start[vector], limit[vector] = k, k + 1
        parts.append(t.reshaped(sliced(t, x, start, limit), batch))
    return parts, batch


def _batches(axes: Sequence[int], vector: int) -> list[int]:
    """Return axes of the indices, numbered as axes of the batch, which lacks the axis `vector`."""
    return [axis - (axis > vector) for axis in axes]


def _gather(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    x, indices = operands
    d = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    vector, shape, sizes = d.index_vector_dim, result_shape(op), ints(op, "slice_sizes")
    if not x.small or 0 in shape:
        return [Value(t, x.expr if not x.small else t.keep(np.zeros((), x.dtype)).expr, shape)]
    starts, batch = _vectors(t, indices, vector)
    gone = [*d.collapsed_slice_dims, *d.operand_batching_dims]
    batches = _batches(d.start_indices_batching_dims, vector)
    w = _Windows(x.shape, sizes, d.start_index_map, d.operand_batching_dims, batches, gone, batch)
    starts = [
        t.emit(R.clip(start, 0, x.shape[axis] - sizes[axis]))
        for start, axis in zip(starts, w.indexed, strict=True)
    ]
    offsets = list(d.offset_dims)
    order = [axis for axis in range(len(shape)) if axis not in offsets] + offsets
    if not w.batching and len(w.indexed) == 1 and _one_whole(w):
        (axis,) = w.indexed
        y = t.emit(R.take(x.full, starts[0], axis=axis))
        # Permute [axes before, batch, axes behind] to [batch, window].
        b = len(batch)
        y = t.permuted(y, [*range(axis, axis + b), *range(axis), *range(axis + b, len(y.ty.shape))])
    else:
        y = t.emit(R.take(t.reshaped(x.full, w.rows), w.numbers(t, starts), axis=0))
    y = t.reshaped(y, [shape[axis] for axis in order])
    return [Value(t, t.permuted(y, [order.index(axis) for axis in range(len(shape))]), shape)]


def _one_whole(w: _Windows) -> bool:
    """Whether a window is one element along the indexed axis and spans all other axes."""
    (indexed,) = w.indexed
    return all(
        size == (1 if axis == indexed else n)
        for axis, (size, n) in enumerate(zip(w.sizes, w.shape, strict=True))
    )


def _reduction(block: Any) -> str:
    """Return the name of TVM's reduction by which a scatter combines an element and its update."""
    reducer = reducer_of(block)
    if reducer in _REDUCTIONS:
        return _REDUCTIONS[reducer]
    old, new = (np.array(x, "int8") for x in (1, 2))
    given = evaluate(block, [old, new])
    # A block without operators returns one of its arguments.
    if given is not None and len(list(block.operations)) == 1 and given[0] == new:
        return "update"
    raise ModelError(f"it combines elements by {reducer or 'a custom function'}, which is not supported")


def _scatter(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    if len(operands) != 3:
        raise ModelError(f"it scatters into {len(operands) // 2} tensors at once; only one is supported")
    x, indices, updates = operands
    d = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    reduction = _reduction(op.regions[0].blocks[0])
    if 0 in updates.shape:
        return [x]
    starts, batch = _vectors(t, indices, d.index_vector_dim)
    gone, window = [*d.inserted_window_dims, *d.input_batching_dims], list(d.update_window_dims)
    within = iter([updates.shape[axis] for axis in window])
    sizes = tuple(1 if axis in gone else next(within) for axis in range(len(x.shape)))
    batches = _batches(d.scatter_indices_batching_dims, d.index_vector_dim)
    w = _Windows(
        x.shape, sizes, d.scattered_dims_to_operand_dims, d.input_batching_dims, batches, gone, batch
    )
    count, length = w.rows
    most = [x.shape[axis] - sizes[axis] for axis in w.indexed]
    inside = [t.emit(R.clip(start, 0, last)) for start, last in zip(starts, most, strict=True)]
    numbers = w.numbers(t, inside)
    # Windows that are partly out of bounds are skipped: they are written to a row behind the last one.
    for start, place in zip(starts, inside, strict=True):
        valid = t.emit(R.equal(start, place))
        valid = t.reshaped(valid, [*batch, *[1] * (len(w.places) - len(batch))])
        numbers = t.emit(R.where(valid, numbers, t.number(count, numbers)))
    order = [axis for axis in range(len(updates.shape)) if axis not in window] + window
    new = t.reshaped(t.permuted(updates.full, order), [math.prod(w.places), length])
    rows = t.emit(
        R.concat([t.reshaped(x.full, [count, length]), t.emit(R.zeros([1, length], x.dtype))], axis=0)
    )
    at = t.emit(R.astype(t.reshaped(numbers, [math.prod(w.places), 1]), "int64"))
    y = t.emit(R.scatter_nd(rows, at, new, reduction))
    return [Value(t, t.reshaped(sliced(t, y, [0, 0], [count, length]), x.shape), x.shape)]


# Operator → its converter.
CONVERTERS: dict[str, Convert] = {"stablehlo.gather": _gather, "stablehlo.scatter": _scatter}
