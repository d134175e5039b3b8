# SPDX-License-Identifier: Apache-2.0
"""Emission of convolutions with run-time weights, which Vela compiles as matrix products."""

import tosa_serializer as ts

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa.common import over_images
from arm_ext.ethosu.tosa.graph import DTYPES, TosaGraph, Value
from arm_ext.ethosu.tosa.products import accumulators, biases, of_channels, placed, requantized


def run_time_conv2d(graph: TosaGraph, operator: Operator, data: Value, weight: Value) -> Value:
    """Emit a convolution of one group with run-time weights."""
    given = operator.attributes

    def windows(image: Value) -> Value:
        kept, size, pads = placed(graph, image, weight.shape[1:3], given)
        dtype, channels = accumulators(kept), weight.shape[0]
        zeros = [given["input_zero_point"], given["weight_zero_point"]]
        inputs = [kept, weight, biases(graph, of_channels(given["bias"], channels), dtype)]
        inputs += [graph.scalar(zero, value.dtype) for zero, value in zip(zeros, inputs, strict=False)]
        steps = [[pad for pair in pads for pad in pair], list(given["strides"]), list(given["dilation"])]
        shape = (kept.shape[0], *size, channels)
        acc = graph.add(ts.Op.CONV2D, inputs, shape, dtype, *steps, False, DTYPES[dtype])
        multiplier = of_channels(given["multiplier"], channels)
        return requantized(graph, acc, given, operator.output.dtype, multiplier)

    return over_images(graph, data, given["padding"], windows)
