# SPDX-License-Identifier: Apache-2.0
"""Emission of convolutions with three spatial dimensions."""

from dataclasses import replace

import numpy as np
import tosa_serializer as ts

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa.common import reshaped, sliced
from arm_ext.ethosu.tosa.graph import DTYPES, TosaGraph, Value
from arm_ext.ethosu.tosa.products import accumulators, conv2d, of_channels, operands, requantized


def conv3d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """Emit CONV2D for each image of a volume if windows are one image deep, else CONV3D; one group only."""
    return _of_images(graph, operator, data) if is_flat(operator) else _conv3d(graph, operator, data)


def is_flat(operator: Operator) -> bool:
    """Whether windows are one image deep, so that each image is convolved separately."""
    given = operator.attributes
    before, _, _, after, *_ = given["padding"]
    return given["weight"].shape[1] == 1 and given["strides"][0] == 1 and not (before or after)


def _of_images(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    given, (batch, depth, *image) = operator.attributes, data.shape
    _, top, left, _, bottom, right = given["padding"]
    flat = {
        "weight": np.ascontiguousarray(given["weight"][:, 0]),
        "strides": given["strides"][1:],
        "dilation": given["dilation"][1:],
        "padding": (top, left, bottom, right),
    }
    images = reshaped(graph, data, (batch * depth, *image))
    value = conv2d(graph, replace(operator, attributes={**given, **flat}), images)
    return reshaped(graph, value, operator.output.shape)


def _conv3d(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    given, weight = operator.attributes, operator.attributes["weight"]
    kept, padding = list(data.shape), []
    for axis in range(3):
        before, after = given["padding"][axis], given["padding"][3 + axis]
        reach = data.shape[1 + axis] + before + after
        reach -= (weight.shape[1 + axis] - 1) * given["dilation"][axis] + 1
        # TOSA takes no rows that no window starts in.
        after -= reach % given["strides"][axis]
        kept[1 + axis] += min(after, 0)
        padding += [before, max(after, 0)]
    data = sliced(graph, data, [0] * len(kept), kept)
    channels, acc = weight.shape[0], accumulators(data)
    inputs = operands(graph, data, weight, of_channels(given["bias"], channels), given["input_zero_point"])
    steps = (list(given["strides"]), list(given["dilation"]))
    value = graph.add(ts.Op.CONV3D, inputs, operator.output.shape, acc, padding, *steps, False, DTYPES[acc])
    return requantized(graph, value, given, operator.output.dtype, of_channels(given["multiplier"], channels))
