# SPDX-License-Identifier: Apache-2.0
"""Emission of operators that move elements, or reduce them to their maximum or minimum."""

import math
from collections.abc import Sequence
from typing import Any

import tosa_serializer as ts
from tvm.ir import GenericConst

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.reading import integers
from arm_ext.ethosu.tosa.common import IGNORE_NAN, copied, joined, of_rank, reshaped, sliced, tiled
from arm_ext.ethosu.tosa.graph import TosaGraph, Value


def reshape(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """RESHAPE."""
    return reshaped(graph, data, operator.output.shape)


def permute_dims(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """TRANSPOSE."""
    axes = operator.call.attrs.axes
    order = (
        list(range(len(data.shape)))[::-1] if axes is None else [a % len(data.shape) for a in integers(axes)]
    )
    return graph.add(ts.Op.TRANSPOSE, [data], operator.output.shape, data.dtype, order)


def concat(graph: TosaGraph, operator: Operator, *data: Value) -> Value:
    """CONCAT, some of whose parts may be constants."""
    runtime = list(data)
    parts = [
        graph.constant(field.value.numpy()) if isinstance(field, GenericConst) else runtime.pop(0)
        for field in operator.call.args[0].fields
    ]
    return joined(graph, parts, int(operator.call.attrs.axis) % len(parts[0].shape))


def split(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """Emit one output of a split as SLICE."""
    attrs, index = operator.call.attrs, operator.attributes["index"]
    axis, start = int(attrs.axis) % len(data.shape), [0] * len(data.shape)
    sections = attrs.indices_or_sections
    if isinstance(sections, Sequence) or hasattr(sections, "__len__"):
        start[axis] = [0, *integers(sections)][index]
    else:
        start[axis] = index * math.ceil(data.shape[axis] / int(sections))
    return sliced(graph, data, start, operator.output.shape)


def begins_of(operator: Operator) -> dict[int, int]:
    """Return the begin of a strided_slice, by axis."""
    data = operator.inputs[0]
    _, axes, begin, *_ = operator.call.args
    found = {}
    for axis, first, step in zip(_numbers(axes), _numbers(begin), steps_of(operator), strict=True):
        size = data.shape[axis % len(data.shape)]
        last = size if step > 0 else size - 1
        found[axis % len(data.shape)] = min(max(first + size if first < 0 else first, 0), last)
    return found


def steps_of(operator: Operator) -> list[int]:
    """Return the strides of a strided_slice."""
    _, axes, _, _, *steps = operator.call.args
    return _numbers(steps[0]) if steps else [1] * len(axes.fields)


def _numbers(expr: Any) -> list[int]:
    """Prim values of a tuple."""
    return integers(expr.fields)


def pad(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """PAD with a constant; `integerize` leaves other pads in float."""
    attrs = operator.call.attrs
    if str(attrs.pad_mode) != "constant":
        raise ValueError(f"a pad of mode {attrs.pad_mode}")
    widths = graph.sizes(integers(attrs.pad_width))
    value = graph.scalar(int(attrs.pad_value), data.dtype)
    return graph.add(ts.Op.PAD, [data, widths, value], operator.output.shape, data.dtype)


def reduce_extremum(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """REDUCE_MAX or REDUCE_MIN, axis by axis; of truths REDUCE_ANY or REDUCE_ALL."""
    axes = operator.call.attrs.axis
    rank = len(data.shape)
    greatest, truths = operator.kind == "max", data.dtype == "bool"
    of_integers = ts.Op.REDUCE_MAX if greatest else ts.Op.REDUCE_MIN
    of_truths = ts.Op.REDUCE_ANY if greatest else ts.Op.REDUCE_ALL
    kind, further = (of_truths, ()) if truths else (of_integers, (IGNORE_NAN,))
    for axis in range(rank) if axes is None else (a % rank for a in integers(axes)):
        shape = [1 if at == axis else size for at, size in enumerate(data.shape)]
        data = graph.add(kind, [data], shape, data.dtype, axis, *further)
    return reshaped(graph, data, operator.output.shape)


def tile(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """TILE."""
    out = operator.output.shape
    return tiled(graph, of_rank(graph, data, len(out)), out)


def repeat(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """TILE of a new axis behind the repeated one; of all elements where no axis is named."""
    axis, out = operator.call.attrs.axis, operator.output.shape
    before = math.prod(data.shape if axis is None else data.shape[: int(axis) % len(data.shape) + 1])
    rows = reshaped(graph, data, (before, 1, math.prod(data.shape) // before))
    times = math.prod(out) // math.prod(data.shape)
    return reshaped(graph, tiled(graph, rows, (before, times, rows.shape[2])), out)


def resize_nearest(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """RESIZE by whole factors, each pixel repeated: the nearest of half-pixel and of asymmetric coordinates."""
    rows, columns = (out // own for out, own in zip(operator.output.shape[1:3], data.shape[1:3], strict=True))
    if rows == columns == 1:
        return copied(graph, data)  # as RESIZE Vela 5.2 computes it wrong for Ethos-U85
    inputs = [
        data,
        graph.sizes([2 * rows, 2, 2 * columns, 2]),
        graph.sizes([1 - rows, 1 - columns]),
        graph.sizes([rows - 1, columns - 1]),
    ]
    return graph.add(ts.Op.RESIZE, inputs, operator.output.shape, data.dtype, ts.ResizeMode.NEAREST)
