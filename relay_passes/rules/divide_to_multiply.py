# SPDX-License-Identifier: Apache-2.0
"""Division by a constant becomes a multiplication.

    x / c    →    x·r        where r = 1/c, rounded once

Not exact: an element differs from the quotient by at most 3·u·|x/c|, u the unit roundoff, if nothing underflows.
Quantised: that could move an integer by one step, so functions that quantise keep their divisions.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import is_float
from relay_passes.rules.common.scalars import all_normal
from schedules.diagnostic import Diagnostic

_x, _divisor = wildcard(), wildcard()
_quotient = is_op("relax.divide")(_x, _divisor)


def check(match: Match) -> Match | Diagnostic:
    """Check that the divisor is a float constant with normal reciprocals."""
    if not match.is_constant("divisor"):
        return match.reject("divisor is not a constant")
    value = match.constant("divisor")
    if not is_float(value.dtype):
        return match.reject("divisor is no floating-point tensor", limit="float", actual=str(value.dtype))
    if not all_normal(_inverse(value)):
        return match.reject("the reciprocal is not a normal number")
    return match


def rewrite(match: Match) -> Expr:
    """Return the multiplication by the reciprocal."""
    divisor = match.constant("divisor")
    return relax.op.multiply(match.operands["x"], relax.const(_inverse(divisor), str(divisor.dtype)))


def _inverse(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(1 / value.astype(np.float64)).astype(value.dtype)


RULE = Rule(
    name="divide_to_multiply",
    pattern=_quotient,
    parts={"x": _x, "divisor": _divisor},
    check=check,
    rewrite=rewrite,
)
