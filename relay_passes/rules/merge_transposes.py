# SPDX-License-Identifier: Apache-2.0
"""A transpose of a transpose becomes one transpose.

    permute_dims(permute_dims(x, p), q)    →    permute_dims(x, p∘q)        where (p∘q)[i] = p[q[i]]

A transpose without effect is then removed by `remove_noop`. The inner transpose may have other users, as the result
reads its operand. Exact. Quantised: moves nothing across `quantize` or `dequantize`.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.ir.shapes import axes_of
from relay_passes.rewriter.patterns import including, non_consuming
from relay_passes.rewriter.rule import Match, Rule

_inner = non_consuming(is_op("relax.permute_dims")(wildcard()))
_outer = is_op("relax.permute_dims")(_inner)


def check(match: Match) -> Match:
    """Accept every match; the result has the source nodes of both transposes."""
    return including(match, "inner")


def rewrite(match: Match) -> Expr:
    """Return one transpose with the composed permutation."""
    inner, outer = match.values["inner"], match.values["outer"]
    order = axes_of(inner)
    return relax.op.permute_dims(inner.args[0], [order[axis] for axis in axes_of(outer)])


RULE = Rule(
    name="merge_transposes",
    pattern=_outer,
    parts={"inner": _inner, "outer": _outer},
    check=check,
    rewrite=rewrite,
)
