# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that move elements, in variants for which TVM has no converter.

They see float tensors only; see `converter`.
"""

from typing import Any

import numpy as np
import tflite
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.operands import Convert, data_of, options_of, parts, shape_of, take

_REFLECT, _SYMMETRIC = 0, 1


def _gather(c: Any, op: Any) -> relax.Expr:
    """Convert GATHER, in which data and indices may share batch axes; negative axes count from the end."""
    options = options_of(op, tflite.GatherOptions)
    x, places = c.get_input_tensors(op)
    rank, count = len(shape_of(x)), len(shape_of(places))
    axis, batch = options.Axis() % rank, options.BatchDims()
    batch += count if batch < 0 else 0
    value, at = data_of(c, x), relax.op.astype(data_of(c, places), "int64")
    if not batch:
        return relax.op.take(value, at, axis, "fast")
    # Move `axis` directly behind the batch axes; the axes in between follow the axes of the indices.
    between = range(batch, axis)
    value = relax.op.permute_dims(value, [*range(batch), axis, *between, *range(axis + 1, rank)])
    y = relax.op.gather_nd(value, relax.op.expand_dims(at, -1), batch)
    own = range(count, count + len(between))
    last = range(count + len(between), count + rank - 1 - batch)
    return relax.op.permute_dims(y, [*range(batch), *own, *range(batch, count), *last])


def _gather_nd(c: Any, op: Any) -> relax.Expr:
    """Convert GATHER_ND; index vectors are along the last axis, as in Relax."""
    x, places = c.get_input_tensors(op)
    return relax.op.gather_nd(data_of(c, x), relax.op.astype(data_of(c, places), "int64"))


def _split_v(c: Any, op: Any) -> relax.Expr:
    """Convert SPLIT_V by the outputs' shapes, since a -1 may stand for one of the sizes."""
    x, _, axis = c.get_input_tensors(op)
    along = int(c.get_tensor_value(axis))
    sizes = [shape_of(output)[along] for output in c.get_output_tensors(op)]
    return parts(c, relax.op.split(data_of(c, x), [int(n) for n in np.cumsum(sizes)[:-1]], along), len(sizes))


def _mirror_pad(c: Any, op: Any) -> relax.Expr:
    """Convert MIRROR_PAD axis by axis, as a concatenation with the elements that the border repeats."""
    mode = options_of(op, tflite.MirrorPadOptions).Mode()
    x, widths = c.get_input_tensors(op)
    value = data_of(c, x)
    for axis, (size, width) in enumerate(zip(shape_of(x), c.get_tensor_value(widths), strict=True)):
        if any(width):
            name = "symmetric" if mode == _SYMMETRIC else "reflect"
            places = np.pad(np.arange(size), [int(n) for n in width], mode=name)  # type: ignore[call-overload]
            value = take(value, relax.const(places.astype(np.int64)), axis)
    return value


def _space_to_batch(c: Any, op: Any) -> relax.Expr:
    """Convert SPACE_TO_BATCH_ND: [N, spatial, rest] → [blocks N, spatial / blocks, rest], padded first."""
    x, sizes, pads = c.get_input_tensors(op)
    blocks = [int(size) for size in c.get_tensor_value(sizes)]
    batch, *shape = shape_of(x)
    count = len(blocks)
    widths = [(0, 0), *map(tuple, c.get_tensor_value(pads)), *[(0, 0)] * (len(shape) - count)]
    value = relax.op.nn.pad(data_of(c, x), [int(n) for pair in widths for n in pair])
    wide = [size + int(sum(pair)) for size, pair in zip(shape, widths[1:], strict=True)]
    split = [n for size, block in zip(wide, blocks, strict=False) for n in (size // block, block)]
    value = relax.op.reshape(value, (batch, *split, *wide[count:]))
    inner, between = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    rest = range(2 * count + 1, 2 * count + 1 + len(wide) - count)
    value = relax.op.permute_dims(value, [*inner, 0, *between, *rest])
    outer = [size // block for size, block in zip(wide, blocks, strict=False)]
    return relax.op.reshape(value, (batch * int(np.prod(blocks)), *outer, *wide[count:]))


def _batch_to_space(c: Any, op: Any) -> relax.Expr:
    """Convert BATCH_TO_SPACE_ND: [blocks N, spatial, rest] → [N, spatial * blocks, rest], then cropped."""
    x, sizes, crops = c.get_input_tensors(op)
    blocks = [int(size) for size in c.get_tensor_value(sizes)]
    batch, *shape = shape_of(x)
    count, own = len(blocks), batch // int(np.prod(blocks))
    value = relax.op.reshape(data_of(c, x), (*blocks, own, *shape))
    pairs = [axis for k in range(count) for axis in (count + 1 + k, k)]
    value = relax.op.permute_dims(value, [count, *pairs, *range(2 * count + 1, count + 1 + len(shape))])
    wide = [size * block for size, block in zip(shape, blocks, strict=False)]
    value = relax.op.reshape(value, (own, *wide, *shape[count:]))
    cropped = [
        (int(low), size - int(high))
        for (low, high), size in zip(c.get_tensor_value(crops), wide, strict=True)
    ]
    starts, ends = zip(*cropped, strict=True)
    return relax.op.strided_slice(value, [*range(1, count + 1)], starts, ends)


def _select(c: Any, op: Any) -> relax.Expr:
    """Convert SELECT; a condition with one axis chooses whole rows."""
    condition, x, y = c.get_input_tensors(op)
    chosen, rank = data_of(c, condition), len(shape_of(x))
    if len(shape_of(condition)) == 1 < rank:
        chosen = relax.op.reshape(chosen, (-1, *[1] * (rank - 1)))
    return relax.op.where(chosen, data_of(c, x), data_of(c, y))


def _embedding_lookup(c: Any, op: Any) -> relax.Expr:
    places, table = c.get_input_tensors(op)
    return relax.op.take(data_of(c, table), data_of(c, places), 0, "fast")


def _dynamic_update_slice(c: Any, op: Any) -> relax.Expr:
    """Convert DYNAMIC_UPDATE_SLICE by a selection per element; a slice that would exceed the tensor is moved back."""
    x, update, starts = c.get_input_tensors(op)
    value, inside = data_of(c, update), None
    begin = relax.op.astype(data_of(c, starts), "int64")
    for axis, (size, length) in enumerate(zip(shape_of(x), shape_of(update), strict=True)):
        start = relax.op.strided_slice(begin, [0], [axis], [axis + 1])
        start = relax.op.clip(start, 0, size - length)
        place = c.bb.emit(relax.op.subtract(relax.const(np.arange(size), "int64"), start))
        value = take(value, relax.op.clip(place, 0, length - 1), axis)
        zero, end = (relax.const(n, "int64") for n in (0, length))
        own = relax.op.logical_and(relax.op.greater_equal(place, zero), relax.op.less(place, end))
        own = relax.op.reshape(own, [size if k == axis else 1 for k in range(len(shape_of(x)))])
        inside = own if inside is None else relax.op.logical_and(inside, own)
    return data_of(c, update) if inside is None else relax.op.where(inside, value, data_of(c, x))


def _scatter_nd(c: Any, op: Any) -> relax.Expr:
    """Convert SCATTER_ND: updates of one index are summed.

    Other elements are the integer 0, whatever the zero point.
    """
    places, updates, _ = c.get_input_tensors(op)
    (output,) = c.get_output_tensors(op)
    value = data_of(c, updates)
    nothing = relax.const(np.zeros(shape_of(output), str(value.ty.dtype)))
    at = relax.op.astype(data_of(c, places), "int64")
    raw = 0.0
    if params := c.tensor(output.tensor_idx).qnn_params:
        scale, zero_point = (params[k].value.numpy() for k in ("scale", "zero_point"))
        raw = float(scale) * float(zero_point)
    if not raw:
        return relax.op.scatter_nd(nothing, at, value, "add")
    shift = relax.const(np.float32(raw))
    total = relax.op.scatter_nd(nothing, at, relax.op.add(value, shift), "add")
    return relax.op.subtract(total, shift)


def _sparse_to_dense(c: Any, op: Any) -> relax.Expr:
    """Convert SPARSE_TO_DENSE, whose indices are index vectors or indices along one axis."""
    places, _, values, default = c.get_input_tensors(op)
    (output,) = c.get_output_tensors(op)
    shape, rank = shape_of(output), len(shape_of(places))
    at = relax.op.astype(data_of(c, places), "int64")
    if rank < 2:
        at = relax.op.reshape(at, (-1, len(shape) if rank == 0 else 1))
    dense = relax.op.broadcast_to(data_of(c, default), shape)
    count = int(np.prod(shape_of(places)[:1]))
    value = data_of(c, values) if shape_of(values) else relax.op.broadcast_to(data_of(c, values), (count,))
    return relax.op.scatter_nd(dense, at, value, "update")


def _matrix_diag(c: Any, op: Any) -> relax.Expr:
    (x,) = c.get_input_tensors(op)
    shape = shape_of(x)
    eye, row = np.eye(shape[-1], dtype=bool), relax.op.expand_dims(data_of(c, x), -1)
    nothing = relax.const(np.zeros((), str(data_of(c, x).ty.dtype)))
    return relax.op.where(relax.const(eye), row, nothing)


def _matrix_set_diag(c: Any, op: Any) -> relax.Expr:
    x, diagonal = c.get_input_tensors(op)
    *_, rows, columns = shape_of(x)
    least = min(rows, columns)
    if shape_of(diagonal)[-1] != least:
        raise ModelError(f"its diagonal has {shape_of(diagonal)[-1]} elements; expected {least}")
    places = relax.const(np.minimum(np.arange(rows), least - 1))
    row = relax.op.expand_dims(take(data_of(c, diagonal), places, -1), -1)
    return relax.op.where(relax.const(np.eye(rows, columns, dtype=bool)), row, data_of(c, x))


MOVES: dict[str, Convert] = {
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "DYNAMIC_UPDATE_SLICE": _dynamic_update_slice,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "MATRIX_DIAG": _matrix_diag,
    "MATRIX_SET_DIAG": _matrix_set_diag,
    "MIRROR_PAD": _mirror_pad,
    "SCATTER_ND": _scatter_nd,
    "SELECT": _select,
    "SELECT_V2": _select,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SPARSE_TO_DENSE": _sparse_to_dense,
    "SPLIT_V": _split_v,
}
"""TFLite's operator name → its converter."""
