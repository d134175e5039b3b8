# SPDX-License-Identifier: Apache-2.0
"""Two consecutive scales become one scale.

    (x·a)·b    →    x·(a·b)        a and b constants; x / d counts as x·(1/d)

Not exact: the product of the constants is computed in float64 and rounded once, so that an element differs by at most
4·u·|x·a·b|, u the unit roundoff, if nothing overflows or underflows.
Quantised: that could move an integer by one step, so functions that quantise keep both.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import factors, is_float
from relay_passes.rules.common.scalars import all_normal
from schedules.diagnostic import Diagnostic

_x, _a, _b = wildcard(), is_const(), is_const()
_multiply, _divide = is_op("relax.multiply"), is_op("relax.divide")
_inner = _multiply(_x, _a) | _divide(_x, _a)
_outer = _multiply(_inner, _b) | _divide(_inner, _b)


def check(match: Match) -> Match | Diagnostic:
    """Check that the scales are floats, whose product is normal and has not more elements than the larger of them."""
    a, b = match.constant("a"), match.constant("b")
    if not is_float(a.dtype):
        return match.reject("scales are no floating-point tensors", limit="float", actual=str(a.dtype))
    size = np.broadcast(a, b).size
    if size > max(a.size, b.size):
        return match.reject(
            "the product would be larger than both", limit=f"at most {max(a.size, b.size)}", actual=size
        )
    if not all_normal(_product(match)):
        return match.reject("the product is not a normal number")
    return match


def rewrite(match: Match) -> Expr:
    """Return one multiplication by the product of both constants."""
    return relax.op.multiply(match.operands["x"], tensor_const(_product(match)))


def _product(match: Match) -> npt.NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        product = factors(match, "inner", "a") * factors(match, "outer", "b")
        return np.asarray(product).astype(match.constant("a").dtype)


RULE = Rule(
    name="merge_scales",
    pattern=_outer,
    parts={"x": _x, "a": _a, "b": _b, "inner": _inner, "outer": _outer},
    check=check,
    rewrite=rewrite,
)
