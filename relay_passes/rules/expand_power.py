# SPDX-License-Identifier: Apache-2.0
"""Powers with small constant exponents are computed without pow.

    x^2 → x·x        x^3 → x·x·x        x^0.5 → sqrt(x)        x^-0.5 → rsqrt(x)        x^-1 → 1/x

Not exact: pow is within one unit in the last place in common libraries, and these products and roots within 3
roundings, so that an element differs by at most 5·u·|x^n|, u the unit roundoff. For -∞, the root is NaN, while pow
returns ∞.
Quantised: that could move an integer by one step, so functions that quantise keep their powers.
"""

from collections.abc import Callable

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import is_float
from schedules.diagnostic import Diagnostic

_x, _exponent = wildcard(), wildcard()
_power = is_op("relax.power")(_x, _exponent)


def _reciprocal(x: Expr) -> Expr:
    return relax.op.divide(relax.const(1.0, str(x.ty.dtype)), x)


_FORMS: dict[float, Callable[[Expr], Expr]] = {
    2.0: lambda x: relax.op.multiply(x, x),
    3.0: lambda x: relax.op.multiply(relax.op.multiply(x, x), x),
    0.5: relax.op.sqrt,
    -0.5: relax.op.rsqrt,
    -1.0: _reciprocal,
}


def check(match: Match) -> Match | Diagnostic:
    """Check that the exponent is one of the constants that the module lists."""
    if not match.is_constant("exponent"):
        return match.reject("exponent is not a constant")
    dtype = match.operands["x"].ty.dtype
    if not is_float(dtype):
        return match.reject("x is no floating-point tensor", limit="float", actual=str(dtype))
    exponents = np.unique(match.constant("exponent"))
    if len(exponents) != 1 or float(exponents[0]) not in _FORMS:
        return match.reject("exponent has no shorter form", limit=sorted(_FORMS), actual=exponents.tolist())
    if match.operands["x"].ty != match.values["power"].ty:
        return match.reject("exponent enlarges the tensor")
    return match


def rewrite(match: Match) -> Expr:
    """Return the products or roots that replace the power."""
    return _FORMS[float(match.constant("exponent").flat[0])](match.operands["x"])


RULE = Rule(
    name="expand_power",
    pattern=_power,
    parts={"x": _x, "exponent": _exponent, "power": _power},
    check=check,
    rewrite=rewrite,
)
