# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest
from tvm.ir import Expr

from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.rules.recognize_sigmoid import RULE
from tests.relay_passes.forms import EPS, Ops, check_rewrite, form, refusal
from tests.relay_passes.graphs import operators

Write = Callable[[Ops, Expr], Expr]


def _sigmoid(one: float = 1.0, unit: float = 1.0) -> Write:
    return lambda ops, x: ops.divide(one, ops.add(unit, ops.exp(ops.negative(x))))


FORMS: dict[str, Write] = {
    "as JAX writes it": _sigmoid(),
    "the exponential first": lambda ops, x: ops.divide(1.0, ops.add(ops.exp(ops.negative(x)), 1.0)),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str) -> None:
    check_rewrite(form(FORMS[name], (3, 31)), RULE, ["sigmoid"], tolerance=3 * EPS)


def test_a_gate_of_the_same_value_is_silu() -> None:
    mod = form(lambda ops, x: ops.multiply(x, _sigmoid()(ops, x)), (7,))
    assert operators(canonicalize(mod)["main"]) == ["nn.silu"]


def _shared(ops: Ops, x: Expr) -> Expr:
    growth = ops.exp(ops.negative(x))
    return ops.multiply(ops.divide(1.0, ops.add(1.0, growth)), growth)


NEAR_MISSES: dict[str, Write] = {
    "one is not 1 (expected 1.0, found 2.0)": _sigmoid(one=2.0),
    "unit is not 1 (expected 1.0, found 0.5)": _sigmoid(unit=0.5),
    "exp is also needed by multiply": _shared,
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (7,)), RULE) == reason
