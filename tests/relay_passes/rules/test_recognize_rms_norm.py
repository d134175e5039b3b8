# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import ml_dtypes  # noqa: F401 (numpy then knows bfloat16)
import numpy as np
import pytest
from onnx import helper
from tvm import relax
from tvm.ir import Expr

from arm_ext.pipeline.selftest import run_on_host
from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.ir.sources import bindings_of
from relay_passes.rewriter.engine import apply_rule, explain
from relay_passes.rules.recognize_rms_norm import RULE
from tests.relay_passes.forms import EPS, Ops, check_rewrite, form, imported, refusal
from tests.relay_passes.graphs import operators

# The rule's bound, (n + 4) eps of the largest result, which is sqrt(n) at most: means of up to 9 · 31 elements.
TOLERANCE = (9 * 31 + 4) * np.sqrt(9 * 31) * EPS
EPSILON = 1e-5
Write = Callable[[Ops, Expr], Expr]


def _root(ops: Ops, squares: Expr, axes: list[int] | None = None) -> Expr:
    return ops.sqrt(ops.add(ops.mean(squares, axes or [-1], keepdims=True), EPSILON))


def _over(axes: list[int], keepdims: bool = True, epsilon: float | np.ndarray = EPSILON) -> Write:
    def write(ops: Ops, x: Expr) -> Expr:
        mean = ops.mean(ops.multiply(x, x), axes, keepdims=keepdims)
        return ops.divide(x, ops.sqrt(ops.add(mean, epsilon)))

    return write


def _inverse(one: float) -> Write:
    return lambda ops, x: ops.multiply(x, ops.divide(one, _root(ops, ops.multiply(x, x))))


def _power(exponent: float) -> Write:
    return lambda ops, x: ops.divide(x, _root(ops, ops.power(x, exponent)))


FORMS: dict[str, Write] = {
    "x squared by a product": _over([-1]),
    "x squared by square": lambda ops, x: ops.divide(x, _root(ops, ops.square(x))),
    "x squared by a power": _power(2.0),
    "inverse root, as Llama writes it": lambda ops, x: ops.multiply(
        x, ops.rsqrt(ops.add(ops.mean(ops.power(x, 2.0), [-1], keepdims=True), EPSILON))
    ),
    "inverse root first": lambda ops, x: ops.multiply(
        ops.rsqrt(ops.add(EPSILON, ops.mean(ops.multiply(x, x), [-1], keepdims=True))), x
    ),
    "one over the root, as torch exports it": _inverse(1.0),
    "two axes": _over([1, 2]),
    "two axes, the last first": _over([-1, -2]),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str) -> None:
    check_rewrite(form(FORMS[name], (7, 9, 31)), RULE, ["nn.rms_norm"], TOLERANCE)


def test_axes_and_epsilon_are_kept() -> None:
    attrs = bindings_of(apply_rule(form(_over([1, 2]), (7, 9, 31)), RULE)[0]["main"])[0].value.attrs
    assert ([int(axis) for axis in attrs.axes], attrs.epsilon) == ([-2, -1], pytest.approx(EPSILON))


def test_from_onnx_with_its_scale() -> None:
    nodes = [
        helper.make_node("Pow", ["x", "two"], ["p"]),
        helper.make_node("ReduceMean", ["p"], ["m"], axes=[-1]),
        helper.make_node("Add", ["m", "epsilon"], ["v"]),
        helper.make_node("Sqrt", ["v"], ["r"]),
        helper.make_node("Reciprocal", ["r"], ["i"]),
        helper.make_node("Mul", ["x", "i"], ["n"]),
        helper.make_node("Mul", ["n", "scale"], ["y"]),
    ]
    weights = {"two": np.float32(2), "epsilon": np.float32(EPSILON), "scale": np.arange(31, dtype="float32")}
    mod = imported(nodes, (7, 31), 13, weights)
    check_rewrite(mod, RULE, ["nn.rms_norm", "multiply"], TOLERANCE)
    assert operators(canonicalize(mod)["main"]) == ["nn.rms_norm"]


def _shared(ops: Ops, x: Expr) -> Expr:
    root = _root(ops, ops.multiply(x, x))
    return ops.add(ops.divide(x, root), root)


NEAR_MISSES: dict[str, Write] = {
    "two is not 2.0 (expected 2.0, found 3.0)": _power(3.0),
    "one is not 1.0 (expected 1.0, found 2.0)": _inverse(2.0),
    "epsilon is not one number": _over([-1], epsilon=np.array([[[1e-5], [2e-5]]] * 2)),
    "epsilon enlarges the tensor": _over([-1], epsilon=np.full((1, 1, 2), 1e-5)),
    "mean does not keep the axes": _over([-1], keepdims=False),
    "mean is not over the last axes (expected 2, found [1])": _over([1]),
    "sqrt is also needed by add": _shared,
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (2, 2, 2)), RULE) == reason


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_floats_have_no_norm(dtype: str) -> None:
    def write(ops: Ops, x: Expr) -> Expr:
        mean = ops.mean(ops.multiply(x, x), [-1], keepdims=True)
        return ops.divide(x, ops.sqrt(ops.add(mean, relax.const(EPSILON, dtype))))

    mod = form(write, (3, 8), dtype=dtype)
    assert refusal(mod, RULE) == f"dtype has no norm (expected float16 or float32, found {dtype})"
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(np.dtype(dtype))
    (found,) = run_on_host(mod, [x])
    wide = x.astype(float)
    wanted = wide / np.sqrt(np.mean(wide * wide, -1, keepdims=True) + EPSILON)
    np.testing.assert_allclose(found.astype(float), wanted, rtol=2**-5 if dtype == "bfloat16" else 1e-12)


def test_the_root_of_another_value_is_no_norm_of_x() -> None:
    mod = form(lambda ops, x, y: ops.divide(x, _root(ops, ops.multiply(y, y))), (7, 9), (7, 9))
    assert explain(mod, RULE).applied == ()
