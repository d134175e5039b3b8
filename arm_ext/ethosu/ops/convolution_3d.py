# SPDX-License-Identifier: Apache-2.0
"""3D convolutions: CONV2D per image if the kernel has depth 1, else CONV3D, which only Ethos-U85 supports."""

from dataclasses import replace

import numpy as np
import tosa_serializer as ts

from arm_ext.ethosu.ops import convolution
from arm_ext.ethosu.ops.common.constraint import EARLIER, SUPPORTED_OPS, Constraint
from arm_ext.ethosu.ops.common.contract import Operation
from arm_ext.ethosu.ops.common.convolutions import OF_KERNELS, ONE_GROUP, operands, placed
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.ops.common.sums import OF_WEIGHTED, accumulators, of_channels, requantized
from arm_ext.ethosu.ops.common.windows import Window
from arm_ext.ethosu.ops.convolution import Convolution
from arm_ext.ethosu.tosa.common import reshaped
from arm_ext.ethosu.tosa.graph import DTYPES, TosaGraph, TosaTensor


def is_flat(operator: Operator[Convolution]) -> bool:
    """Whether the kernel has depth 1, so that each image of the volume is convolved separately."""
    window = operator.attributes.window
    return window.kernel[0] == 1 and window.strides[0] == 1 and not any(window.sides[0])


_FLAT: Constraint[Convolution] = Constraint(
    "its windows span several images", "kernel depth and stride of 1, without padding", is_flat, bool,
    "convolve images one by one", SUPPORTED_OPS, EARLIER,
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[Convolution], data: TosaTensor) -> TosaTensor:
    """Emit CONV2D for each image of the volume if the kernel has depth 1, else CONV3D of one group."""
    return _emit_images(graph, operator, data) if is_flat(operator) else _emit_volume(graph, operator, data)


def _emit_images(graph: TosaGraph, operator: Operator[Convolution], data: TosaTensor) -> TosaTensor:
    given, (batch, depth, *image) = operator.attributes, data.shape
    _, top, left, _, bottom, right = given.window.padding
    window = Window(
        given.window.kernel[1:],
        given.window.strides[1:],
        given.window.dilation[1:],
        (top, left, bottom, right),
    )
    flat = replace(given, weight=np.ascontiguousarray(given.weight[:, 0]), window=window)
    images = reshaped(graph, data, (batch * depth, *image))
    value = convolution.emit(graph, replace(operator, attributes=flat), images)
    return reshaped(graph, value, operator.output.shape)


def _emit_volume(graph: TosaGraph, operator: Operator[Convolution], data: TosaTensor) -> TosaTensor:
    given, own = operator.attributes, operator.attributes.requantization
    channels = given.weight.shape[0]
    data, _, pads = placed(graph, data, given.window)
    acc = accumulators(data)
    inputs = operands(graph, data, given.weight, of_channels(own.bias, channels), given.input_zero_point)
    padding = [pad for pair in pads for pad in pair]
    steps = (list(given.window.strides), list(given.window.dilation))
    value = graph.add(ts.Op.CONV3D, inputs, operator.output.shape, acc, padding, *steps, False, DTYPES[acc])
    return requantized(graph, value, own, operator.output.dtype, of_channels(own.multiplier, channels))


OPERATION: Operation[Convolution] = Operation(
    kinds=("conv3d",),
    sums={"nn.conv3d": convolution.parse},
    constraints=(*OF_WEIGHTED, *OF_KERNELS, convolution.GREAT_STRIDE, ONE_GROUP, _FLAT),
    emit=emit,
)
