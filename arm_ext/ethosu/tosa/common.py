# SPDX-License-Identifier: Apache-2.0
"""Pieces that several operators are made of."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tosa_serializer as ts

from arm_ext.ethosu.tosa.graph import DTYPES, TosaGraph, Value
from schedules.numerics.tosa import Scale, scale_of

Array = npt.NDArray[Any]

ONE = scale_of(1.0)
IGNORE_NAN = ts.NanPropagationMode.PROPAGATE
"""What integer operators have to say of NaN, which they do not know."""


def rescale(
    graph: TosaGraph,
    x: Value,
    scale: Scale | tuple[Array, int],
    dtype: str,
    *,
    input_zero_point: int = 0,
    zero_point: int = 0,
) -> Value:
    """RESCALE by one scale, or by one multiplier a channel and the shift of all.

    Args:
        graph: Where to.
        x: Its last axis are the channels.
        scale: One, or multipliers int32 [channels] and their shift.
        dtype: Of the result, which is rounded half up, shifted by `zero_point`, then saturated.
        input_zero_point: Subtracted first.
        zero_point: Added last.
    """
    multipliers, shift = (np.array([scale.multiplier]), scale.shift) if isinstance(scale, Scale) else scale
    flat = multipliers.reshape(-1).astype(np.int32)
    inputs = [
        x,
        graph.constant(flat),
        graph.constant(np.full(flat.shape, shift, np.int8)),
        graph.scalar(input_zero_point, x.dtype),
        graph.scalar(zero_point, dtype),
    ]
    single, per_channel = ts.RoundingMode.SINGLE_ROUND, flat.size > 1
    return graph.add(ts.Op.RESCALE, inputs, x.shape, dtype, True, single, per_channel, False, False)


def widened(graph: TosaGraph, x: Value, zero_point: int) -> Value:
    """The integers that real numbers are multiples of: x - zero_point, as int32."""
    return rescale(graph, x, ONE, "int32", input_zero_point=zero_point)


def clamped(graph: TosaGraph, x: Value, attributes: Mapping[str, Any]) -> Value:
    """CLAMP from "low" to "high", where that is narrower than the dtype."""
    info = np.iinfo(x.dtype)
    low, high = int(attributes["low"]), int(attributes["high"])
    if (low, high) == (info.min, info.max):
        return x
    ends = [
        ts.TosaSerializer.convertDataToUint8Vec(DTYPES[x.dtype], np.array([end], x.dtype))
        for end in (low, high)
    ]
    return graph.add(ts.Op.CLAMP, [x], x.shape, x.dtype, *ends, IGNORE_NAN)


def reshaped(graph: TosaGraph, x: Value, shape: Sequence[int]) -> Value:
    """RESHAPE, where the shape is another one."""
    if tuple(shape) == x.shape:
        return x
    if math.prod(shape) != math.prod(x.shape):
        raise ValueError(f"{x.shape} does not reshape to {tuple(shape)}")
    return graph.add(ts.Op.RESHAPE, [x, graph.sizes(shape)], shape, x.dtype)


def sliced(graph: TosaGraph, x: Value, start: Sequence[int], size: Sequence[int]) -> Value:
    """SLICE, where it leaves something out."""
    if tuple(size) == x.shape:
        return x
    return graph.add(ts.Op.SLICE, [x, graph.sizes(start), graph.sizes(size)], size, x.dtype)


def joined(graph: TosaGraph, parts: Sequence[Value], axis: int) -> Value:
    """CONCAT of several values."""
    if len(parts) == 1:
        return parts[0]
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return graph.add(ts.Op.CONCAT, parts, shape, parts[0].dtype, axis)


def of_rank(graph: TosaGraph, x: Value, rank: int) -> Value:
    """With axes of 1 in front; TOSA broadcasts tensors of one rank only."""
    return reshaped(graph, x, (1,) * (rank - len(x.shape)) + x.shape)
