# SPDX-License-Identifier: Apache-2.0
"""Bilinear resize, as the numerics `tosa` defines it: RESIZE, or convolutions, which is all that U55 and U65 have.

RESIZE of U85 scales its sums by a power of two in passing; by any other scale they are written out in 32 bits, which
takes two to four times as long as the convolutions.

By a whole factor, output f * i + k is a sum of pixels i + start and i + start + 1 with the same two weights for all i.
Each phase k is then a depthwise convolution by 2 x 2 weights, which has RESIZE's sums. The phases of the columns are
channels beside each other, those of the rows rows behind each other, and a reshape puts them in their places:

    [H, W, C]  →  edges repeated  →  [H + 2, W + 1, fx * C]  →  fy times [H, W, fx * C]  →  [H, fy * W, fx * C]
"""

from collections.abc import Sequence

import numpy as np
import tosa_serializer as ts

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.resize_facts import Phase, convolves, phases_of
from arm_ext.ethosu.tosa.common import joined, rescale, reshaped, sliced
from arm_ext.ethosu.tosa.graph import TosaGraph, Value
from arm_ext.ethosu.tosa.products import operands
from schedules.numerics.tosa import Scale, scale_of


def resize_bilinear(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """Emit RESIZE and RESCALE, or convolutions if the accelerator has no RESIZE or they are faster."""
    given = operator.attributes
    units = given["y_n"] * given["x_n"]
    scale, is_power = scale_of(1 / units), units & (units - 1) == 0
    if graph.family != "u85" or (not is_power and convolves(operator)):
        return _by_phases(graph, operator, data, scale)
    inputs = [
        data,
        graph.sizes([given["y_n"], given["y_d"], given["x_n"], given["x_d"]]),
        graph.sizes([given["y_offset"], given["x_offset"]]),
        graph.sizes([given["y_border"], given["x_border"]]),
    ]
    total = graph.add(ts.Op.RESIZE, inputs, operator.output.shape, "int32", ts.ResizeMode.BILINEAR)
    return rescale(graph, total, scale, data.dtype)


def _by_phases(graph: TosaGraph, operator: Operator, data: Value, scale: Scale) -> Value:
    rows, columns = phases_of(operator, "y"), phases_of(operator, "x")
    images, height, width, channels = data.shape
    edged = _edged(graph, _edged(graph, data, 1, rows), 2, columns)
    beside = joined(graph, [_shifted(graph, edged, 2, columns, phase) for phase in columns], 3)
    results = []
    for phase in rows:
        own = _shifted(graph, beside, 1, rows, phase)
        total = _convolved(graph, own, phase, columns, channels)
        results.append(rescale(graph, total, scale, data.dtype))
    whole = (images, height * len(rows), width * len(columns), channels)
    grown = reshaped(graph, joined(graph, results, 2), whole)
    # Of aligned corners nothing lies behind the last pixel.
    return sliced(graph, grown, (0, 0, 0, 0), operator.output.shape)


def _edged(graph: TosaGraph, image: Value, axis: int, phases: Sequence[Phase]) -> Value:
    """With the first row or column repeated in front, if phases start there, and the last one behind."""
    last = [0] * len(image.shape)
    last[axis] = image.shape[axis] - 1
    edge = list(image.shape)
    edge[axis] = 1
    front = [sliced(graph, image, [0] * len(edge), edge)] * _front(phases)
    behind = sliced(graph, image, last, edge)
    return joined(graph, [*front, image, behind], axis)


def _front(phases: Sequence[Phase]) -> int:
    return -min(phase.start for phase in phases)


def _shifted(graph: TosaGraph, edged: Value, axis: int, phases: Sequence[Phase], phase: Phase) -> Value:
    """What a phase's windows see of an image with edges."""
    start, size = [0] * len(edged.shape), list(edged.shape)
    start[axis] = phase.start + _front(phases)
    size[axis] -= _front(phases)
    return sliced(graph, edged, start, size)


def _convolved(graph: TosaGraph, image: Value, row: Phase, columns: Sequence[Phase], channels: int) -> Value:
    """Sums of one phase of the rows and every phase of the columns, which are channels."""
    weights = np.stack([np.outer(row.weights, column.weights) for column in columns], 2)
    weights = np.repeat(weights, channels, 2)[..., None].astype(np.int8)
    images, height, width, depth = image.shape
    inputs = operands(graph, image, weights, np.zeros(1), 0)
    shape, padding, ones = (images, height - 1, width - 1, depth), [0] * 4, [1] * 2
    kind, dtype = ts.Op.DEPTHWISE_CONV2D, ts.DType.INT32
    return graph.add(kind, inputs, shape, "int32", padding, ones, ones, False, dtype)
