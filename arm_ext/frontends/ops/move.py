# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements without computing."""

from collections.abc import Sequence

import numpy as np
from tvm import relax

from arm_ext.frontends.graph import Value
from arm_ext.frontends.ops.arithmetic import cast, clip, equal, floor_mod, where
from arm_ext.frontends.ops.gather_scatter import gather_elements

R = relax.op


def concatenate(values: Sequence[Value], axis: int) -> Value:
    """Return values concatenated along an axis.

    Those without elements are left out, whatever their rank, as an empty KV cache may have another: TVM loads no
    empty constants.
    """
    full = [x for x in values if 0 not in x.shape] or values[-1:]
    return full[0] if len(full) == 1 else full[0].graph.hold(R.concat([x.full for x in full], axis))


def counted(x: Value, axis: int, rank: int) -> Value:
    """Return 0, 1, 2, … (int64) for the elements of axis `axis` of x, along that axis of a tensor of rank `rank`."""
    shape = [-1 if each == axis else 1 for each in range(rank)]
    return x.graph.hold_constant(np.arange(x.shape[axis]).reshape(shape))


def one_hot(index: Value, count: int, axis: int, off: Value, on: Value) -> Value:
    """Return `on` where an index equals the position along a new axis of `count` elements, and `off` elsewhere.

    Indices are integers, or floats that are cut; negative ones count from the end.
    """
    whole = cast(index, "int64")
    whole = where(whole < 0, whole + count, whole)
    column = whole.reshape((*index.shape[:axis], 1, *index.shape[axis:]))
    every = np.arange(count).reshape([-1 if each == axis else 1 for each in range(len(column.shape))])
    return where(equal(column, index.graph.hold_constant(every)), on, off)


def space_to_depth(x: Value, block: int, *, depth_first: bool = False) -> Value:
    """Return blocks of pixels moved to channels: [n, c, h b, w b] → [n, b b c, h, w].

    Args:
        x: The images.
        block: Size of a block, b.
        depth_first: Whether the channels of a pixel are apart, [n, c b b, h, w].
    """
    n, c, h, w = x.shape
    channels = [1, 3, 5] if depth_first else [3, 5, 1]
    blocks = x.reshape((n, c, h // block, block, w // block, block)).permute([0, *channels, 2, 4])
    return blocks.reshape((n, c * block * block, h // block, w // block))


def reverse_sequence(x: Value, lengths: Value, time: int, batch: int) -> Value:
    """Return x with the first `length` elements along `time` reversed, for each element of `batch`."""
    t = counted(x, time, len(x.shape))
    ends = cast(lengths, "int64").reshape(tuple(n if axis == batch else 1 for axis, n in enumerate(x.shape)))
    return gather_elements(x, where(t < ends, ends - 1 - t, t), time)


def write_rows(x: Value, update: Value, first: Value | None, axis: int, *, circular: bool = False) -> Value:
    """Return x with the rows from `first` on replaced by `update`, as in a cache of keys and values.

    Args:
        x: The data, the first axis of which is the batch.
        update: The rows, whose sizes are those of x but along `axis`.
        first: Index of the first row for each element of the batch; 0 without it.
        axis: The axis of the rows.
        circular: Whether rows behind the last one are written from the first one on; they are left out otherwise.
    """
    rank, length = len(x.shape), update.shape[axis]
    at = counted(x, axis, rank)
    if first is not None:
        at = at - cast(first, "int64").reshape((first.shape[0], *[1] * (rank - 1)))
    at = floor_mod(at, x.shape[axis]) if circular else at
    new = gather_elements(update, clip(at, 0, length - 1), axis)
    return where((at < length) & (at >= 0), new, x)
