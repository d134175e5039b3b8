# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper
from tvm.ir import Expr

from relay_passes.rules.recognize_hard_sigmoid import RULE
from tests.relay_passes.forms import EPS, Ops, check_rewrite, form, imported, refusal

# The rule's bound: 2 eps · |y|, and |y| is at most 8.
TOLERANCE = 2 * EPS * 8
GATE = ["multiply", "add", "clip"]
Write = Callable[[Ops, Expr], Expr]


def _relu6(ops: Ops, x: Expr, shift: float = 3.0, high: float = 6.0) -> Expr:
    return ops.clip(ops.add(x, shift), 0.0, high)


FORMS: dict[str, tuple[list[str], Write]] = {
    "divided": (GATE, lambda ops, x: ops.divide(_relu6(ops, x), 6.0)),
    "multiplied": (GATE, lambda ops, x: ops.multiply(1 / 6, _relu6(ops, x))),
    "hard swish, gate divided": (
        [*GATE, "multiply"],
        lambda ops, x: ops.multiply(x, ops.divide(_relu6(ops, x), 6.0)),
    ),
    "hard swish, product divided": (
        [*GATE, "multiply"],
        lambda ops, x: ops.divide(ops.multiply(x, _relu6(ops, x)), 6.0),
    ),
    "hard swish, product multiplied": (
        [*GATE, "multiply"],
        lambda ops, x: ops.multiply(ops.multiply(_relu6(ops, x), x), 1 / 6),
    ),
    "hard swish, x divided": (
        [*GATE, "multiply"],
        lambda ops, x: ops.multiply(ops.divide(x, 6.0), _relu6(ops, x)),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str) -> None:
    after, write = FORMS[name]
    check_rewrite(form(write, (2, 31)), RULE, after, TOLERANCE)


def test_hard_swish_from_onnx() -> None:
    mod = imported([helper.make_node("HardSwish", ["x"], ["y"])], (2, 31), 14)
    check_rewrite(mod, RULE, [*GATE, "multiply"], TOLERANCE)


def test_a_gate_for_a_larger_value() -> None:
    mod = form(lambda ops, x, y: ops.divide(ops.multiply(y, _relu6(ops, x)), 6.0), (1, 8, 1, 1), (1, 8, 7, 9))
    check_rewrite(mod, RULE, [*GATE, "multiply"], TOLERANCE)


NEAR_MISSES: dict[str, Write] = {
    "bounds are not those of hard sigmoid (expected (0.0, 6.0), found (0.0, 5.0))": lambda ops, x: ops.divide(
        _relu6(ops, x, high=5.0), 6.0
    ),
    "shift is not that of hard sigmoid (expected 3.0, found 2.0)": lambda ops, x: ops.divide(
        _relu6(ops, x, shift=2.0), 6.0
    ),
    "divisor is not that of hard sigmoid (expected 6.0, found 5.0)": lambda ops, x: ops.divide(
        _relu6(ops, x), 5.0
    ),
    "factor is not that of hard sigmoid (expected 0.16666666666666666, found 6.0)": lambda ops, x: (
        ops.multiply(_relu6(ops, x), 6.0)
    ),
    "divisor is a tensor (expected 1 element, found (31,))": lambda ops, x: ops.divide(
        _relu6(ops, x), np.full(31, 6.0)
    ),
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (2, 31)), RULE) == reason
