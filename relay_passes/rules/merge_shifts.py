# SPDX-License-Identifier: Apache-2.0
"""Two consecutive shifts become one shift.

    (x + a) + b    →    x + (a + b)        a and b constants

Not exact: a + b is rounded instead of x + a, so an element y of the result differs by at most
u·(|x + a| + |a + b| + 2·|y|), u the unit roundoff.
Quantised: that could move an integer by one step, so functions that quantise keep both.
"""

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import is_float
from schedules.diagnostic import Diagnostic

_x, _a, _b = wildcard(), is_const(), is_const()
_sum = is_op("relax.add")(is_op("relax.add")(_x, _a), _b)


def check(match: Match) -> Match | Diagnostic:
    """Check that the shifts are floats, whose sum has not more elements than the larger of them."""
    a, b = match.constant("a"), match.constant("b")
    if not is_float(a.dtype):
        return match.reject("shifts are no floating-point tensors", limit="float", actual=str(a.dtype))
    size = np.broadcast(a, b).size
    if size > max(a.size, b.size):
        return match.reject(
            "the sum would be larger than both", limit=f"at most {max(a.size, b.size)}", actual=size
        )
    return match


def rewrite(match: Match) -> Expr:
    """Return one addition of the sum of both constants."""
    a, b = match.constant("a"), match.constant("b")
    return relax.op.add(match.operands["x"], tensor_const(np.asarray(a + b, a.dtype)))


RULE = Rule(
    name="merge_shifts",
    pattern=_sum,
    parts={"x": _x, "a": _a, "b": _b},
    check=check,
    rewrite=rewrite,
)
