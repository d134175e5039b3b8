# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from tvm.ir import Expr

from relay_passes.rules.recognize_leaky_relu import RULE
from tests.relay_passes.forms import Ops, check_rewrite, form, refusal

CHANNELS = np.linspace(0.1, 0.9, 8).reshape(8, 1, 1)
Write = Callable[[Ops, Expr], Expr]


def _leaky(ops: Ops, x: Expr, slope: float | np.ndarray) -> Expr:
    return ops.maximum(x, ops.multiply(x, slope))


FORMS: dict[str, tuple[str, Write]] = {
    "maximum": ("leakyrelu", lambda ops, x: _leaky(ops, x, 0.1)),
    "maximum, x last": ("leakyrelu", lambda ops, x: ops.maximum(ops.multiply(0.1, x), x)),
    "maximum a channel": ("prelu", lambda ops, x: _leaky(ops, x, CHANNELS)),
    "maximum a channel, all axes": ("prelu", lambda ops, x: _leaky(ops, x, CHANNELS[None])),
    "maximum a column": ("prelu", lambda ops, x: _leaky(ops, x, np.linspace(0.1, 0.9, 7))),
    "where positive": (
        "leakyrelu",
        lambda ops, x: ops.where(ops.greater(x, 0.0), x, ops.multiply(x, -0.5)),
    ),
    "where not negative": (
        "prelu",
        lambda ops, x: ops.where(ops.greater_equal(x, 0.0), x, ops.multiply(x, 3 * CHANNELS)),
    ),
    "where negative": (
        "leakyrelu",
        lambda ops, x: ops.where(ops.less(x, 0.0), ops.multiply(2.0, x), x),
    ),
    "where not positive": (
        "leakyrelu",
        lambda ops, x: ops.where(ops.less_equal(x, 0.0), ops.multiply(x, 0.25), x),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str) -> None:
    after, write = FORMS[name]
    check_rewrite(form(write, (1, 8, 9, 7)), RULE, [f"nn.{after}"], tolerance=0)


NEAR_MISSES: dict[str, Write] = {
    "slope of a maximum is not in [0, 1] (expected [0.0, 1.0], found [2.0, 2.0])": lambda ops, x: _leaky(
        ops, x, 2.0
    ),
    "slope of a maximum is not in [0, 1] (expected [0.0, 1.0], found [-0.5, -0.5])": lambda ops, x: _leaky(
        ops, x, -0.5
    ),
    "x is not compared with 0 (expected 0.0, found 1.0)": lambda ops, x: ops.where(
        ops.greater(x, 1.0), x, ops.multiply(x, 0.5)
    ),
    "slope is not along one axis (expected 1 axis, found [9, 7])": lambda ops, x: _leaky(
        ops, x, np.linspace(0, 1, 63).reshape(9, 7)
    ),
    "a constant enlarges the tensor (expected (1, 8, 9, 7), found (2, 8, 9, 7))": lambda ops, x: _leaky(
        ops, x, np.array([0.5, 0.25]).reshape(2, 1, 1, 1)
    ),
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (1, 8, 9, 7)), RULE) == reason
