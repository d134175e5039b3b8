# SPDX-License-Identifier: Apache-2.0
"""Replacements of elementwise ONNX operators that upstream's importer or code generator lacks."""

import math

import numpy as np
from onnx import helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.evaluation import evaluate_node
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.forms import like, reduce

_DROPOUT_TELLS = 12
_WHERE = 9
"""Opset since which there is Where."""
_GROUP = 16
"""Most inputs of one Sum, Max, Min or Mean."""

_FOR_INFERENCE = "export the model for inference"


POWER = "Power"
"""Operator in the domain `OWN`: integers to the power of integers of the same type."""

CAST = "Convert"
"""Operator in the domain `OWN`: floats as the integers of the attribute `to`."""


def many_inputs(e: Expansion) -> None:
    """Replace Sum, Max, Min or Mean of many inputs by a tree of groups; leave those of few.

    Upstream's converters make a chain as deep as there are inputs, which becomes the expressions of one kernel.
    """
    values = list(e.node.input)
    if len(values) <= _GROUP:
        return
    mean = e.node.op_type == "Mean"
    operator = "Sum" if mean else e.node.op_type
    count = like(e, len(values), values[0]) if mean else ""
    while len(values) > _GROUP:
        values = [e.emit(operator, values[k : k + _GROUP]) for k in range(0, len(values), _GROUP)]
    if mean:
        e.emit("Div", [e.emit(operator, values), count], e.node.output[0])
    else:
        e.emit(operator, values, e.node.output[0])


def cast_like(e: Expansion) -> None:
    """Replace CastLike by Cast."""
    x, like_name = e.inputs("input target_type")
    kind = e.declared(like_name).type.tensor_type.elem_type
    e.emit("Cast", [x], e.node.output[0], to=kind)


def power(e: Expansion) -> None:
    """Replace Pow of integers by an operator of `OWN`; cast the exponent to the base's dtype."""
    base, exponent = e.inputs("X Y")
    kinds = e.dtype(base), e.dtype(exponent)
    if kinds[0] != kinds[1]:
        exponent = e.emit("Cast", [exponent], to=helper.np_dtype_to_tensor_dtype(kinds[0]))
    if kinds[0].kind in "iu":
        dims = np.broadcast_shapes(e.dims(base), e.dims(exponent))
        own = e.emit_own(POWER, [base, exponent], kinds[0], dims)
        e.emit("Identity", [own], e.node.output[0])
    elif kinds[0] != kinds[1]:
        e.emit("Pow", [base, exponent], e.node.output[0])


def cast(e: Expansion) -> None:
    """Replace Cast of floats to integers by an operator of `OWN`; upstream's has other results beyond the range."""
    (x,) = e.inputs("input")
    dtype = helper.tensor_dtype_to_np_dtype(int(e.attribute("to", 0)))
    if dtype.kind in "iu" and e.dtype(x).kind not in "iub":
        own = e.emit_own(CAST, [x], dtype, e.dims(x), to=dtype.name)
        e.emit("Identity", [own], e.node.output[0])


def dropout(e: Expansion) -> None:
    """Replace Dropout by its data and a constant mask; before opset 12 onnxruntime's mask is all false."""
    data, ratio, training = e.inputs("data ratio? training_mode?")
    drops, share = (e.value(name) if name else None for name in (training, ratio))
    if training and (drops is None or drops.any()) and (share is None or share.any()):
        when = "its input training_mode can be true, and then " if drops is None else ""
        raise ModelError(f"{when}it drops at random, which training alone needs: {_FOR_INFERENCE}")
    e.emit("Identity", [data], e.node.output[0])
    if len(e.node.output) > 1 and e.node.output[1]:
        kept = e.constant(np.full(e.dims(data), e.opset() >= _DROPOUT_TELLS))
        e.emit("Identity", [kept], e.node.output[1])


def batch_norm(e: Expansion) -> None:
    """Leave BatchNormalization, and refuse it in training mode.

    Raises:
        ModelError: The node uses the batch's statistics in place of the model's.
    """
    if e.attribute("training_mode", 0):
        raise ModelError(
            f"with training_mode 1 it normalises by the batch's own statistics: {_FOR_INFERENCE}"
        )


def lp_normalization(e: Expansion) -> None:
    """Replace LpNormalization by the data divided by its norm, 0 where the norm is 0."""
    (x,) = e.inputs("input")
    axis = int(e.attribute("axis", -1)) % e.rank(x)
    norm = reduce(e, "ReduceL1" if e.attribute("p", 2) == 1 else "ReduceL2", x, [axis])
    zero = like(e, 0, x)
    e.emit("Where", [e.emit("Equal", [norm, zero]), zero, e.emit("Div", [x, norm])], e.node.output[0])


def log_sum_exp(e: Expansion) -> None:
    """Replace ReduceLogSumExp by m + log(sum(exp(x - m))) with m = max(x), for which TVM's gives a NaN of infinities.

    m is 0 where max(x) is infinite, so that the result is, too.
    """
    empty_reduction(e)
    data, given = e.inputs("data axes?")
    if e.nodes or e.dtype(data).kind in "iu" or e.opset() < _WHERE:
        return
    listed = e.known(given) if given else e.numbers("axes")
    if not len(listed) and e.attribute("noop_with_empty_axes", 0):
        return
    axes = [int(axis) % e.rank(data) for axis in listed] or list(range(e.rank(data)))
    keepdims = bool(e.attribute("keepdims", 1))
    greatest = reduce(e, "ReduceMax", data, axes)
    is_finite = e.emit("Less", [e.emit("Abs", [greatest]), like(e, math.inf, data)])
    shift = e.emit("Where", [is_finite, greatest, like(e, 0, data)])
    total = reduce(e, "ReduceSum", e.emit("Exp", [e.emit("Sub", [data, shift])]), axes, keepdims=keepdims)
    shift = shift if keepdims else reduce(e, "ReduceMax", shift, axes, keepdims=False)
    e.emit("Add", [e.emit("Log", [total]), shift], e.node.output[0])


def empty_reduction(e: Expansion) -> None:
    """Replace a reduction of an empty tensor by its constant; leave others."""
    data, axes = e.inputs("data axes?")
    if 0 not in e.dims(data):
        return
    feeds = {data: np.zeros(e.dims(data), e.dtype(data))}
    if axes:
        feeds[axes] = e.known(axes)
    (result,) = evaluate_node(e.node, e.opset(), feeds)
    e.emit("Identity", [e.constant(result)], e.node.output[0])


def evaluate(e: Expansion) -> None:
    """Replace a node of constants by its value."""
    feeds = {name: e.known(name) for name in e.node.input}
    results = evaluate_node(e.node, e.opset(), feeds)
    for name, result in zip(e.node.output, results, strict=True):
        e.emit("Identity", [e.constant(np.asarray(result))], name)
