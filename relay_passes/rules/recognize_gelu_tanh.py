# SPDX-License-Identifier: Apache-2.0
"""Recognition of GELU by the hyperbolic tangent.

    0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))     →    gelu_tanh(x)
    0.5 · x · (1 + tanh(√(2/π) · x · (1 + 0.044715 · x²))) →    gelu_tanh(x)
    in all orders of `gated_half`; x³ and x² as powers or as products, such as x · (x · (0.044715 · x))

This is not GELU by the error function, from which it differs by up to 5e-4.

The order of roundings changes: |error| ≤ 4 eps · |x|, eps = 2^-23 in float32, as for `recognize_gelu`.

Quantised: if an intermediate result is quantised, the rule does not match, because that rounding is part of the model.
"""

import math

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.gated_half import check_gated_half, gated_half
from relay_passes.rules.common.scalars import is_number, uniform_value
from schedules.diagnostic import Diagnostic

_CUBIC = 0.044715  # Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016
_SCALE = math.sqrt(2 / math.pi)

_add, _multiply, _power = is_op("relax.add"), is_op("relax.multiply"), is_op("relax.power")
_x = wildcard()
_scale, _cubic, _unit, _two, _three = (is_const() for _ in range(5))
_square = _multiply(_x, _x) | is_op("relax.square")(_x) | _power(_x, _two)
_cube = _multiply(_x, _square) | _power(_x, _three)
_cubed = _multiply(_cube, _cubic) | _multiply(_x, _multiply(_x, _multiply(_x, _cubic)))
_sum = _add(_x, _cubed)
_gain = _add(_multiply(_square, _cubic) | _multiply(_multiply(_x, _cubic), _x), _unit)
_argument = (
    _multiply(_sum, _scale)
    | _multiply(_multiply(_x, _scale), _gain)
    | _multiply(_x, _multiply(_gain, _scale))
    | _multiply(_multiply(_x, _gain), _scale)
)
_root, _parts = gated_half(_x, is_op("relax.tanh")(_argument))
_numbers = {"scale": _SCALE, "cubic": _CUBIC, "unit": 1.0, "two": 2.0, "three": 3.0}


def check(match: Match) -> Match | Diagnostic:
    """Check that the constants are those of the formula."""
    for part, number in _numbers.items():
        if part in match.operands and not is_number(match.operands[part], number):
            actual = uniform_value(match.operands[part])
            return match.reject(f"{part} is not that of GELU's tanh form", limit=number, actual=actual)
    return check_gated_half(match) or match


def rewrite(match: Match) -> Expr:
    """Return relax.nn.gelu_tanh of the operand."""
    return relax.op.nn.gelu_tanh(match.operands["x"])


RULE = Rule(
    name="recognize_gelu_tanh",
    pattern=_root,
    parts={**_parts, "scale": _scale, "cubic": _cubic, "unit": _unit, "two": _two, "three": _three},
    check=check,
    rewrite=rewrite,
)
