# SPDX-License-Identifier: Apache-2.0
"""Activations, norms and softmax in several nodes, as exporters write them."""

import math

import numpy as np

from tests.fuzz.builder import Builder, Value


def commuted(b: Builder, op: str, x: Value, y: Value) -> Value:
    """A commutative operator with its operands in either order."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    return b.node(op, [x, y] if b.flag() else [y, x], shape)


def with_number(b: Builder, op: str, x: Value, number: float) -> Value:
    """A node of x and a scalar constant."""
    return b.node(op, [x, b.constant(np.full(b.pick([(), (1,)]), number))], x.shape)


def relu(b: Builder, x: Value) -> Value:
    if b.flag():
        return with_number(b, "Max", x, 0.0)
    return b.node("Clip", [x, b.constant(0.0)], x.shape)


def relu6(b: Builder, x: Value) -> Value:
    """Each form that exporters write."""
    form = b.pick(["clip", "minimum of maximum", "maximum of minimum", "relu and minimum"])
    if form == "clip":
        return b.node("Clip", [x, b.constant(0.0), b.constant(6.0)], x.shape)
    if form == "minimum of maximum":
        return with_number(b, "Min", with_number(b, "Max", x, 0.0), 6.0)
    if form == "maximum of minimum":
        return with_number(b, "Max", with_number(b, "Min", x, 6.0), 0.0)
    return with_number(b, "Min", b.node("Relu", [x], x.shape), 6.0)


def leaky_relu(b: Builder, x: Value) -> Value:
    return commuted(b, "Max", x, with_number(b, "Mul", x, b.pick([0.1, 0.25])))


def silu(b: Builder, x: Value) -> Value:
    return commuted(b, "Mul", x, b.node("Sigmoid", [x], x.shape))


def hard_swish(b: Builder, x: Value) -> Value:
    if b.pick([False, False, True]):
        gate = b.node("HardSigmoid", [x], x.shape, alpha=1 / 6, beta=0.5)
        return commuted(b, "Mul", x, gate)
    gate = b.node("Clip", [with_number(b, "Add", x, 3.0), b.constant(0.0), b.constant(6.0)], x.shape)
    if b.flag():
        return commuted(b, "Mul", x, with_number(b, "Div", gate, 6.0))
    return with_number(b, b.pick(["Div"]), commuted(b, "Mul", x, gate), 6.0)


def _halved_product(b: Builder, x: Value, gate: Value) -> Value:
    """0.5 · x · gate, in each order."""
    order = b.pick(["(x·gate)·0.5", "(x·0.5)·gate", "x·(gate·0.5)"])
    if order == "(x·gate)·0.5":
        return with_number(b, "Mul", commuted(b, "Mul", x, gate), 0.5)
    if order == "(x·0.5)·gate":
        return commuted(b, "Mul", with_number(b, "Mul", x, 0.5), gate)
    return commuted(b, "Mul", x, with_number(b, "Mul", gate, 0.5))


def gelu_erf(b: Builder, x: Value) -> Value:
    turned = with_number(b, "Div", x, math.sqrt(2)) if b.flag() else with_number(b, "Mul", x, math.sqrt(0.5))
    return _halved_product(b, x, with_number(b, "Add", b.node("Erf", [turned], x.shape), 1.0))


def gelu_tanh(b: Builder, x: Value) -> Value:
    cubed = with_number(b, "Pow", x, 3.0) if b.flag() else commuted(b, "Mul", x, commuted(b, "Mul", x, x))
    inner = commuted(b, "Add", x, with_number(b, "Mul", cubed, 0.044715))
    bent = b.node("Tanh", [with_number(b, "Mul", inner, math.sqrt(2 / math.pi))], x.shape)
    return _halved_product(b, x, with_number(b, "Add", bent, 1.0))


def _square(b: Builder, x: Value) -> Value:
    return with_number(b, "Pow", x, 2.0) if b.flag() else b.node("Mul", [x, x], x.shape)


def _over_root(b: Builder, x: Value, variance: Value) -> Value:
    """x / sqrt(variance + epsilon)."""
    root = b.node("Sqrt", [with_number(b, "Add", variance, 1e-3)], variance.shape)
    if b.flag():
        return b.node("Div", [x, root], x.shape)
    return commuted(b, "Mul", x, b.node("Reciprocal", [root], root.shape))


def _mean_of_last(b: Builder, x: Value) -> Value:
    return b.node("ReduceMean", [x], (*x.shape[:-1], 1), axes=[-1], keepdims=1)


def layer_norm(b: Builder, x: Value) -> Value:
    centred = b.node("Sub", [x, _mean_of_last(b, x)], x.shape)
    y = _over_root(b, centred, _mean_of_last(b, _square(b, centred)))
    if b.flag():
        y = commuted(b, "Mul", y, b.uniform(x.shape[-1:], 0.5, 1.5))
        y = commuted(b, "Add", y, b.uniform(x.shape[-1:]))
    return y


def rms_norm(b: Builder, x: Value) -> Value:
    y = _over_root(b, x, _mean_of_last(b, _square(b, x)))
    return commuted(b, "Mul", y, b.uniform(x.shape[-1:], 0.5, 1.5))


def softmax_decomposed(b: Builder, x: Value) -> Value:
    kept = (*x.shape[:-1], 1)
    if b.flag():
        x = b.node("Sub", [x, b.node("ReduceMax", [x], kept, axes=[-1], keepdims=1)], x.shape)
    else:
        x = b.node("HardSigmoid", [x], x.shape)  # exp is not to overflow
    raised = b.node("Exp", [x], x.shape)
    total = b.node("ReduceSum", [raised, b.integers(-1)], kept, keepdims=1)
    return b.node("Div", [raised, total], x.shape)


def channel_norm(b: Builder, x: Value) -> Value:
    """x / sqrt(mean(x²) + epsilon) along the channels, for which there is no operator."""
    mean = b.node("ReduceMean", [_square(b, x)], (x.shape[0], 1, *x.shape[2:]), axes=[1], keepdims=1)
    return b.node("Div", [x, b.node("Sqrt", [with_number(b, "Add", mean, 1e-3)], mean.shape)], x.shape)


def softplus(b: Builder, x: Value) -> Value:
    """log(1 + exp(x)), and the form that does not overflow."""
    if b.flag():
        return _log_of_one_and_exp(b, x)
    turned = b.node("Neg", [b.node("Abs", [x], x.shape)], x.shape)
    return commuted(b, "Add", b.node("Relu", [x], x.shape), _log_of_one_and_exp(b, turned))


def _log_of_one_and_exp(b: Builder, x: Value) -> Value:
    return b.node("Log", [with_number(b, "Add", b.node("Exp", [x], x.shape), 1.0)], x.shape)


def sigmoid(b: Builder, x: Value) -> Value:
    """1 / (1 + exp(-x)), as JAX writes it."""
    turned = b.node("Exp", [b.node("Neg", [x], x.shape)], x.shape)
    return b.node("Div", [b.constant(1.0), with_number(b, "Add", turned, 1.0)], x.shape)
