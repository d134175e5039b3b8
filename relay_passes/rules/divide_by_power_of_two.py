# SPDX-License-Identifier: Apache-2.0
"""Division by powers of two becomes a multiplication.

    x / c    →    x·(1/c)        if every element of c is a power of two with a normal reciprocal

Exact: both are the same number, rounded once. Quantised: applies to float values between `dequantize` and `quantize`;
integer divisions are not changed.
"""

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import is_float
from relay_passes.rules.common.scalars import all_normal
from schedules.diagnostic import Diagnostic

_x, _divisor = wildcard(), wildcard()
_quotient = is_op("relax.divide")(_x, _divisor)
# Mantissa of a power of two, as np.frexp splits it.
_MANTISSA = 0.5


def check(match: Match) -> Match | Diagnostic:
    """Check that the divisor is a constant of powers of two."""
    if not match.is_constant("divisor"):
        return match.reject("divisor is not a constant")
    value = match.constant("divisor")
    if not is_float(value.dtype):
        return match.reject("divisor is no floating-point tensor", limit="float", actual=str(value.dtype))
    other = value[np.abs(np.frexp(value)[0]) != _MANTISSA]
    if other.size:
        return match.reject("divisor is no power of two", actual=other.flat[0])
    with np.errstate(over="ignore"):
        inverse = 1 / value
    if not all_normal(inverse):
        return match.reject("the reciprocal is not a normal number")
    return match


def rewrite(match: Match) -> Expr:
    """Return the multiplication by the reciprocal."""
    value = match.constant("divisor")
    return relax.op.multiply(match.operands["x"], tensor_const(np.asarray(1 / value, value.dtype)))


RULE = Rule(
    name="divide_by_power_of_two",
    pattern=_quotient,
    parts={"x": _x, "divisor": _divisor},
    check=check,
    rewrite=rewrite,
)
