# SPDX-License-Identifier: Apache-2.0
"""Recognition of SiLU (swish).

    x · sigmoid(x)    →    silu(x)

Exact: silu is lowered to the same two operations.

Quantised: if the sigmoid's result is quantised, the rule does not match, because that rounding is part of the model.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_x = wildcard()
_product = is_op("relax.multiply")(
    _x, is_op("relax.sigmoid")(_x)
)  # multiply matches its operands in either order


def check(match: Match) -> Match | Diagnostic:
    """Accept every match of the pattern."""
    return match


def rewrite(match: Match) -> Expr:
    """Return relax.nn.silu of the operand."""
    return relax.op.nn.silu(match.operands["x"])


RULE = Rule(
    name="recognize_silu",
    pattern=_product,
    parts={"x": _x},
    check=check,
    rewrite=rewrite,
)
