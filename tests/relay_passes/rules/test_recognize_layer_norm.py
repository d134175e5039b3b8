# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper
from tvm.ir import Expr

from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.ir.sources import bindings_of
from relay_passes.rewriter.engine import apply_rule, explain
from relay_passes.rules.recognize_layer_norm import RULE
from relay_passes.rules.recognize_rms_norm import RULE as RMS_NORM
from relay_passes.rules.registry import RECOGNIZE
from tests.relay_passes.forms import EPS, Ops, check_rewrite, form, imported, refusal
from tests.relay_passes.graphs import operators

# The rule's bound, (n + 4) eps of the largest result, which is sqrt(n) at most: means of up to 9 · 31 elements.
TOLERANCE = (9 * 31 + 4) * np.sqrt(9 * 31) * EPS
EPSILON = 1e-5
Write = Callable[[Ops, Expr], Expr]


def _norm(
    axes: list[int], center_axes: list[int] | None = None, keepdims: bool = True, exponent: float = 2.0
) -> Write:
    def write(ops: Ops, x: Expr) -> Expr:
        d = ops.subtract(x, ops.mean(x, center_axes or axes, keepdims=keepdims))
        mean = ops.mean(ops.power(d, exponent), axes, keepdims=True)
        return ops.divide(d, ops.sqrt(ops.add(mean, EPSILON)))

    return write


def _inverse_root(ops: Ops, x: Expr) -> Expr:
    d = ops.subtract(x, ops.mean(x, [-1], keepdims=True))
    mean = ops.mean(ops.multiply(d, d), [-1], keepdims=True)
    return ops.multiply(ops.rsqrt(ops.add(mean, EPSILON)), d)


def _flax(ops: Ops, x: Expr, positive: str = "maximum") -> Expr:
    """The variance as a difference of means."""
    mean, power = ops.mean(x, [-1], keepdims=True), ops.mean(ops.multiply(x, x), [-1], keepdims=True)
    value = ops.subtract(power, ops.multiply(mean, mean))
    value = ops.maximum(0.0, value) if positive == "maximum" else ops("nn.relu", value)
    return ops.multiply(ops.subtract(x, mean), ops.rsqrt(ops.add(value, EPSILON)))


def _with_gain(ops: Ops, x: Expr, gain: np.ndarray | None = None) -> Expr:
    d = ops.subtract(x, ops.mean(x, [-1], keepdims=True))
    root = ops.rsqrt(ops.add(ops.mean(ops.multiply(d, d), [-1], keepdims=True), EPSILON))
    return ops.multiply(
        d, ops.multiply(root, np.linspace(0.5, 1, 31, dtype=np.float32) if gain is None else gain)
    )


FORMS: dict[str, Write] = {
    "as flax writes it": _flax,
    "as flax writes it, tidied": lambda ops, x: _flax(ops, x, "relu"),
    "as torch exports it": _norm([-1]),
    "two axes": _norm([1, 2]),
    "axes in another order and from the end": _norm([-1, 1], [1, 2]),
    "inverse root": _inverse_root,
}


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str) -> None:
    check_rewrite(form(FORMS[name], (7, 9, 31)), RULE, ["nn.layer_norm"], TOLERANCE)


def test_a_gain_at_the_root_follows() -> None:
    mod = form(_with_gain, (7, 9, 31))
    check_rewrite(mod, RULE, ["nn.layer_norm", "multiply"], TOLERANCE)
    assert operators(canonicalize(mod)["main"]) == ["nn.layer_norm"]


def test_a_gain_that_enlarges_the_tensor_is_left() -> None:
    mod = form(lambda ops, x: _with_gain(ops, x, np.ones((3, 1, 1, 1), np.float32)), (2, 2, 31))
    assert refusal(mod, RULE) == "the gain enlarges the tensor"


def test_axes_and_epsilon_are_kept() -> None:
    attrs = bindings_of(apply_rule(form(_norm([1, 2]), (7, 9, 31)), RULE)[0]["main"])[0].value.attrs
    assert ([int(axis) for axis in attrs.axes], attrs.epsilon) == ([-2, -1], pytest.approx(EPSILON))


def test_from_onnx_with_its_scale_and_shift() -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["c"], axes=[-1]),
        helper.make_node("Sub", ["x", "c"], ["d"]),
        helper.make_node("Pow", ["d", "two"], ["p"]),
        helper.make_node("ReduceMean", ["p"], ["m"], axes=[-1]),
        helper.make_node("Add", ["m", "epsilon"], ["v"]),
        helper.make_node("Sqrt", ["v"], ["r"]),
        helper.make_node("Div", ["d", "r"], ["n"]),
        helper.make_node("Mul", ["n", "gamma"], ["s"]),
        helper.make_node("Add", ["s", "beta"], ["y"]),
    ]
    rows = np.arange(31, dtype="float32")
    weights = {"two": np.float32(2), "epsilon": np.float32(EPSILON), "gamma": rows, "beta": -rows}
    mod = imported(nodes, (7, 31), 13, weights)
    check_rewrite(mod, RULE, ["nn.layer_norm", "multiply", "add"], TOLERANCE)
    assert operators(canonicalize(mod)["main"]) == ["nn.layer_norm"]


def test_it_comes_before_the_norm_inside_of_it() -> None:
    names = [rule.name for rule in RECOGNIZE]
    assert names.index(RULE.name) < names.index(RMS_NORM.name)
    assert operators(canonicalize(form(_norm([-1]), (7, 31)))["main"]) == ["nn.layer_norm"]


def _shared(ops: Ops, x: Expr) -> Expr:
    d = ops.subtract(x, ops.mean(x, [-1], keepdims=True))
    mean = ops.mean(ops.multiply(d, d), [-1], keepdims=True)
    return ops.multiply(ops.divide(d, ops.sqrt(ops.add(mean, EPSILON))), d)


NEAR_MISSES: dict[str, Write] = {
    "two is not 2.0 (expected 2.0, found 3.0)": _norm([-1], exponent=3.0),
    "mean is not over the last axes (expected 2, found [1])": _norm([1]),
    "center is not over the last axes (expected 2, found [0])": _norm([-1], [0]),
    "center does not keep the axes": _norm([-1], keepdims=False),
    "the means are over other axes (expected [2], found [1, 2])": _norm([-1], [1, 2]),
    "subtract is also needed by multiply": _shared,
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (2, 2, 2)), RULE) == reason


def test_what_is_not_centred_is_no_layer_norm() -> None:
    def write(ops: Ops, x: Expr, y: Expr) -> Expr:
        d = ops.subtract(x, ops.mean(y, [-1], keepdims=True))
        mean = ops.mean(ops.multiply(d, d), [-1], keepdims=True)
        return ops.divide(d, ops.sqrt(ops.add(mean, EPSILON)))

    assert explain(form(write, (7, 9), (7, 9)), RULE).applied == ()
