# SPDX-License-Identifier: Apache-2.0
"""Subtraction of a constant becomes an addition.

    x - c    →    x + (-c)

So rules that move shifts need to match additions only. Exact by the definition of subtraction in IEEE 754. Quantised:
applies to float values between `dequantize` and `quantize`; integer subtractions are not changed, because -c may
overflow.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import is_float
from schedules.diagnostic import Diagnostic

_x, _constant = wildcard(), wildcard()
_difference = is_op("relax.subtract")(_x, _constant)


def check(match: Match) -> Match | Diagnostic:
    """Check that the subtrahend is a float constant."""
    if not match.is_constant("constant"):
        return match.reject("the second operand is not a constant")
    dtype = match.operands["constant"].ty.dtype
    if not is_float(dtype):
        return match.reject("the constant is no floating-point tensor", limit="float", actual=str(dtype))
    return match


def rewrite(match: Match) -> Expr:
    """Return the addition of the negated constant."""
    return relax.op.add(match.operands["x"], tensor_const(-match.constant("constant")))


RULE = Rule(
    name="subtract_to_add",
    pattern=_difference,
    parts={"x": _x, "constant": _constant},
    check=check,
    rewrite=rewrite,
)
