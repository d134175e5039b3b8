# SPDX-License-Identifier: Apache-2.0
"""aten.index_put: data[i, j, …] = values, where an index may be a whole axis, as in writes to a KV cache."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from tvm import relax, tirx
from tvm.ir import Expr
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)
from tvm_ffi import structural_equal

from relay_passes.ir.shapes import element_count

Emit = Any  # of a BlockBuilder
Size: TypeAlias = int | Expr
"""Size of an axis; an expression where the program takes any size."""


def index_put(
    emit: Emit, data: relax.Expr, indices: Sequence[relax.Expr | None], values: relax.Expr, accumulate: bool
) -> relax.Expr:
    """Return the data with the values written at the indices.

    Args:
        emit: Binds a call.
        data: Any tensor.
        indices: Integers for each of the first axes, which broadcast against each other, or None for the
            whole axis; or one boolean tensor of the shape of data.
        values: The written values, which broadcast to the indexed elements.
        accumulate: Whether values are added to what stands there.

    Raises:
        ValueError: An index is boolean, and no mask of the whole data with one value.
    """
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(str(index.ty.dtype) == "bool" for index in given):
        return _masked(emit, data, given, values, accumulate)
    if len(axes) > 1:
        places = [positive(emit, index, dims(data)[axis]) for axis, index in zip(axes, given, strict=True)]
        return _many(emit, data, axes, places, values, accumulate)
    axis, rank = axes[0], len(dims(data))
    shape = dims(given[0])
    count = math.prod(shape)
    before, after = dims(data)[:axis], dims(data)[axis + 1 :]
    values = emit(R.broadcast_to(values, [*before, *shape, *after]))
    values = emit(R.reshape(values, [*before, count, *after]))
    place = emit(R.reshape(given[0], [1] * axis + [count] + [1] * (rank - axis - 1)))
    if count == 1 and not accumulate:
        # Taken from all places, an index out of bounds is told as one; none equals it.
        every = emit(R.arange(0, dims(data)[axis], 1, "int64"))
        place = emit(R.take(every, positive(emit, place, dims(data)[axis]), 0, "fast"))
        return emit(R.where(emit(R.equal(_numbers(emit, data, axis), place)), values, data))
    # Which takes -1 as the last place itself; taken twice, an index further out would be in bounds.
    spread = emit(R.broadcast_to(place, dims(values)))
    return emit(R.scatter_elements(data, spread, values, axis, "add" if accumulate else "update"))


def _many(
    emit: Emit,
    data: relax.Expr,
    axes: Sequence[int],
    places: Sequence[relax.Expr],
    values: relax.Expr,
    accumulate: bool,
) -> relax.Expr:
    """Emit the write for several indices: their axes are moved to the front, and back afterwards."""
    sizes = dims(data)
    others = [axis for axis in range(len(sizes)) if axis not in axes]
    shape = list(np.broadcast_shapes(*(tuple(dims(place)) for place in places)))
    rest = [sizes[axis] for axis in others]
    # Where the indices are beside each other, their result stands in their place, and otherwise in front.
    first = axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0
    values = emit(R.broadcast_to(values, [*rest[:first], *shape, *rest[first:]]))
    ahead = list(range(first, first + len(shape)))
    values = emit(R.permute_dims(values, ahead + [k for k in range(len(dims(values))) if k not in ahead]))
    spread = [emit(R.expand_dims(emit(R.broadcast_to(place, shape)), -1)) for place in places]
    order = [*axes, *others]
    moved = emit(R.permute_dims(data, order))
    nd = emit(R.concat(spread, axis=-1))
    put = emit(R.scatter_nd(moved, nd, values, "add" if accumulate else "update"))
    return emit(R.permute_dims(put, [order.index(axis) for axis in range(len(sizes))]))


def _masked(
    emit: Emit, data: relax.Expr, given: Sequence[relax.Expr], values: relax.Expr, accumulate: bool
) -> relax.Expr:
    is_whole = len(given) == 1 and structural_equal(given[0].ty.shape, data.ty.shape)
    if not is_whole or element_count(values.ty) != 1:
        raise ValueError("a boolean index is supported only for all of the data and a single value")
    one = emit(R.reshape(values, [1] * len(dims(data))))
    return emit(R.where(given[0], emit(R.add(data, one)) if accumulate else one, data))


def positive(emit: Emit, index: relax.Expr, size: Size) -> relax.Expr:
    """Return an index with negative values counted from the end of an axis."""
    dtype = str(index.ty.dtype)
    from_end = emit(R.add(index, _tensor(emit, size, dtype)))
    return emit(R.where(emit(R.less(index, relax.const(0, dtype))), from_end, index))


def _numbers(emit: Emit, data: relax.Expr, axis: int) -> relax.Expr:
    size, rank = dims(data)[axis], len(dims(data))
    return emit(R.reshape(emit(R.arange(0, size, 1, "int64")), [1] * axis + [size] + [1] * (rank - axis - 1)))


def _tensor(emit: Emit, size: Size, dtype: str) -> relax.Expr:
    """Return a size as a scalar tensor, for which Relax has no operator."""
    if isinstance(size, int):
        return relax.const(size, dtype)
    return emit(R.reshape(emit(R.arange(size, size + 1, 1, dtype)), []))


def dims(value: relax.Expr) -> list[Size]:
    """Return the sizes of a tensor, numbers where they are known."""
    return [int(dim) if isinstance(dim, tirx.IntImm) else dim for dim in value.ty.shape.values]
