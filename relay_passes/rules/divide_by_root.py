# SPDX-License-Identifier: Apache-2.0
"""Division by square roots becomes multiplication by rsqrt, if that saves divisions.

    x / sqrt(y)    →    x·rsqrt(y)        if y has fewer elements than x: one division per row
    1 / sqrt(y)    →    rsqrt(y)

Not exact: rsqrt(y) is 1/sqrt(y), so an element differs from the quotient by at most 3·u·|x/sqrt(y)|, u the unit
roundoff, if nothing underflows.
Quantised: that could move an integer by one step, so functions that quantise keep their divisions.
"""

import math

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.ir.shapes import static_shape
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.scalars import uniform_value
from schedules.diagnostic import Diagnostic

_x, _y = wildcard(), wildcard()
_root = is_op("relax.sqrt")(_y)
_quotient = is_op("relax.divide")(_x, _root)


def check(match: Match) -> Match | Diagnostic:
    """Check that there are fewer roots than quotients, or that the dividend is 1."""
    roots, quotients = static_shape(match.values["root"]), static_shape(match.values["quotient"])
    if roots is None or quotients is None:
        return match.reject("shape is not static")
    if not _is_reciprocal(match) and math.prod(roots) >= math.prod(quotients):
        return match.reject(
            "there are as many roots as quotients",
            limit=f"below {math.prod(quotients)}",
            actual=math.prod(roots),
        )
    return match


def rewrite(match: Match) -> Expr:
    """Return the multiplication by the reciprocal root, or the reciprocal root alone if the dividend is 1."""
    inverse = relax.op.rsqrt(match.operands["y"])
    return inverse if _is_reciprocal(match) else relax.op.multiply(match.operands["x"], inverse)


def _is_reciprocal(match: Match) -> bool:
    return uniform_value(match.operands["x"]) == 1 and match.values["root"].ty == match.values["quotient"].ty


RULE = Rule(
    name="divide_by_root",
    pattern=_quotient,
    parts={"x": _x, "y": _y, "root": _root, "quotient": _quotient},
    check=check,
    rewrite=rewrite,
)
