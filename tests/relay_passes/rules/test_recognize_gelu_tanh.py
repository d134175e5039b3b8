# SPDX-License-Identifier: Apache-2.0
import math
from collections.abc import Callable

import pytest
from tvm.ir import Expr

from relay_passes.rules.recognize_gelu_tanh import RULE
from tests.relay_passes.forms import EPS, Ops, check_rewrite, form, refusal

SCALE, CUBIC = math.sqrt(2 / math.pi), 0.044715
# The rule's bound: 4 eps · |x|, and |x| is at most 8.
TOLERANCE = 4 * EPS * 8
Write = Callable[[Ops, Expr], Expr]
ARGUMENTS: dict[str, Write] = {
    "cube as power": lambda ops, x: ops.multiply(SCALE, ops.add(x, ops.multiply(CUBIC, ops.power(x, 3.0)))),
    "cube as product, as torch exports it": lambda ops, x: ops.multiply(
        ops.add(x, ops.multiply(ops.multiply(x, ops.multiply(x, x)), CUBIC)), SCALE
    ),
    "cube as product from the left": lambda ops, x: ops.multiply(
        SCALE, ops.add(ops.multiply(CUBIC, ops.multiply(ops.multiply(x, x), x)), x)
    ),
    "cube with square": lambda ops, x: ops.multiply(
        ops.add(x, ops.multiply(ops.multiply(ops.square(x), x), CUBIC)), SCALE
    ),
    "cube around its constant, as JAX exports it": lambda ops, x: ops.multiply(
        SCALE, ops.add(x, ops.multiply(x, ops.multiply(x, ops.multiply(CUBIC, x))))
    ),
    "gain, as transformers write their fast GELU": lambda ops, x: ops.multiply(
        ops.multiply(x, SCALE), ops.add(1.0, ops.multiply(ops.multiply(CUBIC, x), x))
    ),
    "gain with square": lambda ops, x: ops.multiply(
        ops.multiply(SCALE, ops.add(ops.multiply(ops.multiply(x, x), CUBIC), 1.0)), x
    ),
    "gain, scale last": lambda ops, x: ops.multiply(
        ops.multiply(x, ops.add(ops.multiply(ops.power(x, 2.0), CUBIC), 1.0)), SCALE
    ),
}


def _gelu(argument: Write, half: float = 0.5) -> Write:
    return lambda ops, x: ops.multiply(ops.multiply(half, x), ops.add(1.0, ops.tanh(argument(ops, x))))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_values_are_kept(name: str) -> None:
    check_rewrite(form(_gelu(ARGUMENTS[name]), (2, 31)), RULE, ["nn.gelu_tanh"], TOLERANCE)


def _cube(scale: float = SCALE, cubic: float = CUBIC, exponent: float = 3.0) -> Write:
    return lambda ops, x: ops.multiply(ops.add(x, ops.multiply(ops.power(x, exponent), cubic)), scale)


NEAR_MISSES: dict[str, Write] = {
    f"scale is not that of GELU's tanh form (expected {SCALE}, found 0.75)": _gelu(_cube(scale=0.75)),
    "cubic is not that of GELU's tanh form (expected 0.044715, found 0.5)": _gelu(_cube(cubic=0.5)),
    "three is not that of GELU's tanh form (expected 3.0, found 5.0)": _gelu(_cube(exponent=5.0)),
    "half is not 0.5 (expected 0.5, found 1.0)": _gelu(_cube(), half=1.0),
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (2, 31)), RULE) == reason
