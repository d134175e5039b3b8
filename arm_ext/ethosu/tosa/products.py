# SPDX-License-Identifier: Apache-2.0
"""Emission of sums of products: CONV2D and its relatives or REDUCE_SUM, then RESCALE and CLAMP."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tosa_serializer as ts

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa.areas import by_area
from arm_ext.ethosu.tosa.common import (
    Array,
    clamped,
    joined,
    over_images,
    rescale,
    reshaped,
    sliced,
    unsliced,
    widened,
)
from arm_ext.ethosu.tosa.graph import DTYPES, TosaGraph, Value

MAX_KERNEL, MAX_KERNEL_AREA = 64, 4096
"""Of a convolution on every Ethos-U (Vela, SUPPORTED_OPS.md)."""

WIDE_SUMS = (
    "conv2d",
    "depthwise_conv2d",
    "conv2d_transpose",
    "conv3d",
    "run_time_conv2d",
    "linear",
    "matmul",
)
"""Kinds whose sums have 48 bits in TOSA where the data have 16."""

MAX_DILATION, MAX_STRIDE = 2, 3
"""Of a convolution that is one command on Ethos-U55 and U65 (Vela, SUPPORTED_OPS.md)."""


def conv2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """Emit a convolution; one with several groups as a convolution per group, because TOSA has no groups."""
    padding = operator.attributes["padding"]
    return over_images(graph, data, padding, lambda image: _conv2d(graph, operator, image))


def _conv2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    given = operator.attributes
    weight, groups = given["weight"], given["groups"]
    multiplier = of_channels(given["multiplier"], weight.shape[0])
    bias = of_channels(given["bias"], weight.shape[0])
    depth, out = weight.shape[3], weight.shape[0] // groups
    parts = []
    for group in range(groups):
        start = [0, 0, 0, group * depth]
        part = sliced(graph, data, start, (*data.shape[:3], depth)) if groups > 1 else data
        own = slice(group * out, (group + 1) * out)
        acc = _convolved(graph, ts.Op.CONV2D, part, weight[own], bias[own], given, out)
        parts.append(requantized(graph, acc, given, operator.output.dtype, multiplier[own]))
    return joined(graph, parts, 3)


def depthwise_conv2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """A depthwise convolution of any multiplier."""
    padding = operator.attributes["padding"]
    return over_images(graph, data, padding, lambda image: by_area(graph, operator, image, _depthwise_conv2d))


def _depthwise_conv2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    given = operator.attributes
    weight, channels = given["weight"], data.shape[3]
    out, rows, columns, _ = weight.shape
    own = weight.reshape(channels, out // channels, rows, columns).transpose(2, 3, 0, 1)
    acc = _convolved(
        graph,
        ts.Op.DEPTHWISE_CONV2D,
        data,
        own,
        of_channels(given["bias"], out),
        given,
        out,
        (rows, columns),
    )
    return requantized(graph, acc, given, operator.output.dtype, of_channels(given["multiplier"], out))


def conv2d_transpose(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """A transposed convolution of one group, without dilation."""
    given = operator.attributes
    weight, (top, left, bottom, right) = given["weight"], given["padding"]
    below, beside = given["output_padding"]
    out, bias = weight.shape[0], of_channels(given["bias"], weight.shape[0])
    weight, rows = _told_apart(graph, weight, bias, 1)
    inputs = operands(graph, data, weight, bias, given["input_zero_point"])
    grown = [-top, below - bottom - rows, -left, beside - right]
    acc = graph.add(
        ts.Op.TRANSPOSE_CONV2D,
        inputs,
        operator.output.shape,
        accumulators(data),
        grown,
        list(given["strides"]),
        False,
        DTYPES[accumulators(data)],
    )
    return requantized(graph, acc, given, operator.output.dtype, of_channels(given["multiplier"], out))


def linear(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """A matrix product with constant weights: a 1 x 1 convolution over the rows."""
    given = operator.attributes
    depth, out = given["weight"].shape
    rows = reshaped(graph, data, (1, math.prod(data.shape[:-1]), 1, depth))
    weight = np.ascontiguousarray(given["weight"].T).reshape(out, 1, 1, depth)
    plain = {"strides": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "input_zero_point": 0}
    acc = _convolved(graph, ts.Op.CONV2D, rows, weight, of_channels(given["bias"], out), plain, out)
    value = requantized(graph, acc, given, operator.output.dtype, of_channels(given["multiplier"], out))
    return reshaped(graph, value, operator.output.shape)


def reduce_sum(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """Emit a sum over rows and columns as a depthwise convolution by ones; other sums and 16 bits axis by axis."""
    given = operator.attributes
    window = data.shape[1:3]
    images = given["axes"] == (1, 2) and len(data.shape) == 4 and accumulators(data) == "int32"
    if images and fits_a_kernel(window):
        channels = data.shape[3]
        ones = np.ones((*window, channels, 1), np.int8)
        plain = {"strides": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "input_zero_point": 0}
        bias = of_channels(given["bias"], channels)
        acc = _convolved(graph, ts.Op.DEPTHWISE_CONV2D, data, ones, bias, plain, channels, window)
    else:
        acc = widened(graph, data, 0)
        # One element's sum is itself; where Vela 5.2 finds that too, it forgets how the value lies in memory.
        for axis in (axis for axis in given["axes"] if data.shape[axis] > 1):
            shape = [1 if at == axis else size for at, size in enumerate(acc.shape)]
            acc = graph.add(ts.Op.REDUCE_SUM, [acc], shape, "int32", axis)
        if given["bias"].any():
            offset = graph.constant(given["bias"].astype(np.int32).reshape((1,) * len(data.shape)))
            acc = graph.add(ts.Op.ADD, [acc, offset], acc.shape, "int32")
    value = requantized(graph, acc, given, operator.output.dtype, given["multiplier"].reshape(-1))
    return reshaped(graph, value, operator.output.shape)


def fits_a_kernel(window: Sequence[int]) -> bool:
    """Whether a convolution may have a kernel of this size."""
    return max(window) <= MAX_KERNEL and math.prod(window) <= MAX_KERNEL_AREA


def _convolved(
    graph: TosaGraph,
    operator: Any,
    data: Value,
    weight: Array,
    bias: Array,
    given: Mapping[str, Any],
    channels: int,
    kernel: Sequence[int] | None = None,
) -> Value:
    """Accumulators of a convolution; `kernel` where the weight's axes 1 and 2 are not its rows and columns."""
    data, size, pads = placed(graph, data, kernel or weight.shape[1:3], given)
    if _in_parts(operator, given, channels, data.shape[3]):
        data = unsliced(graph, data)
    weight, rows = _told_apart(graph, weight, bias, 0 if operator == ts.Op.DEPTHWISE_CONV2D else 1)
    pads[0] = (pads[0][0], pads[0][1] + rows * given["dilation"][0])
    inputs = operands(graph, data, weight, bias, given["input_zero_point"])
    shape = (data.shape[0], *size, channels)
    padding = [pad for pair in pads for pad in pair]
    strides, dilation, dtype = list(given["strides"]), list(given["dilation"]), accumulators(data)
    return graph.add(operator, inputs, shape, dtype, padding, strides, dilation, False, DTYPES[dtype])


def placed(
    graph: TosaGraph, data: Value, kernel: Sequence[int], given: Mapping[str, Any]
) -> tuple[Value, list[int], list[tuple[int, int]]]:
    """Return the data that windows read, the number of outputs along rows and columns, and the padding."""
    top, left, bottom, right = given["padding"]
    size, pads = [], []
    for axis, (before, after) in enumerate(((top, bottom), (left, right))):
        reach = data.shape[1 + axis] + before + after - (kernel[axis] - 1) * given["dilation"][axis] - 1
        # TOSA takes no rows that no window starts in.
        left_over = reach % given["strides"][axis]
        size.append(reach // given["strides"][axis] + 1)
        pads.append((before, after - left_over))
    kept, pads = _cut(graph, data, pads)
    return kept, size, pads


def _told_apart(graph: TosaGraph, weight: Array, bias: Array, axis: int) -> tuple[Array, int]:
    """Weights with rows of zeros behind them, and how many, where equal ones stand beside another bias.

    Of equal weights with equal scales, Vela 5.2 takes the first one's biases for all.
    """
    rows = graph.biases_before(weight, bias)
    return np.pad(weight, [(0, rows if at == axis else 0) for at in range(weight.ndim)]), rows


def _in_parts(operator: Any, given: Mapping[str, Any], channels: int, depth: int) -> bool:
    """Whether Vela makes several convolutions of one, which then forget that what they read is a part of a tensor."""
    several = operator == ts.Op.DEPTHWISE_CONV2D and channels > depth
    return several or max(given["dilation"]) > MAX_DILATION or max(given["strides"]) > MAX_STRIDE


def _cut(graph: TosaGraph, data: Value, pads: list[tuple[int, int]]) -> tuple[Value, list[tuple[int, int]]]:
    """What a negative padding takes off is sliced off."""
    size = list(data.shape)
    for axis, (_, after) in enumerate(pads, start=1):
        size[axis] += min(after, 0)
    kept = sliced(graph, data, (0,) * len(size), size)
    return kept, [(before, max(after, 0)) for before, after in pads]


def operands(graph: TosaGraph, data: Value, weight: Array, bias: Array, zero_point: int) -> list[Value]:
    """Return the operands of TOSA's convolutions: data, weights, biases and both zero points.

    Weights are of int8, those of 4 bits as well: Vela 5.2 widens TOSA's int4, which has no -8, and compresses weights
    by their values. Of 64 x 3 x 3 x 64 weights from -7 to 7 it makes 19,744 bytes for an Ethos-U55-128 either way, of
    such as fill 8 bits 38,176.
    """
    zeros = [graph.scalar(zero_point, data.dtype), graph.scalar(0, "int8")]
    return [data, graph.constant(weight), biases(graph, bias, accumulators(data)), *zeros]


def biases(graph: TosaGraph, bias: Array, dtype: str) -> Value:
    """Add a constant of the accumulators' dtype."""
    return graph.constant(bias.astype(np.int64 if dtype == "int48" else np.int32), dtype)


def accumulators(data: Value) -> str:
    """Return the dtype of TOSA's accumulators for data of this dtype."""
    return "int48" if data.dtype == "int16" else "int32"


def requantized(
    graph: TosaGraph, acc: Value, given: Mapping[str, Any], dtype: str, multiplier: Array
) -> Value:
    """Emit RESCALE of accumulators, and CLAMP."""
    value = rescale(graph, acc, (multiplier, given["shift"]), dtype, zero_point=given["zero_point"])
    return clamped(graph, value, given)


def of_channels(values: Array, channels: int) -> Array:
    """Broadcast one number, or one per channel, to [channels]."""
    flat = values.reshape(-1)
    return np.broadcast_to(flat, (channels,)) if flat.size == 1 else flat
