# SPDX-License-Identifier: Apache-2.0
"""A concatenation of all parts of a split, in order, becomes the tensor that was split.

    s = split(x, axis=a); concat(s[0], s[1], …, axis=a)    →    x

Up to eight parts. Exact. Quantised: moves nothing across `quantize` or `dequantize`.
"""

from functools import reduce
from operator import or_

from tvm.ir import Expr
from tvm.relax.dpl import is_op, is_tuple, is_tuple_get_item, wildcard

from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_MOST = 8
_x = wildcard()
_split = is_op("relax.split")(_x)
_items = [is_tuple_get_item(_split, index) for index in range(_MOST)]
_concat = reduce(or_, (is_op("relax.concat")(is_tuple(_items[:count])) for count in range(1, _MOST + 1)))


def check(match: Match) -> Match | Diagnostic:
    """Check that split and concatenation are along the same axis, and that no part is missing."""
    x, concat = match.operands["x"], match.values["concat"]
    axes = [int(match.values[part].attrs.axis) % x.ty.ndim for part in ("split", "concat")]
    if axes[0] != axes[1]:
        return match.reject("split and concatenation are along different axes", limit=axes[0], actual=axes[1])
    if x.ty != concat.ty:
        return match.reject("parts are missing", limit=x.ty, actual=concat.ty)
    return match


def rewrite(match: Match) -> Expr:
    """Return the operand of the split."""
    return match.operands["x"]


RULE = Rule(
    name="join_split",
    pattern=_concat,
    parts={"x": _x, "split": _split, "concat": _concat},
    check=check,
    rewrite=rewrite,
)
