# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper
from tvm import relax
from tvm.ir import Expr

from relay_passes.ir.sources import bindings_of
from relay_passes.rewriter.engine import apply_rule, explain
from relay_passes.rules.recognize_softmax import RULE
from tests.relay_passes.forms import EPS, Ops, check_rewrite, form, imported, refusal
from tests.relay_passes.graphs import run

# The rule's bound, (n + |x - max(x)|) eps: sums of up to 31 elements, of inputs in [-8, 8].
TOLERANCE = (31 + 16) * EPS
Write = Callable[[Ops, Expr], Expr]


def _stable(axis: int, *, along: int | None = None, keepdims: bool = True) -> Write:
    def write(ops: Ops, x: Expr) -> Expr:
        maximum = ops.max(x, axis if along is None else along, keepdims=True)
        e = ops.exp(ops.subtract(x, maximum))
        return ops.divide(e, ops.sum(e, axis, keepdims=keepdims))

    return write


def _plain(axis: int | list[int] | None, *, keepdims: bool = True) -> Write:
    def write(ops: Ops, x: Expr) -> Expr:
        e = ops.exp(x)
        return ops.divide(e, ops.sum(e, axis, keepdims=keepdims))

    return write


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("write", [_stable, _plain])
def test_values_are_kept(write: Callable[[int], Write], axis: int) -> None:
    mod = form(write(axis), (7, 9, 31))
    check_rewrite(mod, RULE, ["nn.softmax"], TOLERANCE)
    (binding,) = bindings_of(apply_rule(mod, RULE)[0]["main"])[:1]
    assert int(binding.value.attrs.axis) == axis % 3


def test_a_vector_may_be_summed_over_all_axes() -> None:
    check_rewrite(form(_plain(None), (31,)), RULE, ["nn.softmax"], TOLERANCE)


def test_the_plain_form_no_longer_overflows() -> None:
    x = np.array([100.0, 99.0], "float32")
    rewritten, _ = apply_rule(form(_plain(0), (2,)), RULE)
    expected = [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1))]
    np.testing.assert_allclose(run(rewritten, x), expected, rtol=TOLERANCE)


def test_from_onnx() -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], axes=[-1]),
        helper.make_node("Sub", ["x", "m"], ["d"]),
        helper.make_node("Exp", ["d"], ["e"]),
        helper.make_node("ReduceSum", ["e", "axes"], ["s"]),
        helper.make_node("Div", ["e", "s"], ["y"]),
    ]
    mod = imported(nodes, (2, 31), 13, {"axes": np.array([-1])})
    check_rewrite(mod, RULE, ["nn.softmax"], TOLERANCE)


def _shared(ops: Ops, x: Expr) -> Expr:
    e = ops.exp(x)
    return ops.add(ops.divide(e, ops.sum(e, -1, keepdims=True)), e)


NEAR_MISSES: dict[str, Write] = {
    "sum is not along one axis (expected 1 axis, found [0, 1])": _plain([0, 1]),
    "sum does not keep the axis": _plain(0, keepdims=False),
    "maximum and sum are along different axes (expected [0], found [1])": _stable(0, along=1),
    "exp is also needed by add": _shared,
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (7, 7)), RULE) == reason


def test_a_maximum_of_something_else_is_no_softmax() -> None:
    def write(ops: Ops, x: Expr, y: Expr) -> Expr:
        e = ops.exp(ops.subtract(x, ops.max(y, -1, keepdims=True)))
        return ops.divide(e, ops.sum(ops.abs(e), -1, keepdims=True))

    assert explain(form(write, (7, 9), (7, 9)), RULE).applied == ()


def test_an_exponential_quantised_by_itself_is_left() -> None:
    def write(ops: Ops, x: Expr) -> Expr:
        scale, zero = relax.const(np.float32(1 / 128)), relax.const(np.int8(-128))
        e = ops.exp(x)
        stored = ops.quantize(e, scale, zero, axis=0, out_dtype="int8")
        return ops.divide(e, ops.sum(ops.dequantize(stored, scale, zero, axis=0), -1, keepdims=True))

    assert explain(form(write, (7, 9)), RULE).applied == ()
