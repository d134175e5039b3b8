# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that functions of `frontends.ops` compute."""

from collections.abc import Callable
from typing import Any

import tflite
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.ops import activations, arithmetic, maths, reduce
from arm_ext.frontends.tflite.operands import Convert, data_of, options_of

_R = relax.op


def by(function: Callable[..., Value]) -> Convert:
    """Return a converter that applies a function of `frontends.ops` to the operator's inputs."""

    def convert(c: Any, op: Any) -> relax.Expr:
        graph = Graph(c.bb)
        return function(*(graph.hold(data_of(c, x)) for x in c.get_input_tensors(op))).full

    return convert


def _running_sum(c: Any, op: Any) -> relax.Expr:
    axis, options = c.known(op.Inputs(1)), options_of(op, tflite.CumsumOptions)
    if axis is None:
        raise ModelError("its axis is computed at run time; it must be a constant")
    x = Graph(c.bb).hold(data_of(c, c.get_input_tensors(op)[0]))
    number = int(axis.reshape(())) % len(x.shape)
    return reduce.running_sum(x, number, options.Exclusive(), reverse=options.Reverse()).full


def _leaky_relu(c: Any, op: Any) -> relax.Expr:
    alpha = options_of(op, tflite.LeakyReluOptions).Alpha()
    return by(lambda x: activations.leaky_relu(x, alpha))(c, op)


def _softmax(c: Any, op: Any) -> relax.Expr:
    """Convert SOFTMAX with any beta, which TVM's converter assumes to be 1."""
    beta, x = (
        options_of(op, tflite.SoftmaxOptions).Beta(),
        Graph(c.bb).hold(data_of(c, c.get_input_tensors(op)[0])),
    )
    return reduce.softmax(x if beta == 1 else x * beta).full


def _gelu(c: Any, op: Any) -> relax.Expr:
    """Convert GELU, including its approximate form, which TVM's converter does not support."""
    approximate = options_of(op, tflite.GeluOptions).Approximate()
    return by(activations.gelu_tanh if approximate else activations.gelu)(c, op)


VOCABULARY: dict[str, Convert] = {
    "ATAN2": by(maths.atan2),
    "BITWISE_XOR": by(lambda x, y: x ^ y),
    "CUMSUM": _running_sum,
    "ELU": by(activations.elu),
    "GELU": _gelu,
    "LEAKY_RELU": _leaky_relu,
    "HARD_SWISH": by(activations.hard_swish),
    "LOG_SOFTMAX": by(reduce.log_softmax),
    "POW": by(maths.power),
    "RELU6": by(activations.relu6),
    "SIGN": by(arithmetic.sign),
    "SOFTMAX": _softmax,
}
"""TFLite's operator name → its converter."""
