# SPDX-License-Identifier: Apache-2.0
"""Emission of operators that select elements: argmax, rows by index, every n-th element."""

import math
from collections.abc import Sequence

import numpy as np
import tosa_serializer as ts
from tvm.ir import GenericConst

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa.common import IGNORE_NAN, Array, joined, looked_up, reshaped, sliced
from arm_ext.ethosu.tosa.graph import TosaGraph, Value
from arm_ext.ethosu.tosa.moves import begins_of, steps_of

MAX_RUNS = 8
"""Of a constant index: as many slices cost less than a gather, which Ethos-U55 and U65 lack."""


def argmax(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """Emit ARGMAX, of -1 - x for an argmin."""
    axis = axis_of(operator)
    if operator.kind == "argmin":
        info = np.iinfo(data.dtype)
        data = looked_up(
            graph, data, graph.constant(np.arange(info.max, info.min - 1, -1).astype(data.dtype))
        )
    outer, inner = math.prod(data.shape[:axis]), math.prod(data.shape[axis + 1 :])
    # Ethos-U55 and U65 look along the channels of one image.
    rows = reshaped(
        graph, data, (1, outer, data.shape[axis]) if inner == 1 else (outer, data.shape[axis], inner)
    )
    along = 2 if inner == 1 else 1
    shape = [size for at, size in enumerate(rows.shape) if at != along]
    index = graph.add(ts.Op.ARGMAX, [rows], shape, operator.output.dtype, along, IGNORE_NAN)
    return reshaped(graph, index, operator.output.shape)


def axis_of(operator: Operator) -> int:
    """Return the axis that an operator selects along; without one, all axes are flattened to one."""
    axis = operator.call.attrs.axis
    return 0 if axis is None else int(axis) % len(operator.call.args[0].ty.shape)


def take(graph: TosaGraph, operator: Operator, *data: Value) -> Value:
    """Emit SLICEs for constant indices in a few runs, else GATHER."""
    given = operator.call.args[0]
    values = graph.constant(given.value.numpy()) if isinstance(given, GenericConst) else data[0]
    axis = axis_of(operator)
    rows = constant_indices(operator)
    if rows is not None and len(found := runs(rows)) <= MAX_RUNS:
        parts = []
        for first, last in found:
            start, size = [0] * len(values.shape), list(values.shape)
            start[axis], size[axis] = first, last - first
            parts.append(sliced(graph, values, start, size))
        return reshaped(graph, joined(graph, parts, axis), operator.output.shape)
    outer, inner = math.prod(values.shape[:axis]), math.prod(values.shape[axis + 1 :])
    table = reshaped(graph, values, (outer, values.shape[axis], inner))
    if rows is not None:
        index = graph.constant(np.tile(rows.astype(np.int32), (outer, 1)))
    else:
        index = reshaped(graph, data[-1], (1, math.prod(data[-1].shape)))
        if outer > 1:
            shape = (outer, index.shape[1])
            index = graph.add(ts.Op.TILE, [index, graph.sizes((outer, 1))], shape, index.dtype)
    picked = graph.add(ts.Op.GATHER, [table, index], (outer, index.shape[1], inner), values.dtype)
    return reshaped(graph, picked, operator.output.shape)


def constant_indices(operator: Operator) -> Array | None:
    """Return a take's constant indices, from the front, flat; None for run-time indices."""
    index = operator.call.args[1]
    if not isinstance(index, GenericConst):
        return None
    flat = index.value.numpy().reshape(-1)
    return np.asarray(np.where(flat < 0, flat + int(operator.call.args[0].ty.shape[axis_of(operator)]), flat))


def runs(rows: Array) -> list[tuple[int, int]]:
    """Return the runs of consecutive indices: (first, one past the last)."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(rows, cuts) if run.size]


def strided_slice(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """Emit SLICE, then every n-th element of each axis, reversed for a negative stride."""
    first, steps = begins_of(operator), steps_of(operator)
    start, size, strided = [0] * len(data.shape), list(data.shape), []
    for (axis, begin), step in zip(first.items(), steps, strict=True):
        count = operator.output.shape[axis]
        reach = (count - 1) * abs(step) + 1
        start[axis], size[axis] = begin if step > 0 else begin - reach + 1, reach
        strided.append((axis, step, count))
    value = sliced(graph, data, start, size)
    for axis, step, count in strided:
        if abs(step) > 1 and count > 1:
            value = _every(graph, value, axis, abs(step), count)
        if step < 0 and count > 1:
            value = reversed_along(graph, value, axis)
    return value


def _every(graph: TosaGraph, value: Value, axis: int, step: int, count: int) -> Value:
    """The first of each `step` elements along an axis, the last of which stands alone."""
    shape = value.shape
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    rows = reshaped(graph, value, (outer, shape[axis], inner))
    whole = (outer, count * step, inner)
    widths = graph.sizes([0, 0, 0, step - 1, 0, 0])
    rows = graph.add(ts.Op.PAD, [rows, widths, graph.scalar(0, value.dtype)], whole, value.dtype)
    blocks = reshaped(graph, rows, (outer, count, step * inner))
    kept = sliced(graph, blocks, (0, 0, 0), (outer, count, inner))
    return reshaped(graph, kept, (*shape[:axis], count, *shape[axis + 1 :]))


def reversed_along(graph: TosaGraph, value: Value, axis: int) -> Value:
    """Emit REVERSE along an axis as one along columns, which every Ethos-U supports."""
    shape: Sequence[int] = value.shape
    columns = (1, math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    rows = reshaped(graph, value, columns)
    return reshaped(graph, graph.add(ts.Op.REVERSE, [rows], columns, value.dtype, 2), shape)


def flip(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """REVERSE."""
    return reversed_along(graph, data, axis_of(operator))
