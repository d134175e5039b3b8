# SPDX-License-Identifier: Apache-2.0
import math
from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper
from tvm.ir import Expr

from relay_passes.rules.recognize_gelu import RULE
from tests.relay_passes.forms import EPS, Ops, check_rewrite, form, imported, refusal

ROOT = math.sqrt(2)
# The rule's bound: 4 eps · |x|, and |x| is at most 8.
TOLERANCE = 4 * EPS * 8
Write = Callable[[Ops, Expr], Expr]


def _gate(ops: Ops, x: Expr) -> Expr:
    return ops.add(ops.erf(ops.divide(x, ROOT)), 1.0)


FORMS: dict[str, Write] = {
    "half last, as torch exports it": lambda ops, x: ops.multiply(ops.multiply(x, _gate(ops, x)), 0.5),
    "half first": lambda ops, x: ops.multiply(ops.multiply(0.5, x), _gate(ops, x)),
    "half on the gate": lambda ops, x: ops.multiply(ops.multiply(0.5, _gate(ops, x)), x),
    "halved by a division": lambda ops, x: ops.divide(ops.multiply(_gate(ops, x), x), 2.0),
    "x halved by a division": lambda ops, x: ops.multiply(ops.divide(x, 2.0), _gate(ops, x)),
    "multiplied by the inverse root": lambda ops, x: ops.multiply(
        ops.multiply(x, 0.5), ops.add(1.0, ops.erf(ops.multiply(math.sqrt(0.5), x)))
    ),
    "root rounded by hand": lambda ops, x: ops.multiply(
        ops.multiply(x, ops.add(ops.erf(ops.divide(x, 1.4142135)), 1.0)), 0.5
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str) -> None:
    check_rewrite(form(FORMS[name], (2, 31)), RULE, ["nn.gelu"], TOLERANCE)


def test_from_onnx() -> None:
    nodes = [
        helper.make_node("Div", ["x", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["a"]),
        helper.make_node("Mul", ["x", "a"], ["m"]),
        helper.make_node("Mul", ["m", "half"], ["y"]),
    ]
    weights = {"root": np.float32(ROOT), "one": np.float32(1), "half": np.float32(0.5)}
    check_rewrite(imported(nodes, (2, 31), 13, weights), RULE, ["nn.gelu"], TOLERANCE)


def _written(root: float = ROOT, one: float = 1.0, half: float = 0.5) -> Write:
    return lambda ops, x: ops.multiply(ops.multiply(x, ops.add(ops.erf(ops.divide(x, root)), one)), half)


def _shared(ops: Ops, x: Expr) -> Expr:
    gate = ops.erf(ops.divide(x, ROOT))
    return ops.subtract(ops.multiply(ops.multiply(x, ops.add(gate, 1.0)), 0.5), gate)


NEAR_MISSES: dict[str, Write] = {
    "scale of erf's argument is not that of GELU (expected 1.4142135623730951, found 1.5)": _written(
        root=1.5
    ),
    "one is not 1.0 (expected 1.0, found 2.0)": _written(one=2.0),
    "half is not 0.5 (expected 0.5, found 0.25)": _written(half=0.25),
    "half is not 0.5 (expected 0.5, found None)": _written(half=np.arange(31.0)),
    "two is not 2.0 (expected 2.0, found 3.0)": lambda ops, x: ops.divide(
        ops.multiply(x, _gate(ops, x)), 3.0
    ),
    "a constant enlarges the tensor (expected (2, 31), found (3, 2, 31))": _written(
        half=np.full((3, 1, 1), 0.5)
    ),
    "erf is also needed by subtract": _shared,
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (2, 31)), RULE) == reason
