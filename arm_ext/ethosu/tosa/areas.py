# SPDX-License-Identifier: Apache-2.0
"""Windowed sums with a multiplier per position, such as averages that divide by less at the borders.

    pool(x)    →    one sum for each area of outputs that share their multiplier, then CONCAT

The corners, edges and middle of a padded pool are nine areas at most where it is no deeper padded than its stride.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa.common import Array, joined, sliced
from arm_ext.ethosu.tosa.graph import TosaGraph, Value

Emitter = Callable[[TosaGraph, Operator, Value], Value]


def varies_by_area(operator: Operator) -> bool:
    """Whether the multiplier varies along rows or columns, and along no other axis."""
    multiplier = operator.attributes["multiplier"]
    return bool(multiplier.ndim == 4 and multiplier.shape[0] == multiplier.shape[3] == 1 < multiplier.size)


def by_area(graph: TosaGraph, operator: Operator, data: Value, emitter: Emitter) -> Value:
    """Emit an operator for each area of outputs with one multiplier, and concatenate the results."""
    if not varies_by_area(operator):
        return emitter(graph, operator, data)
    multiplier = operator.attributes["multiplier"][0, :, :, 0]
    out = operator.output.shape[1:3]
    multiplier = np.broadcast_to(multiplier, out)
    rows = [
        joined(
            graph,
            [
                emitter(graph, *_area(graph, operator, data, (span, across)))
                for across in _spans(multiplier.T)
            ],
            2,
        )
        for span in _spans(multiplier)
    ]
    return joined(graph, rows, 1)


def _spans(lines: Array) -> list[tuple[int, int]]:
    """Stretches of equal lines: first, and one past the last."""
    cuts = 1 + np.flatnonzero((lines[1:] != lines[:-1]).any(axis=1))
    ends = [0, *cuts.tolist(), len(lines)]
    return list(pairwise(ends))


def _area(
    graph: TosaGraph, operator: Operator, data: Value, spans: Sequence[tuple[int, int]]
) -> tuple[Operator, Value]:
    """The operator and the data of one area, given its rows and columns."""
    given = operator.attributes
    start, size, before, after = [0] * 4, list(data.shape), [], []
    for axis, (first, last) in enumerate(spans):
        taps, stride = given["weight"].shape[1 + axis], given["strides"][axis]
        begin = first * stride - given["padding"][axis]
        end = (last - 1) * stride - given["padding"][axis] + (taps - 1) * given["dilation"][axis] + 1
        extent = data.shape[1 + axis]
        before.append(max(-begin, 0))
        after.append(max(end - extent, 0))
        start[1 + axis] = max(begin, 0)
        size[1 + axis] = min(end, extent) - start[1 + axis]
    (top, _), (left, _) = spans
    rows, columns = given["multiplier"].shape[1:3]
    scale = given["multiplier"][0, min(top, rows - 1), min(left, columns - 1), 0]
    own = {**given, "padding": (*before, *after), "multiplier": np.array([scale])}
    return replace(operator, attributes=own), sliced(graph, data, start, size)
