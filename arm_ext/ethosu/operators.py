# SPDX-License-Identifier: Apache-2.0
"""The NPU's view of an integer graph: one `Operator` for each group of calls that becomes one piece of TOSA.

An `Operator`'s attributes by kind (integers unless noted; tensors are channels last but where channels_first is true,
weights, multipliers and biases always; weights are numpy arrays):

    conv2d, depthwise_conv2d    weight [O, KH, KW, I]; strides, dilation (pairs); padding (top, left, bottom, right);
                                groups; input_zero_point; and those of a sum
    conv3d                      weight [O, KD, KH, KW, I]; strides, dilation (triples); padding (what comes before, then
                                what comes after); groups; input_zero_point; and those of a sum
    conv2d_transpose            weight [O, KH, KW, I]; strides, dilation, output_padding; padding; groups;
                                input_zero_point; and those of a sum
    run_time_conv2d             strides, dilation, padding, groups, input_zero_point, weight_zero_point for data and
                                weights [O, KH, KW, I]; and those of a sum
    linear                      weight [K, N] for data [..., K]; and those of a sum
    matmul                      a_zero_point, b_zero_point for data [..., M, K] and [..., K, N]; and those of a sum
    average_pool2d              kernel, strides (pairs); padding (top, left, bottom, right), which counts for nothing;
                                input_zero_point; and, of those of a sum, zero_point, low, high: it keeps its scale
    reduce_sum                  axes, keepdims; and those of a sum
    a sum                       bias int64 (broadcasts to the output; it holds whatever the zero points add, but for
                                input_zero_point's); magnitude: a bound of the accumulators; multiplier int32
                                (broadcasts), shift, zero_point, low, high
    add, subtract, multiply,
    maximum, minimum            a_ and b_ zero_point, multiplier, shift; y_zero_point, y_multiplier, y_shift; low, high;
                                a or b: an int32 array, for a constant operand
    table                       table, 256 entries of the output's dtype; of 16-bit data 513 of int16, between which it
                                interpolates, and shift (of what that gives), y_zero_point
    rescale                     x_zero_point; y_zero_point, y_multiplier, y_shift; low, high
    split                       index: which part of its call's the output is
    softmax                     axis; exponentials, reciprocals (tables); y_zero_point, y_multiplier, y_shift
    resize                      bilinear: y_n, y_d, y_offset, y_border of rows, as RESIZE has them; x_ of columns
    logical_right_shift         ranges; its call is the shift of the bits as uint32
    any other                   the Relax operator's name without "relax."; its call's attributes and further
                                arguments are in `call`
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm.ir import Call, Var

from relay_passes.ir.sources import Names
from schedules.diagnostic import Diagnostic


@dataclass(frozen=True, eq=False)
class Tensor:
    """A run-time tensor.

    Attributes:
        var: The variable that holds it; what a tensor is known by.
        shape: Static.
        dtype: Of its elements.
    """

    var: Var
    shape: tuple[int, ...]
    dtype: str

    @property
    def name(self) -> str:
        """Name of the variable."""
        return str(self.var.name)


@dataclass(frozen=True, eq=False)
class Operator:
    """One NPU operator.

    Attributes:
        kind: See the module.
        nodes: The source nodes that it comes from.
        inputs: Tensors that it reads.
        output: The tensor that it computes.
        attributes: See the module.
        bindings: Every variable that is its own, the output the last.
        call: The Relax call that gives it its kind.
        macs: Multiply-accumulates.
    """

    kind: str
    nodes: Names
    inputs: tuple[Tensor, ...]
    output: Tensor
    attributes: Mapping[str, Any]
    bindings: tuple[Var, ...]
    call: Call
    macs: int = 0


def channels_last(operator: Operator) -> Operator:
    """Return an operator over NCHW images as one over NHWC images; return any other unchanged."""
    if not operator.attributes.get("channels_first"):
        return operator

    def moved(tensor: Tensor) -> Tensor:
        batch, channels, *sizes = tensor.shape
        return replace(tensor, shape=(batch, *sizes, channels))

    inputs = tuple(moved(tensor) for tensor in operator.inputs)
    given = {**operator.attributes, "channels_first": False}
    return replace(operator, inputs=inputs, output=moved(operator.output), attributes=given)


@dataclass(frozen=True)
class Unread:
    """A call that is no NPU operator.

    Attributes:
        var: What it computes.
        why: Why it is none; with its source nodes, and what it computes, such as "layer_norm".
        macs: Multiply-accumulates.
    """

    var: Var
    why: Diagnostic
    macs: int = 0

    @property
    def nodes(self) -> Names:
        """Its source nodes."""
        return self.why.nodes

    @property
    def operator(self) -> str:
        """What it computes."""
        return self.why.operator


@dataclass(frozen=True)
class Graph:
    """An integer graph as NPU operators.

    Attributes:
        operators: In program order.
        unread: What is left, in program order.
        inputs: Parameters of the function.
        results: Variables that the function returns.
        reads: For every variable bound, in program order, those that its value reads.
    """

    operators: tuple[Operator, ...]
    unread: tuple[Unread, ...]
    inputs: tuple[Var, ...]
    results: tuple[Var, ...]
    reads: Mapping[Var, tuple[Var, ...]]
