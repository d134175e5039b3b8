# SPDX-License-Identifier: Apache-2.0
"""Pools over windows of rows and columns."""

from collections.abc import Sequence

import tosa_serializer as ts

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.reading import integers
from arm_ext.ethosu.tosa.common import IGNORE_NAN, clamped, over_images, reshaped, sliced, unsliced
from arm_ext.ethosu.tosa.graph import TosaGraph, Value
from arm_ext.ethosu.tosa.products import MAX_STRIDE


def max_pool2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """MAX_POOL2D."""
    padding = integers(operator.call.attrs.padding)
    return over_images(graph, data, padding, lambda image: _max_pool2d(graph, operator, image))


def _max_pool2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    attrs, out = operator.call.attrs, (data.shape[0], *operator.output.shape[1:])
    kernel, strides = integers(attrs.pool_size), integers(attrs.strides)
    data, padding = _windows(graph, data, out[1:3], kernel, strides, integers(attrs.padding)[:2])
    return graph.add(ts.Op.MAX_POOL2D, [data], out, data.dtype, kernel, strides, padding, IGNORE_NAN)


def average_pool2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """AVG_POOL2D."""
    padding = operator.attributes["padding"]
    return over_images(graph, data, padding, lambda image: _average_pool2d(graph, operator, image))


def _average_pool2d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    given = operator.attributes
    kernel, strides = list(given["kernel"]), list(given["strides"])
    out = tuple(
        (size + before + after - taps) // stride + 1
        for size, before, after, taps, stride in zip(
            data.shape[1:3], given["padding"][:2], given["padding"][2:], kernel, strides, strict=True
        )
    )
    data, padding = _windows(graph, data, out, kernel, strides, given["padding"][:2])
    zeros = [
        graph.scalar(given["input_zero_point"], data.dtype),
        graph.scalar(given["zero_point"], data.dtype),
    ]
    shape = (data.shape[0], *out, data.shape[3])
    pooled = graph.add(
        ts.Op.AVG_POOL2D, [data, *zeros], shape, data.dtype, kernel, strides, padding, ts.DType.INT32
    )
    return reshaped(graph, clamped(graph, pooled, given), (data.shape[0], *operator.output.shape[1:]))


def _windows(
    graph: TosaGraph,
    data: Value,
    out: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    before: Sequence[int],
) -> tuple[Value, list[int]]:
    """The data without what no window reaches, and TOSA's padding: what windows read beyond."""
    size, padding = list(data.shape), []
    for axis in (0, 1):
        after = (out[axis] - 1) * strides[axis] + kernel[axis] - before[axis] - data.shape[1 + axis]
        size[1 + axis] += min(after, 0)
        padding += [before[axis], max(after, 0)]
    kept = sliced(graph, data, [0] * len(size), size)
    # Of a pool with greater strides Vela 5.2 makes several, which forget that what they read is a part of a tensor.
    return unsliced(graph, kept) if max(strides) > MAX_STRIDE else kept, padding
