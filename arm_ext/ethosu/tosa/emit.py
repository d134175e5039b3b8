# SPDX-License-Identifier: Apache-2.0
"""A region of operators as a TOSA graph."""

from collections.abc import Callable, Mapping, Sequence

from tvm.ir import Var

from arm_ext.ethosu.operators import Operator, Tensor
from arm_ext.ethosu.tosa import elementwise, moves, pooling, products
from arm_ext.ethosu.tosa.graph import TosaGraph, Value
from arm_ext.ethosu.tosa.softmax import softmax

Emitter = Callable[..., Value]
"""Adds one operator to a graph: of the graph, the `Operator` and the values of its inputs, the value of its output."""

EMITTERS: Mapping[str, Emitter] = {
    "conv2d": products.conv2d,
    "depthwise_conv2d": products.depthwise_conv2d,
    "conv2d_transpose": products.conv2d_transpose,
    "linear": products.linear,
    "matmul": products.matmul,
    "average_pool2d": pooling.average_pool2d,
    "reduce_sum": products.reduce_sum,
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum"), elementwise.binary),
    "table": elementwise.table,
    "softmax": softmax,
    **dict.fromkeys(
        ("reshape", "squeeze", "expand_dims", "flatten", "nn.batch_flatten"),
        moves.reshape,
    ),
    "permute_dims": moves.permute_dims,
    "concat": moves.concat,
    "split": moves.split,
    "strided_slice": moves.strided_slice,
    "nn.pad": moves.pad,
    "nn.max_pool2d": pooling.max_pool2d,
    "max": moves.reduce_extremum,
    "min": moves.reduce_extremum,
    "broadcast_to": moves.broadcast_to,
    "flip": moves.flip,
    "image.resize2d": moves.resize_nearest,
}
"""By an operator's kind."""


def emit(operators: Sequence[Operator], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> bytes:
    """The TOSA 1.0 flatbuffer of operators that meet the constraints.

    Args:
        operators: In program order.
        inputs: What they read from outside, in the order of the graph's inputs.
        outputs: What is read of them outside, in the order of the graph's outputs.
    """
    graph = TosaGraph()
    values: dict[Var, Value] = {tensor.var: graph.input(tensor.shape, tensor.dtype) for tensor in inputs}
    for operator in operators:
        data = [values[tensor.var] for tensor in operator.inputs]
        values[operator.output.var] = EMITTERS[operator.kind](graph, operator, *data)
    for tensor in outputs:
        graph.output(values[tensor.var])
    return graph.serialize()
