# SPDX-License-Identifier: Apache-2.0
"""What convolutions share, and what is computed as one: the limits of their windows, and their accumulators in TOSA."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tosa_serializer as ts

from arm_ext.ethosu.ops.common.constraint import TOSA, Constraint
from arm_ext.ethosu.ops.common.operators import Operator, Tensor
from arm_ext.ethosu.ops.common.reading import Array
from arm_ext.ethosu.ops.common.sums import SumAttributes, accumulators, biases
from arm_ext.ethosu.ops.common.windows import MAX_STRIDE, Window, Windowed, of_windows
from arm_ext.ethosu.tosa.common import sliced, unsliced
from arm_ext.ethosu.tosa.graph import DTYPES, TosaGraph, Value

MAX_ROWS, MAX_AREA = 64, 4096
"""Of a window on every Ethos-U (Vela 5.2, SUPPORTED_OPS.md)."""

MAX_DILATION = 2
"""Of a convolution that is one command (Vela 5.2, SUPPORTED_OPS.md)."""


@dataclass(frozen=True, kw_only=True)
class Convolved(Windowed, SumAttributes):
    """Attributes of a convolution.

    Attributes:
        groups: Groups of channels.
        input_zero_point: Of the data.
    """

    groups: int
    input_zero_point: int

    def zero_points(self, inputs: Sequence[Tensor], output: Tensor) -> Sequence[tuple[Tensor, int]]:
        """See `Attributes`."""
        return (inputs[0], self.input_zero_point), (output, self.requantization.zero_point)


def _groups(operator: Operator[Convolved]) -> int:
    return operator.attributes.groups


OF_KERNELS = of_windows(MAX_ROWS, MAX_AREA)
"""What the window of every convolution has to meet."""

ONE_GROUP: Constraint[Convolved] = Constraint(
    "TOSA's convolution of its kind has one group", "1", _groups, lambda groups: groups == 1, "one group", TOSA,
)  # fmt: skip


def convolved(
    graph: TosaGraph,
    operator: Any,
    data: Value,
    weight: Array,
    bias: Array,
    window: Window,
    zero_point: int = 0,
) -> Value:
    """Emit a convolution over rows and columns as accumulators of as many channels as it has biases.

    Args:
        graph: Where to.
        operator: CONV2D or DEPTHWISE_CONV2D.
        data: What it reads.
        weight: As TOSA has them: [O, KH, KW, I], or [KH, KW, C, multiplier].
        bias: By channel.
        window: Of the weights.
        zero_point: Of the data.
    """
    channels, depthwise = len(bias), operator == ts.Op.DEPTHWISE_CONV2D
    data, size, pads = placed(graph, data, window)
    # Of these Vela 5.2 makes several convolutions, which forget that what they read is a part of a tensor.
    several = depthwise and channels > data.shape[3]
    if several or max(window.dilation) > MAX_DILATION or max(window.strides) > MAX_STRIDE:
        data = unsliced(graph, data)
    weight, rows = told_apart(graph, weight, bias, 0 if depthwise else 1)
    pads[0] = (pads[0][0], pads[0][1] + rows * window.dilation[0])
    inputs = operands(graph, data, weight, bias, zero_point)
    shape = (data.shape[0], *size, channels)
    padding = [pad for pair in pads for pad in pair]
    strides, dilation, dtype = list(window.strides), list(window.dilation), accumulators(data)
    return graph.add(operator, inputs, shape, dtype, padding, strides, dilation, False, DTYPES[dtype])


def placed(graph: TosaGraph, data: Value, window: Window) -> tuple[Value, list[int], list[tuple[int, int]]]:
    """Return the data that windows read, the number of outputs along each axis, and the padding.

    TOSA takes no rows that no window starts in; what is padded less than nothing is sliced off.
    """
    size, pads, kept = [], [], list(data.shape)
    for axis, (before, after) in enumerate(window.sides):
        reach = data.shape[1 + axis] + before + after - (window.kernel[axis] - 1) * window.dilation[axis] - 1
        after -= reach % window.strides[axis]
        size.append(reach // window.strides[axis] + 1)
        kept[1 + axis] += min(after, 0)
        pads.append((before, max(after, 0)))
    return sliced(graph, data, (0,) * len(kept), kept), size, pads


def told_apart(graph: TosaGraph, weight: Array, bias: Array, axis: int) -> tuple[Array, int]:
    """Return weights with rows of zeros behind them, and how many, where equal ones stand beside another bias.

    Of equal weights with equal scales, Vela 5.2 takes the first one's biases for all.
    """
    rows = graph.biases_before(weight, bias)
    return np.pad(weight, [(0, rows if at == axis else 0) for at in range(weight.ndim)]), rows


def operands(graph: TosaGraph, data: Value, weight: Array, bias: Array, zero_point: int) -> list[Value]:
    """Return the operands of TOSA's convolutions: data, weights, biases and both zero points.

    Weights are of int8, those of 4 bits as well: Vela 5.2 widens TOSA's int4, which has no -8, and compresses weights
    by their values. Of 64 x 3 x 3 x 64 weights from -7 to 7 it makes 19,744 bytes for an Ethos-U55-128 either way, of
    such as fill 8 bits 38,176.
    """
    zeros = [graph.scalar(zero_point, data.dtype), graph.scalar(0, "int8")]
    return [data, graph.constant(weight), biases(graph, bias, accumulators(data)), *zeros]
