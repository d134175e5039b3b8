# SPDX-License-Identifier: Apache-2.0
"""Recognition of GELU by the error function.

    0.5 · x · (1 + erf(x / √2))    →    gelu(x)
    in all orders of `gated_half`; x / √2 also as x · √½

The order of roundings changes, and the constant's last bits: |error| ≤ 4 eps · |x|, eps = 2^-23 in float32. (erf
changes by less than its argument's eps times 0.5, the maximum of z · erf'(z) / 2; each of the three steps rounds once.)

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

_x, _scale = wildcard(), is_const()
_divided, _multiplied = is_op("relax.divide")(_x, _scale), is_op("relax.multiply")(_x, _scale)
_root, _parts = gated_half(_x, is_op("relax.erf")(_divided | _multiplied))


def check(match: Match) -> Match | Diagnostic:
    """Check that the constants are those of the formula."""
    expected = math.sqrt(2) if "divided" in match.values else math.sqrt(0.5)
    if not is_number(match.operands["scale"], expected):
        actual = uniform_value(match.operands["scale"])
        return match.reject("scale of erf's argument is not that of GELU", limit=expected, actual=actual)
    return check_gated_half(match) or match


def rewrite(match: Match) -> Expr:
    """Return relax.nn.gelu of the operand."""
    return relax.op.nn.gelu(match.operands["x"])


RULE = Rule(
    name="recognize_gelu",
    pattern=_root,
    parts={**_parts, "scale": _scale, "divided": _divided},
    check=check,
    rewrite=rewrite,
)
