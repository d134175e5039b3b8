# SPDX-License-Identifier: Apache-2.0
"""Reads and writes of elements at indices that are held in tensors.

Indices out of bounds are reported by the run: a kernel that reads or writes with one fails. Negative indices count
from the end of their axis.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from tvm import relax
from tvm_ffi import structural_equal

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Shape, Value
from arm_ext.frontends.ops.arithmetic import cast, equal, where

R = relax.op
Indices = Sequence[Value | None]
"""For each of the first axes integers, which broadcast against each other, or None for the whole axis."""
Reduction = Literal["update", "add", "mul", "max", "min"]
"""What becomes of an element and the value that is written to it."""


def positive(index: Value, size: int) -> Value:
    """Return indices with negative ones counted from the end of an axis; the size of the axis may be symbolic."""
    return where(index < 0, index + _scalar(index, size), index)


def _scalar(like: Value, size: int) -> Value | int:
    """Return a constant size unchanged, and a symbolic one as a scalar tensor, for which Relax has no operator."""
    if isinstance(size, int):
        return size
    return like.graph.hold(R.arange(size, size + 1, 1, like.dtype)).reshape(())


def take(x: Value, index: Value, axis: int) -> Value:
    """Return the elements at indices along an axis; the axes of `index` replace this axis."""
    return x.graph.hold(R.take(x.full, positive(index, x.shape[axis]).full, axis, "fast"))


def take_clipped(x: Value, index: Value, axis: int) -> Value:
    """Return the elements at indices along an axis; indices out of bounds are clamped."""
    return x.graph.hold(R.take(x.full, index.full, axis, "clip"))


def gather_elements(x: Value, index: Value, axis: int) -> Value:
    """Return, for each index, the element at it along an axis; its other coordinates are those of the index.

    Indices broadcast to x along all other axes.
    """
    shape = tuple(index.shape[each] if each == axis else n for each, n in enumerate(x.shape))
    return x.graph.hold(R.gather_elements(x.full, _expand(index, shape).full, axis))


def up_to(x: Value, most: int, what: str) -> Value:
    """Return integers from 0 to `most`; at run time, other values are reported as indices out of bounds.

    Args:
        x: The integers.
        most: The largest one allowed.
        what: What they are, for the message: "input 'lengths'".

    Raises:
        ModelError: The value is constant and out of range.
    """
    known = x.constant()
    if known is not None:
        wrong = known[(known < 0) | (known > most)]
        if wrong.size:
            raise ModelError(f"its {what} has {wrong[0]}, which is out of bounds: the range is 0 to {most}")
        return x
    every = x.graph.hold_constant(np.arange(most + 1, dtype=x.dtype))
    return x.graph.hold(R.take(every.full, where(x < 0, most + 1, x).full, 0, "fast"))


def index(x: Value, indices: Indices) -> Value:
    """Return x[i, :, j, …].

    Raises:
        ValueError: An index is boolean, so that the size of the result depends on the data.
    """
    axes, given = _indexed(indices)
    if any(each.dtype == "bool" for each in given):
        raise ValueError(
            "indexing by booleans gives a shape that depends on data; use torch.where, which keeps the shape"
        )
    if len(axes) == 1:
        return take(x, given[0], axes[0])
    places = [positive(each, x.shape[axis]) for axis, each in zip(axes, given, strict=True)]
    others = [axis for axis in range(len(x.shape)) if axis not in axes]
    moved = x.permute([*axes, *others])
    found = x.graph.hold(R.index_tensor(moved.full, [each.full for each in places]))
    first = _first(axes)
    count = len(found.shape) - len(others)
    return found.permute(
        [*range(count, count + first), *range(count), *range(count + first, len(found.shape))]
    )


def _indexed(indices: Indices) -> tuple[list[int], list[Value]]:
    """Return the axes that are indexed, and their indices."""
    found = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    return [axis for axis, _ in found], [each for _, each in found]


def _first(axes: Sequence[int]) -> int:
    """Return the first axis of the indices in a result: the first indexed axis if they are neighbours, else 0."""
    return axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0


def index_put(x: Value, indices: Indices, values: Value, *, accumulate: bool = False) -> Value:
    """Return x with x[i, :, j, …] = values, or += values with `accumulate`, as in writes to a KV cache.

    Args:
        x: Any tensor.
        indices: Its indices; or one boolean tensor of its shape.
        values: The written values, which broadcast to the indexed elements.
        accumulate: Whether values are added.

    Raises:
        ValueError: An index is boolean, and no mask of the whole data with one value.
    """
    axes, given = _indexed(indices)
    reduction: Reduction = "add" if accumulate else "update"
    if any(each.dtype == "bool" for each in given):
        return _masked(x, given, values, accumulate)
    if len(axes) > 1:
        return _put_at_many(x, axes, given, values, reduction)
    axis, shape = axes[0], given[0].shape
    before, after, count = x.shape[:axis], x.shape[axis + 1 :], math.prod(shape)
    values = _expand(values, (*before, *shape, *after)).reshape((*before, count, *after))
    place = given[0].reshape((*[1] * axis, count, *[1] * len(after)))
    if count == 1 and not accumulate:
        # `take` looks the index up in the list of all indices, because it reports an index out of bounds; a comparison
        # with the list would not.
        every = x.graph.hold(R.arange(0, x.shape[axis], 1, "int64"))
        here = equal(every.reshape((*[1] * axis, x.shape[axis], *[1] * len(after))), take(every, place, 0))
        return where(here, values, x)
    # The kernel itself adds the size to a negative index; adding it here, too, would make indices below -size valid.
    return scatter_elements(x, _expand(place, values.shape), values, axis, reduction)


def _put_at_many(
    x: Value, axes: Sequence[int], given: Sequence[Value], values: Value, reduction: Reduction
) -> Value:
    """Write at indices along several axes, which are moved to the front before and back after."""
    places = [positive(each, x.shape[axis]) for axis, each in zip(axes, given, strict=True)]
    others = [axis for axis in range(len(x.shape)) if axis not in axes]
    shape = tuple(np.broadcast_shapes(*(each.shape for each in places)))
    rest, first = [x.shape[axis] for axis in others], _first(axes)
    values = _expand(values, (*rest[:first], *shape, *rest[first:]))
    ahead = list(range(first, first + len(shape)))
    values = values.permute(ahead + [k for k in range(len(values.shape)) if k not in ahead])
    order = [*axes, *others]
    spread = [_expand(each, shape).reshape((*shape, 1)).full for each in places]
    vectors = x.graph.hold(R.concat(spread, axis=-1))
    put = x.graph.hold(R.scatter_nd(x.permute(order).full, vectors.full, values.full, reduction))
    return put.permute([order.index(axis) for axis in range(len(order))])


def _masked(x: Value, given: Sequence[Value], values: Value, accumulate: bool) -> Value:
    is_whole = len(given) == 1 and structural_equal(given[0].full.ty.shape, x.full.ty.shape)
    if not is_whole or math.prod(values.shape) != 1:
        raise ValueError("a boolean index is supported only for all of the data and a single value")
    one = values.reshape((1,) * len(x.shape))
    return where(given[0], x + one if accumulate else one, x)


def _expand(x: Value, shape: Shape) -> Value:
    """Return the value broadcast to a shape by numpy's rules."""
    return x if tuple(x.shape) == tuple(shape) else x.graph.hold(R.broadcast_to(x.full, list(shape)))


def scatter_elements(x: Value, places: Value, values: Value, axis: int, reduction: Reduction) -> Value:
    """Write each value at its index along `axis`, and at its own coordinates along the other axes."""
    return x.graph.hold(R.scatter_elements(x.full, places.full, values.full, axis, reduction))


def windows(x: Value, axis: int, size: int, step: int) -> Value:
    """Return the windows along an axis; the elements of each window become the last axis."""
    if not x.shape:  # a window of size 1 on an axis of size 1 only adds the last axis
        return x.reshape((1,))
    starts = np.arange(0, x.shape[axis] - size + 1, step)
    places = x.graph.hold_constant((starts[:, None] + np.arange(size)).astype(np.int64))
    found = take_clipped(x, places, axis)
    return found.permute([*(k for k in range(len(found.shape)) if k != axis + 1), axis + 1])


def in_bounds(x: Value, number: int, axis: int) -> Value:
    """Return x at one index along an axis, which is removed; a negative index counts from the end."""
    size = x.shape[axis]
    if isinstance(size, int):
        return take_clipped(x, x.graph.hold_constant(np.array(number % size)), axis)
    begin = size + number if number < 0 else number
    part = x.graph.hold(R.strided_slice(x.full, [axis], [begin], [begin + 1]))
    return x.graph.hold(R.squeeze(part.full, [axis]))


def steps(start: Value, count: int, step: int) -> Value:
    """Return start, start + step, …: `count` indices."""
    return cast(start, "int64") + start.graph.hold_constant(np.arange(count, dtype=np.int64) * step)
