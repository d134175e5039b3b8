# SPDX-License-Identifier: Apache-2.0
"""Calls that change a shape without moving elements become reshapes.

    squeeze(x), expand_dims(x), flatten(x), batch_flatten(x)         →    reshape(x, shape)
    permute_dims(x) that keeps the order of the axes longer than 1   →    reshape(x, shape)

`merge_reshapes` can then merge them, and a reshape needs no copy. Exact. Quantised: moves nothing across `quantize` or
`dequantize`.
"""

from functools import reduce
from operator import or_

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.ir.shapes import axes_of, static_shape
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_x = wildcard()
_RESHAPES = ("relax.squeeze", "relax.expand_dims", "relax.flatten", "relax.nn.batch_flatten")
_permuted = is_op("relax.permute_dims")(_x)
_call = reduce(or_, (is_op(name)(_x) for name in _RESHAPES)) | _permuted


def check(match: Match) -> Match | Diagnostic:
    """Check that the shape is static, and that a transpose moves axes of size 1 only."""
    shape = static_shape(match.operands["x"])
    if shape is None or static_shape(match.values["call"]) is None:
        return match.reject("shape is not static")
    if "permuted" in match.values:
        long = [axis for axis in axes_of(match.values["permuted"]) if shape[axis] > 1]
        if long != sorted(long):
            return match.reject("axes longer than 1 change places", actual=long)
    return match


def rewrite(match: Match) -> Expr:
    """Return a reshape to the result's shape."""
    return relax.op.reshape(match.operands["x"], static_shape(match.values["call"]))


RULE = Rule(
    name="reshape_form",
    pattern=_call,
    parts={"x": _x, "call": _call, "permuted": _permuted},
    check=check,
    rewrite=rewrite,
)
