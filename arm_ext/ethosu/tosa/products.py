# SPDX-License-Identifier: Apache-2.0
"""Sums of products and what follows them: CONV2D and its kind, MATMUL, REDUCE_SUM, then RESCALE and CLAMP."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tosa_serializer as ts

from arm_ext.ethosu.operators import Operator
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
from arm_ext.ethosu.tosa.graph import TosaGraph, Value

MAX_KERNEL, MAX_KERNEL_AREA = 64, 4096
"""Of a convolution on every Ethos-U (Vela, SUPPORTED_OPS.md)."""

MAX_DILATION, MAX_STRIDE = 2, 3
"""Of a convolution that is one command on Ethos-U55 and U65 (Vela, SUPPORTED_OPS.md)."""


def conv2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """A convolution; one of several groups as one for each, TOSA knowing none."""
    padding = operator.attributes["padding"]
    return over_images(graph, data, padding, lambda image: _conv2d(graph, operator, image))


def _conv2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    given = operator.attributes
    weight, groups = given["weight"], given["groups"]
    multiplier = _of_channels(given["multiplier"], weight.shape[0])
    bias = _of_channels(given["bias"], weight.shape[0])
    depth, out = weight.shape[3], weight.shape[0] // groups
    parts = []
    for group in range(groups):
        start = [0, 0, 0, group * depth]
        part = sliced(graph, data, start, (*data.shape[:3], depth)) if groups > 1 else data
        own = slice(group * out, (group + 1) * out)
        acc = _convolved(graph, ts.Op.CONV2D, part, weight[own], bias[own], given, out)
        parts.append(_requantized(graph, acc, given, operator.output.dtype, multiplier[own]))
    return joined(graph, parts, 3)


def depthwise_conv2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """A depthwise convolution of any multiplier."""
    padding = operator.attributes["padding"]
    return over_images(graph, data, padding, lambda image: _depthwise_conv2d(graph, operator, image))


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
        _of_channels(given["bias"], out),
        given,
        out,
        (rows, columns),
    )
    return _requantized(graph, acc, given, operator.output.dtype, _of_channels(given["multiplier"], out))


def conv2d_transpose(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """A transposed convolution of one group, without dilation."""
    given = operator.attributes
    weight, (top, left, bottom, right) = given["weight"], given["padding"]
    below, beside = given["output_padding"]
    out = weight.shape[0]
    inputs = _operands(graph, data, weight, _of_channels(given["bias"], out), given["input_zero_point"])
    grown = [-top, below - bottom, -left, beside - right]
    acc_dtype = ts.DType.INT32
    acc = graph.add(
        ts.Op.TRANSPOSE_CONV2D,
        inputs,
        operator.output.shape,
        "int32",
        grown,
        list(given["strides"]),
        False,
        acc_dtype,
    )
    return _requantized(graph, acc, given, operator.output.dtype, _of_channels(given["multiplier"], out))


def linear(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """A matrix product with constant weights: a 1 x 1 convolution over the rows."""
    given = operator.attributes
    depth, out = given["weight"].shape
    rows = reshaped(graph, data, (1, math.prod(data.shape[:-1]), 1, depth))
    weight = np.ascontiguousarray(given["weight"].T).reshape(out, 1, 1, depth)
    plain = {"strides": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "input_zero_point": 0}
    acc = _convolved(graph, ts.Op.CONV2D, rows, weight, _of_channels(given["bias"], out), plain, out)
    value = _requantized(graph, acc, given, operator.output.dtype, _of_channels(given["multiplier"], out))
    return reshaped(graph, value, operator.output.shape)


def matmul(graph: TosaGraph, operator: Operator, a: Value, b: Value) -> Value:
    """A matrix product of two tensors of run time, whose leading axes agree."""
    given = operator.attributes
    left, right = (reshaped(graph, x, (math.prod(x.shape[:-2]), *x.shape[-2:])) for x in (a, b))
    zeros = [graph.scalar(given["a_zero_point"], a.dtype), graph.scalar(given["b_zero_point"], b.dtype)]
    shape = (left.shape[0], left.shape[1], right.shape[2])
    acc = graph.add(ts.Op.MATMUL, [left, right, *zeros], shape, "int32")
    value = _requantized(graph, acc, given, operator.output.dtype, given["multiplier"])
    return reshaped(graph, value, operator.output.shape)


def reduce_sum(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """A sum over rows and columns as a depthwise convolution by ones; any other axis by axis."""
    given = operator.attributes
    window = data.shape[1:3]
    if given["axes"] == (1, 2) and len(data.shape) == 4 and fits_a_kernel(window):
        channels = data.shape[3]
        ones = np.ones((*window, channels, 1), np.int8)
        plain = {"strides": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "input_zero_point": 0}
        bias = _of_channels(given["bias"], channels)
        acc = _convolved(graph, ts.Op.DEPTHWISE_CONV2D, data, ones, bias, plain, channels, window)
    else:
        acc = widened(graph, data, 0)
        for axis in given["axes"]:
            shape = [1 if at == axis else size for at, size in enumerate(acc.shape)]
            acc = graph.add(ts.Op.REDUCE_SUM, [acc], shape, "int32", axis)
        if given["bias"].any():
            offset = graph.constant(given["bias"].astype(np.int32).reshape((1,) * len(data.shape)))
            acc = graph.add(ts.Op.ADD, [acc, offset], acc.shape, "int32")
    value = _requantized(graph, acc, given, operator.output.dtype, given["multiplier"].reshape(-1))
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
    top, left, bottom, right = given["padding"]
    size, pads = [], []
    for axis, (before, after) in enumerate(((top, bottom), (left, right))):
        taps = (kernel or weight.shape[1:3])[axis]
        reach = data.shape[1 + axis] + before + after - (taps - 1) * given["dilation"][axis] - 1
        # TOSA takes no rows that no window starts in.
        left_over = reach % given["strides"][axis]
        size.append(reach // given["strides"][axis] + 1)
        pads.append((before, after - left_over))
    data, pads = _cut(graph, data, pads)
    if _in_parts(operator, given, channels, data.shape[3]):
        data = unsliced(graph, data)
    inputs = _operands(graph, data, weight, bias, given["input_zero_point"])
    shape = (data.shape[0], *size, channels)
    padding = [pad for pair in pads for pad in pair]
    strides, dilation = list(given["strides"]), list(given["dilation"])
    return graph.add(operator, inputs, shape, "int32", padding, strides, dilation, False, ts.DType.INT32)


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


def _operands(graph: TosaGraph, data: Value, weight: Array, bias: Array, zero_point: int) -> list[Value]:
    zeros = [graph.scalar(zero_point, data.dtype), graph.scalar(0, "int8")]
    return [data, graph.constant(weight), graph.constant(bias.astype(np.int32)), *zeros]


def _requantized(
    graph: TosaGraph, acc: Value, given: Mapping[str, Any], dtype: str, multiplier: Array
) -> Value:
    value = rescale(graph, acc, (multiplier, given["shift"]), dtype, zero_point=given["zero_point"])
    return clamped(graph, value, given)


def _of_channels(values: Array, channels: int) -> Array:
    """One number a channel; one for all where they agree."""
    flat = values.reshape(-1)
    return np.broadcast_to(flat, (channels,)) if flat.size == 1 else flat
