# SPDX-License-Identifier: Apache-2.0
"""TFLite operators by `frontends.ops`, and those with some constant operands where TVM requires all to be constant."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.ops import activations, arithmetic, maths, reduce
from arm_ext.frontends.tflite.forms import Convert, data_of, options_of
from arm_ext.frontends.tflite.tensors import constant

_R = relax.op


def _fill(c: Any, op: Any) -> relax.Expr:
    """Convert FILL with a run-time value and constant sizes."""
    sizes = c.known(op.Inputs(0))
    if sizes is None:
        raise ModelError("its sizes are computed at run time; they must be constants")
    _, value = c.get_input_tensors(op)
    return _R.broadcast_to(data_of(c, value), [int(size) for size in sizes])


def _densify(c: Any, op: Any) -> relax.Expr:
    """Convert DENSIFY of constant sparse weights to a dense constant."""
    c.convert_densify(op)
    return constant(np.asarray(c.get_prefetched_node(op.Outputs(0))))


def by(function: Callable[..., Value]) -> Convert:
    """Return a converter by a function of the vocabulary, of the operator's inputs."""

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


FORMULAS: dict[str, Convert] = {
    "ATAN2": by(maths.atan2),
    "BITWISE_XOR": by(lambda x, y: x ^ y),
    "CUMSUM": _running_sum,
    "ELU": by(activations.elu),
    "LEAKY_RELU": _leaky_relu,
    "HARD_SWISH": by(activations.hard_swish),
    "LOG_SOFTMAX": by(reduce.log_softmax),
    "POW": by(maths.power),
    "RELU6": by(activations.relu6),
    "SIGN": by(arithmetic.sign),
    "DENSIFY": _densify,
    "FILL": _fill,
}
"""TFLite's operator name → its converter."""
