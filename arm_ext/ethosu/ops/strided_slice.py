# SPDX-License-Identifier: Apache-2.0
"""Strided slices: SLICE, then every n-th element along each axis, and REVERSE for negative strides."""

import math
from dataclasses import dataclass
from typing import Any

import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.contract import Operation, Quirks, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.ops.common.reading import Reader, integers, shape_of
from arm_ext.ethosu.tosa.common import reshaped, reversed_along, sliced
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True)
class AxisSlice:
    """Slice along one axis.

    Attributes:
        axis: The axis, counted from the first.
        begin: The first selected element.
        step: Distance from one selected element to the next; not 0.
    """

    axis: int
    begin: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Slice(Attributes):
    """Attributes of a slice.

    Attributes:
        steps: Slice of each sliced axis; other axes stay whole.
    """

    steps: tuple[AxisSlice, ...]


def _attributes(call: Call, _: Reader) -> Slice:
    data, axes, begin, _end, *strides = call.args
    shape = shape_of(data)
    steps = _numbers(strides[0]) if strides else [1] * len(axes.fields)
    found = []
    for axis, first, step in zip(_numbers(axes), _numbers(begin), steps, strict=True):
        size = shape[axis % len(shape)]
        last = size if step > 0 else size - 1
        found.append(
            AxisSlice(axis % len(shape), min(max(first + size if first < 0 else first, 0), last), step)
        )
    return Slice(steps=tuple(found))


def _numbers(expr: Any) -> list[int]:
    """Convert a tuple of prim values to Python integers."""
    return integers(expr.fields)


def emit(graph: TosaGraph, operator: Operator[Slice], data: TosaTensor) -> TosaTensor:
    """Emit SLICE; for strides also PAD, RESHAPE and SLICE, and REVERSE for negative ones."""
    start, size, strided = [0] * len(data.shape), list(data.shape), []
    for along in operator.attributes.steps:
        axis, step = along.axis, along.step
        count = operator.output.shape[axis]
        reach = (count - 1) * abs(step) + 1
        start[axis], size[axis] = along.begin if step > 0 else along.begin - reach + 1, reach
        strided.append((axis, step, count))
    value = sliced(graph, data, start, size)
    for axis, step, count in strided:
        if abs(step) > 1 and count > 1:
            value = _every(graph, value, axis, abs(step), count)
        if step < 0 and count > 1:
            value = reversed_along(graph, value, axis)
    return value


def _every(graph: TosaGraph, value: TosaTensor, axis: int, step: int, count: int) -> TosaTensor:
    """Return every `step`-th element along an axis of (count - 1) * step + 1 elements."""
    shape = value.shape
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    rows = reshaped(graph, value, (outer, shape[axis], inner))
    whole = (outer, count * step, inner)
    widths = graph.sizes([0, 0, 0, step - 1, 0, 0])
    rows = graph.add(ts.Op.PAD, [rows, widths, graph.scalar(0, value.dtype)], whole, value.dtype)
    blocks = reshaped(graph, rows, (outer, count, step * inner))
    kept = sliced(graph, blocks, (0, 0, 0), (outer, count, inner))
    return reshaped(graph, kept, (*shape[:axis], count, *shape[axis + 1 :]))


OPERATION: Operation[Slice] = Operation(
    kinds=("strided_slice",),
    patterns={"strided_slice": of_relax("strided_slice", _attributes)},
    emit=emit,
    quirks=Quirks(reads_slices=True),
)
