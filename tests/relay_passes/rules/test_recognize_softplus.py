# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm.ir import Expr

from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.rewriter.engine import apply_rule
from relay_passes.rules.recognize_softplus import RULE
from tests.relay_passes.forms import EPS, Ops, check_rewrite, form, imported, refusal
from tests.relay_passes.graphs import operators, run

# The rule's bound: 4 eps · max(1, |result|).
TOLERANCE = 4 * EPS


def _plain(ops: Ops, x: Expr) -> Expr:
    return ops.log(ops.add(ops.exp(x), 1.0))


def _stable(ops: Ops, x: Expr) -> Expr:
    return ops.add(ops("nn.relu", x), _plain(ops, ops.negative(ops.abs(x))))


FORMS: dict[str, Callable[[Ops, Expr], Expr]] = {
    "plain": _plain,
    "stable": _stable,
    "above the threshold": lambda ops, x: _stable(ops, ops.multiply(x, 10.0)),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str) -> None:
    before = ["multiply"] if name == "above the threshold" else []
    check_rewrite(form(FORMS[name], (2, 31)), RULE, [*before, "nn.softplus"], TOLERANCE)


def test_where_exp_overflows() -> None:
    mod, _ = apply_rule(form(_plain, (3,)), RULE)
    x = np.array([-200, 89, 200], "float32")
    assert (run(mod, x) == np.array([0, 89, 200], "float32")).all()


@pytest.mark.parametrize(
    ("node", "after"), [("Softplus", ["nn.softplus"]), ("Mish", ["nn.softplus", "tanh", "multiply"])]
)
def test_from_onnx(node: str, after: list[str]) -> None:
    mod = canonicalize(imported([helper.make_node(node, ["x"], ["y"])], (2, 31), 18))
    assert operators(mod["main"]) == after


def _stable_with(beta: float) -> Callable[[Ops, Expr], Expr]:
    return lambda ops, x: ops.add(ops("nn.relu", x), ops("nn.softplus", ops.negative(ops.abs(x)), beta=beta))


NEAR_MISSES: dict[str, Callable[[Ops, Expr], Expr]] = {
    "the constant that is added is not 1.0 (expected 1.0, found 2.0)": lambda ops, x: ops.log(
        ops.add(ops.exp(x), 2.0)
    ),
    "beta is not 1 (expected 1, found 2.0)": _stable_with(2.0),
    "a constant enlarges the tensor (expected (2, 31), found (3, 2, 31))": lambda ops, x: ops.log(
        ops.add(ops.exp(x), np.ones((3, 1, 1)))
    ),
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (2, 31)), RULE) == reason


def test_the_module_is_well_formed() -> None:
    tvm.relax.analysis.well_formed(apply_rule(form(_stable, (7,)), RULE)[0])
