# SPDX-License-Identifier: Apache-2.0
"""Helpers that emit TOSA operators."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tosa_serializer as ts

from arm_ext.ethosu.tosa.graph import DTYPES, TosaGraph, TosaTensor
from schedules.numerics.tosa import RescaleFactor, scale_of

Array = npt.NDArray[Any]

ONE = scale_of(1.0)
IGNORE_NAN = ts.NanPropagationMode.PROPAGATE
"""NaN mode that the serializer requires of integer operators, on which it has no effect."""


def rescale(
    graph: TosaGraph,
    x: TosaTensor,
    scale: RescaleFactor | tuple[Array, int],
    dtype: str,
    *,
    input_zero_point: int = 0,
    zero_point: int = 0,
) -> TosaTensor:
    """Emit RESCALE by one scale, or by a multiplier per channel with one shift.

    Args:
        graph: The TOSA graph.
        x: The value; its last axis are the channels.
        scale: One scale, or multipliers [channels] with their common shift; multipliers have 15 bits if x is
            int48.
        dtype: Dtype of the result, which is rounded half up, shifted by `zero_point`, then saturated.
        input_zero_point: Zero point of x, which is subtracted first.
        zero_point: Zero point of the result, which is added last.

    Raises:
        ValueError: The multipliers follow another axis; `integerize` makes no such operator.
    """
    multipliers, shift = (
        (np.array([scale.multiplier]), scale.shift) if isinstance(scale, RescaleFactor) else scale
    )
    narrow = x.dtype == "int48"
    flat = multipliers.reshape(-1).astype(np.int16 if narrow else np.int32)
    if flat.size not in (1, x.shape[-1] if x.shape else 1):
        raise ValueError(f"{flat.size} multipliers for {x.shape[-1]} channels")
    inputs = [
        x,
        graph.constant(flat),
        graph.constant(np.full(flat.shape, shift, np.int8)),
        graph.scalar(input_zero_point, x.dtype),
        graph.scalar(zero_point, dtype),
    ]
    single, per_channel = ts.RoundingMode.SINGLE_ROUND, flat.size > 1
    return graph.add(ts.Op.RESCALE, inputs, x.shape, dtype, not narrow, single, per_channel, False, False)


def widened(graph: TosaGraph, x: TosaTensor, zero_point: int) -> TosaTensor:
    """Emit x - zero_point as int32."""
    return rescale(graph, x, ONE, "int32", input_zero_point=zero_point)


def clamped(graph: TosaGraph, x: TosaTensor, low: int, high: int) -> TosaTensor:
    """Emit CLAMP to [low, high], unless these are the dtype's limits."""
    info = np.iinfo(x.dtype)
    if (low, high) == (info.min, info.max):
        return x
    ends = [
        ts.TosaSerializer.convertDataToUint8Vec(DTYPES[x.dtype], np.array([end], x.dtype))
        for end in (low, high)
    ]
    return graph.add(ts.Op.CLAMP, [x], x.shape, x.dtype, *ends, IGNORE_NAN)


def reshaped(graph: TosaGraph, x: TosaTensor, shape: Sequence[int]) -> TosaTensor:
    """Emit RESHAPE, unless the shape is the same."""
    if tuple(shape) == x.shape:
        return x
    if math.prod(shape) != math.prod(x.shape):
        raise ValueError(f"{x.shape} cannot be reshaped to {tuple(shape)}")
    return graph.add(ts.Op.RESHAPE, [x, graph.sizes(shape)], shape, x.dtype)


def sliced(graph: TosaGraph, x: TosaTensor, start: Sequence[int], size: Sequence[int]) -> TosaTensor:
    """Emit SLICE, unless it selects the complete tensor.

    One channel of several is sliced as the column of a matrix: Vela 5.2 for Ethos-U85 loses the stride of other such
    slices if they become channels again.
    """
    if tuple(size) == x.shape:
        return x
    if size[-1] == 1 < x.shape[-1]:
        whole = (*size[:-1], x.shape[-1])
        cut = sliced(graph, x, (*start[:-1], 0), whole)
        rows = math.prod(whole[:-1])
        column = _sliced(graph, reshaped(graph, cut, (rows, whole[-1])), (0, start[-1]), (rows, 1))
        return reshaped(graph, column, size)
    return _sliced(graph, x, start, size)


def _sliced(graph: TosaGraph, x: TosaTensor, start: Sequence[int], size: Sequence[int]) -> TosaTensor:
    return graph.add(ts.Op.SLICE, [x, graph.sizes(start), graph.sizes(size)], size, x.dtype)


def tiled(graph: TosaGraph, data: TosaTensor, shape: Sequence[int]) -> TosaTensor:
    """Emit TILE to a shape of the same rank."""
    times = [size // own for size, own in zip(shape, data.shape, strict=True)]
    if tuple(shape) == data.shape:
        return data
    return graph.add(ts.Op.TILE, [data, graph.sizes(times)], shape, data.dtype)


def unsliced(graph: TosaGraph, x: TosaTensor) -> TosaTensor:
    """Emit a copy of a value that is a SLICE, perhaps reshaped; return other values unchanged."""
    return _copied_of(graph, x, (ts.Op.SLICE,))


def unjoined(graph: TosaGraph, x: TosaTensor) -> TosaTensor:
    """Emit a copy of a value that SLICE, CONCAT, PAD or TILE computed, perhaps reshaped.

    Return other values unchanged.
    """
    return _copied_of(graph, x, (ts.Op.SLICE, ts.Op.CONCAT, ts.Op.PAD, ts.Op.TILE))


def _copied_of(graph: TosaGraph, x: TosaTensor, operators: Sequence[Any]) -> TosaTensor:
    made = graph.made(x)
    while made is not None and made.operator == ts.Op.RESHAPE:
        made = graph.made(made.inputs[0])
    return copied(graph, x) if made is not None and made.operator in operators else x


def copied(graph: TosaGraph, x: TosaTensor) -> TosaTensor:
    """Emit an identity that Vela does not remove: TABLE for int8, halved x + x for int16.

    Bools and values of 32 bits are returned as they are, since no operator here reads a part of them.
    """
    if x.dtype not in ("int8", "int16"):
        return x
    if x.dtype == "int16":
        wide = widened(graph, x, 0)
        twice = graph.add(ts.Op.ADD, [wide, wide], x.shape, "int32")
        return rescale(graph, twice, scale_of(0.5), x.dtype)
    info = np.iinfo(x.dtype)
    every = graph.constant(np.arange(info.min, info.max + 1).astype(x.dtype))
    return looked_up(graph, x, every)


def looked_up(graph: TosaGraph, x: TosaTensor, entries: TosaTensor) -> TosaTensor:
    """Emit TABLE before the transpositions and reshapes that make its input.

    Vela 5.2 fuses a transposition and a table after it into one command, and does it wrongly: it places the table
    beyond a shared RAM of 16 KiB, and omits it if two transpositions cancel, or on Ethos-U85 if another table comes
    before.
    """
    made, dtype = graph.made(x), "int32" if x.dtype == "int16" else entries.dtype
    if made is not None and made.operator in (ts.Op.RESHAPE, ts.Op.TRANSPOSE):
        source, *rest = made.inputs
        first = looked_up(graph, source, entries)
        return graph.add(made.operator, [first, *rest], x.shape, dtype, *made.attributes)
    return graph.add(ts.Op.TABLE, [x, entries], x.shape, dtype)


def joined(graph: TosaGraph, parts: Sequence[TosaTensor], axis: int) -> TosaTensor:
    """Emit CONCAT of several values."""
    if len(parts) == 1:
        return parts[0]
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return graph.add(ts.Op.CONCAT, parts, shape, parts[0].dtype, axis)


def reversed_along(graph: TosaGraph, value: TosaTensor, axis: int) -> TosaTensor:
    """Emit REVERSE along an axis as one along columns, which every Ethos-U supports."""
    shape = value.shape
    columns = (1, math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    rows = reshaped(graph, value, columns)
    return reshaped(graph, graph.add(ts.Op.REVERSE, [rows], columns, value.dtype, 2), shape)


def of_rank(graph: TosaGraph, x: TosaTensor, rank: int) -> TosaTensor:
    """Emit a RESHAPE to a higher rank with leading axes of 1, because TOSA broadcasts only operands of equal rank."""
    return reshaped(graph, x, (1,) * (rank - len(x.shape)) + x.shape)
