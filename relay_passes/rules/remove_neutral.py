# SPDX-License-Identifier: Apache-2.0
"""Arithmetic with a neutral constant is removed, and also a `where` with a constant true condition.

    x·1, x / 1, x + 0, x - 0, x^1, where(true, x, y)    →    x

Exact except for the sign of a zero: -0 + 0 is +0. The constant may have any shape that does not enlarge x.

Quantised: applies to integers, and to float values between `dequantize` and `quantize`.
"""

from functools import reduce
from operator import or_

from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_x, _constant = wildcard(), is_const()
# The neutral constant of each operator: the first operand of where, the second operand of others.
_NEUTRAL = {
    "relax.multiply": 1,
    "relax.divide": 1,
    "relax.power": 1,
    "relax.add": 0,
    "relax.subtract": 0,
    "relax.where": True,
}
_arithmetic = (is_op(name)(_x, _constant) for name in _NEUTRAL if name != "relax.where")
_call = reduce(or_, _arithmetic) | is_op("relax.where")(_constant, _x, wildcard())


def check(match: Match) -> Match | Diagnostic:
    """Check that the constant is neutral, and that broadcasting it does not enlarge x."""
    neutral, value = _NEUTRAL[str(match.values["call"].op.name)], match.constant("constant")
    other = value[value != neutral]
    if other.size:
        return match.reject("constant is not neutral", limit=neutral, actual=other.flat[0])
    if match.operands["x"].ty != match.values["call"].ty:
        return match.reject(
            "constant enlarges the tensor", limit=match.operands["x"].ty, actual=match.values["call"].ty
        )
    return match


def rewrite(match: Match) -> Expr:
    """Return the other operand."""
    return match.operands["x"]


RULE = Rule(
    name="remove_neutral",
    pattern=_call,
    parts={"x": _x, "constant": _constant, "call": _call},
    check=check,
    rewrite=rewrite,
)
