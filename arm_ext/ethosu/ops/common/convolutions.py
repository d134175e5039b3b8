# SPDX-License-Identifier: Apache-2.0
"""Window limits and TOSA accumulators of convolutions, and of operators that are emitted as convolutions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.constraint import TOSA, Constraint
from arm_ext.ethosu.ops.common.operators import Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Array
from arm_ext.ethosu.ops.common.sums import SumAttributes, accumulators, biases
from arm_ext.ethosu.ops.common.windows import MAX_STRIDE, Window, Windowed, of_windows
from arm_ext.ethosu.tosa.common import sliced, unsliced
from arm_ext.ethosu.tosa.graph import DTYPES, TosaGraph, TosaTensor

MAX_ROWS, MAX_AREA = 64, 4096
"""Limits of a convolution's window on every Ethos-U: kernel height, and height * width (Vela 5.2, SUPPORTED_OPS.md)."""

MAX_DILATION = 2
"""Largest dilation of a convolution that Vela compiles to one command (Vela 5.2, SUPPORTED_OPS.md)."""


@dataclass(frozen=True, kw_only=True)
class Convolved(Windowed, SumAttributes):
    """Attributes of a convolution.

    Attributes:
        groups: Number of channel groups.
        input_zero_point: Zero point of the data.
    """

    groups: int
    input_zero_point: int

    def zero_points(
        self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor
    ) -> Sequence[tuple[RunTimeTensor, int]]:
        """Return the data with its zero point, and the result with its own."""
        return (inputs[0], self.input_zero_point), (output, self.requantization.zero_point)


# Data layout → the layout of the weights that belongs to it.
_KERNEL_LAYOUTS = {"NHWC": "OHWI", "NCHW": "OIHW", "NDHWC": "ODHWI", "NCDHW": "OIDHW"}


def layout_of(call: Call) -> str | None:
    """Return the data layout of a Relax convolution; None if its weights or its result have no matching layout."""
    attrs, layout = call.attrs, str(call.attrs.data_layout)
    matching = (_KERNEL_LAYOUTS.get(layout), layout)
    return layout if (str(attrs.kernel_layout), str(attrs.out_layout or layout)) == matching else None


def _groups(operator: Operator[Convolved]) -> int:
    return operator.attributes.groups


OF_KERNELS = of_windows(MAX_ROWS, MAX_AREA)
"""Constraints on the window of every convolution."""

ONE_GROUP: Constraint[Convolved] = Constraint(
    "TOSA's convolution of its kind has one group", "1", _groups, lambda groups: groups == 1, "one group", TOSA,
)  # fmt: skip


def convolved(
    graph: TosaGraph,
    operator: Any,
    data: TosaTensor,
    weight: Array,
    bias: Array,
    window: Window,
    zero_point: int = 0,
) -> TosaTensor:
    """Emit a 2D convolution and return its accumulators [N, H, W, O], O being the number of biases.

    Args:
        graph: The TOSA graph.
        operator: CONV2D or DEPTHWISE_CONV2D.
        data: Input [N, H, W, C].
        weight: Weights in TOSA's layout, [O, KH, KW, I] or [KH, KW, C, multiplier].
        bias: Bias of each output channel.
        window: Kernel, strides, dilation and padding.
        zero_point: Zero point of the data.
    """
    channels, depthwise = len(bias), operator == ts.Op.DEPTHWISE_CONV2D
    data, size, pads = placed(graph, data, window)
    # Vela 5.2 splits these into several convolutions, which read a slice of a tensor as if it were the complete
    # tensor.
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


def placed(
    graph: TosaGraph, data: TosaTensor, window: Window
) -> tuple[TosaTensor, list[int], list[tuple[int, int]]]:
    """Return the data that windows read, the output size of each axis, and the padding before and after each axis.

    TOSA rejects trailing rows and columns that no window reaches: padding is reduced, and a negative one sliced off.
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
    """Return weights made unique in the graph by appended rows of zeros, and the number of these rows.

    Vela 5.2 gives all convolutions with equal weights and scales the biases of the first one.
    """
    rows = graph.biases_before(weight, bias)
    return np.pad(weight, [(0, rows if at == axis else 0) for at in range(weight.ndim)]), rows


def operands(
    graph: TosaGraph, data: TosaTensor, weight: Array, bias: Array, zero_point: int
) -> list[TosaTensor]:
    """Return the operands of TOSA's convolutions: data, weights, biases and both zero points.

    4-bit weights are int8, too: Vela 5.2 widens TOSA's int4, which lacks -8, and compresses weights by their values.
    64 x 3 x 3 x 64 weights from -7 to 7 become 19,744 bytes for an Ethos-U55-128 in either dtype, and weights over the
    whole range of int8 38,176 bytes.
    """
    zeros = [graph.scalar(zero_point, data.dtype), graph.scalar(0, "int8")]
    return [data, graph.constant(weight), biases(graph, bias, accumulators(data)), *zeros]
