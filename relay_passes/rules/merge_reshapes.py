# SPDX-License-Identifier: Apache-2.0
"""A reshape of a reshape becomes one reshape.

    reshape(reshape(x, s), t)    →    reshape(x, t)

A reshape to the shape of x is then removed by `remove_noop`. The inner reshape may have other users, as the result
reads its operand. Exact. Quantised: moves nothing across `quantize` or `dequantize`.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.ir.shapes import static_shape
from relay_passes.rewriter.patterns import including, non_consuming
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_inner = non_consuming(is_op("relax.reshape")(wildcard(), wildcard()))
_outer = is_op("relax.reshape")(_inner, wildcard())


def check(match: Match) -> Match | Diagnostic:
    """Check that the final shape is static; the result has the source nodes of both reshapes."""
    if static_shape(match.values["outer"]) is None:
        return match.reject("shape is not static")
    return including(match, "inner")


def rewrite(match: Match) -> Expr:
    """Return one reshape to the final shape."""
    return relax.op.reshape(match.values["inner"].args[0], static_shape(match.values["outer"]))


RULE = Rule(
    name="merge_reshapes",
    pattern=_outer,
    parts={"inner": _inner, "outer": _outer},
    check=check,
    rewrite=rewrite,
)
