# SPDX-License-Identifier: Apache-2.0
"""Emission of a region of operators as a TOSA graph."""

from collections.abc import Callable, Mapping, Sequence

from tvm.ir import Var

from arm_ext.ethosu.operators import Operator, Tensor
from arm_ext.ethosu.tosa import elementwise, integers, moves, picks, pooling, products
from arm_ext.ethosu.tosa.common import copied, unjoined, unsliced
from arm_ext.ethosu.tosa.graph import TosaGraph, Value
from arm_ext.ethosu.tosa.layouts import emitted
from arm_ext.ethosu.tosa.matmul import matmul
from arm_ext.ethosu.tosa.resize import resize_bilinear
from arm_ext.ethosu.tosa.run_time import run_time_conv2d
from arm_ext.ethosu.tosa.scatter import SCATTERS, scatter
from arm_ext.ethosu.tosa.softmax import softmax
from arm_ext.ethosu.tosa.volumes import conv3d
from arm_ext.target.npu import Family

Emitter = Callable[..., Value]
"""Adds one operator to a graph: of the graph, the `Operator` and the values of its inputs, the value of its output."""

_RESHAPES = ("reshape", "squeeze", "expand_dims", "flatten", "nn.batch_flatten")

EMITTERS: Mapping[str, Emitter] = {
    "conv2d": products.conv2d,
    "depthwise_conv2d": products.depthwise_conv2d,
    "conv2d_transpose": products.conv2d_transpose,
    "conv3d": conv3d,
    "run_time_conv2d": run_time_conv2d,
    "linear": products.linear,
    "matmul": matmul,
    "average_pool2d": pooling.average_pool2d,
    "reduce_sum": products.reduce_sum,
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum"), elementwise.binary),
    "table": elementwise.table,
    "rescale": elementwise.restepped,
    "softmax": softmax,
    **dict.fromkeys(_RESHAPES, moves.reshape),
    "permute_dims": moves.permute_dims,
    "concat": moves.concat,
    "split": moves.split,
    "strided_slice": picks.strided_slice,
    "nn.pad": moves.pad,
    "nn.max_pool2d": pooling.max_pool2d,
    "max": moves.reduce_extremum,
    "min": moves.reduce_extremum,
    **dict.fromkeys(("broadcast_to", "tile"), moves.tile),
    "repeat": moves.repeat,
    "flip": picks.flip,
    "take": picks.take,
    **dict.fromkeys(SCATTERS, scatter),
    **dict.fromkeys(("argmax", "argmin"), picks.argmax),
    "image.resize2d": moves.resize_nearest,
    "resize": resize_bilinear,
    "astype": integers.astype,
    **dict.fromkeys(integers.EXTREMA, integers.extremum),
    **dict.fromkeys((*integers.ARITHMETIC, *integers.COMPARISONS), integers.elementwise),
    **dict.fromkeys((*integers.LOGICAL, *integers.BITWISE), integers.elementwise),
    "where": integers.where,
}
"""By an operator's kind."""

_READ_SLICES = (
    *_RESHAPES,
    *("add", "subtract", "multiply", "maximum", "minimum", "table", "concat", "split", "strided_slice"),
    *("conv2d", "depthwise_conv2d", "linear", "average_pool2d", "nn.max_pool2d"),
)
"""Kinds that Vela 5.2 lets read a part of a tensor; of others it forgets that it is a part."""


_WRITE_SLICES = ("concat", "nn.pad")
_TO_INT32 = ("conv2d_transpose", "run_time_conv2d", "reduce_sum", "softmax", "maximum", "minimum")


def emit(
    operators: Sequence[Operator], inputs: Sequence[Tensor], outputs: Sequence[Tensor], family: Family
) -> bytes:
    """Return the TOSA 1.0 flatbuffer of operators that meet the constraints.

    Values that an operator computes are named after its output, "name/1", so that Vela's words lead back to it.

    Args:
        operators: In program order.
        inputs: What they read from outside, in the order of the graph's inputs.
        outputs: What is read of them outside, in the order of the graph's outputs.
        family: Of the accelerators that it is for; what a graph computes is the same for all.
    """
    graph = TosaGraph(family)
    values: dict[Var, Value] = {tensor.var: graph.input(tensor.shape, tensor.dtype) for tensor in inputs}
    apart: set[Var] = set()
    for operator in operators:
        graph.scope = operator.output.name
        data = [values[tensor.var] for tensor in operator.inputs]
        if _rescaled_apart(operator) or (operator.kind in _RESHAPES and operator.inputs[0].var in apart):
            apart.add(operator.output.var)
        if operator.kind in _WRITE_SLICES:
            data = [
                copied(graph, value) if tensor.var in apart else value
                for tensor, value in zip(operator.inputs, data, strict=True)
            ]
        if family != "u85" and _widens(operator):
            data = [unjoined(graph, value) for value in data]
        elif operator.kind not in _READ_SLICES:
            data = [unsliced(graph, value) for value in data]
        values[operator.output.var] = emitted(EMITTERS[operator.kind], graph, operator, *data)
    forgotten = _forgotten(operators)
    for tensor in outputs:
        graph.scope, value = tensor.name, values[tensor.var]
        # What a graph is given it cannot give.
        again = tensor.var in forgotten or graph.made(value) is None
        graph.output(copied(graph, value) if again else value)
    return graph.serialize()


def _rescaled_apart(operator: Operator) -> bool:
    """Whether its last RESCALE may be a command of its own, which Vela 5.2 lets write no part of a tensor."""
    return _with_constant(operator) or operator.kind in _TO_INT32


def _widens(operator: Operator) -> bool:
    """Whether it widens what it reads by a command of its own.

    For Ethos-U55 and U65, Vela 5.2 has such a command read another part than it is given.
    """
    return _with_constant(operator) or operator.kind in (
        *("maximum", "minimum", "reduce_sum", "softmax", "rescale", "astype"),
        *integers.EXTREMA,
    )


def _with_constant(operator: Operator) -> bool:
    return operator.kind in ("add", "subtract", "multiply") and len(operator.inputs) == 1


def _forgotten(operators: Sequence[Operator]) -> set[Var]:
    """Values that Vela 5.2 may forget to keep as outputs: it joins moves, and those of a product's operands."""
    moving = (*_RESHAPES, "permute_dims")
    product = any(operator.kind in ("matmul", "run_time_conv2d") for operator in operators)
    return {tensor.var for op in operators if product or op.kind in moving for tensor in op.inputs}
