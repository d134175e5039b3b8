# SPDX-License-Identifier: Apache-2.0
"""aten.index_put: data[i, j, …] = values, where an index may be a whole axis, as in writes to a KV cache."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

Emit = Any  # of a BlockBuilder


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
        ValueError: Booleans that are no mask of all data with one value.
    """
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(str(index.ty.dtype) == "bool" for index in given):
        return _masked(emit, data, given, values, accumulate)
    if len(axes) > 1:
        places = [positive(emit, index, _dims(data)[axis]) for axis, index in zip(axes, given, strict=True)]
        return _many(emit, data, axes, places, values, accumulate)
    axis, rank = axes[0], len(_dims(data))
    shape = _dims(given[0])
    count = math.prod(shape)
    before, after = _dims(data)[:axis], _dims(data)[axis + 1 :]
    values = emit(R.broadcast_to(values, [*before, *shape, *after]))
    values = emit(R.reshape(values, [*before, count, *after]))
    place = emit(R.reshape(given[0], [1] * axis + [count] + [1] * (rank - axis - 1)))
    if count == 1 and not accumulate:
        # Taken from all places, an index out of bounds is told as one; none equals it.
        every = emit(R.arange(0, _dims(data)[axis], 1, "int64"))
        place = emit(R.take(every, positive(emit, place, _dims(data)[axis]), 0, "fast"))
        return emit(R.where(emit(R.equal(_numbers(emit, data, axis), place)), values, data))
    # Which takes -1 as the last place itself; taken twice, an index further out would be in bounds.
    spread = emit(R.broadcast_to(place, _dims(values)))
    return emit(R.scatter_elements(data, spread, values, axis, "add" if accumulate else "update"))


def _many(
    emit: Emit,
    data: relax.Expr,
    axes: Sequence[int],
    places: Sequence[relax.Expr],
    values: relax.Expr,
    accumulate: bool,
) -> relax.Expr:
    """Several indices: their axes in front of the others, and back."""
    dims = _dims(data)
    others = [axis for axis in range(len(dims)) if axis not in axes]
    shape = list(np.broadcast_shapes(*(tuple(_dims(place)) for place in places)))
    rest = [dims[axis] for axis in others]
    # Where the indices are beside each other, their result stands in their place, and otherwise in front.
    first = axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0
    values = emit(R.broadcast_to(values, [*rest[:first], *shape, *rest[first:]]))
    ahead = list(range(first, first + len(shape)))
    values = emit(R.permute_dims(values, ahead + [k for k in range(len(_dims(values))) if k not in ahead]))
    spread = [emit(R.expand_dims(emit(R.broadcast_to(place, shape)), -1)) for place in places]
    order = [*axes, *others]
    moved = emit(R.permute_dims(data, order))
    nd = emit(R.concat(spread, axis=-1))
    put = emit(R.scatter_nd(moved, nd, values, "add" if accumulate else "update"))
    return emit(R.permute_dims(put, [order.index(axis) for axis in range(len(dims))]))


def _masked(
    emit: Emit, data: relax.Expr, given: Sequence[relax.Expr], values: relax.Expr, accumulate: bool
) -> relax.Expr:
    if len(given) > 1 or _dims(given[0]) != _dims(data) or math.prod(_dims(values)) != 1:
        raise ValueError("a boolean index is supported only for all of the data and a single value")
    one = emit(R.reshape(values, [1] * len(_dims(data))))
    return emit(R.where(given[0], emit(R.add(data, one)) if accumulate else one, data))


def positive(emit: Emit, index: relax.Expr, size: int) -> relax.Expr:
    """Return an index with negative values counted from the end."""
    dtype = str(index.ty.dtype)
    from_end = emit(R.add(index, relax.const(size, dtype)))
    return emit(R.where(emit(R.less(index, relax.const(0, dtype))), from_end, index))


def _numbers(emit: Emit, data: relax.Expr, axis: int) -> relax.Expr:
    dims = _dims(data)
    numbers = emit(R.arange(0, dims[axis], 1, "int64"))
    return emit(R.reshape(numbers, [1] * axis + [dims[axis]] + [1] * (len(dims) - axis - 1)))


def _dims(value: relax.Expr) -> list[int]:
    return [int(dim) for dim in value.ty.shape.values]
