# SPDX-License-Identifier: Apache-2.0
"""Two negations cancel.

    -(-x)    →    x        also for logical_not and bitwise_not

The inner negation may have other users. Exact. Quantised: applies to float values between `dequantize` and `quantize`.
"""

from functools import reduce
from operator import or_

from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.patterns import non_consuming
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_NEGATIONS = ("relax.negative", "relax.logical_not", "relax.bitwise_not")
_inner = non_consuming(reduce(or_, (is_op(name)(wildcard()) for name in _NEGATIONS)))
_outer = reduce(or_, (is_op(name)(_inner) for name in _NEGATIONS))


def check(match: Match) -> Match | Diagnostic:
    """Check that both calls are the same kind of negation."""
    inner, outer = (str(match.values[part].op.name) for part in ("inner", "outer"))
    return (
        match
        if inner == outer
        else match.reject("the two negations are different operators", limit=outer, actual=inner)
    )


def rewrite(match: Match) -> Expr:
    """Return the operand of the inner negation."""
    return match.values["inner"].args[0]


RULE = Rule(
    name="cancel_negations",
    pattern=_outer,
    parts={"inner": _inner, "outer": _outer},
    check=check,
    rewrite=rewrite,
)
