# SPDX-License-Identifier: Apache-2.0
"""A cast to a smaller dtype after a data movement is moved before it, where the producer's kernel can fuse the cast.

    float16(permute_dims(x))    →    permute_dims(float16(x))      likewise reshape, expand_dims, squeeze, flatten

Exact; half as many bytes are moved. Applies only to casts to a dtype of fewer bytes.

Quantised: moves nothing across `quantize` or `dequantize`.
"""

from functools import reduce
from operator import or_

from tvm import DataType, relax
from tvm.ir import Call, Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_x = wildcard()
_MOVES = ("permute_dims", "reshape", "expand_dims", "squeeze", "flatten")
_moved = reduce(or_, (is_op(f"relax.{op}")(_x, varg_default_wildcard=True) for op in _MOVES))
_rounded = is_op("relax.astype")(_moved)


def check(match: Match) -> Match | Diagnostic:
    """Check that the cast is to a dtype of fewer bytes."""
    before, after = (_bits(match.values[part]) for part in ("moved", "rounded"))
    if after >= before:
        return match.reject("the cast makes elements no smaller", limit=f"below {before}", actual=after)
    return match


def rewrite(match: Match) -> Expr:
    """Return the data movement of the cast value."""
    call, dtype = match.values["moved"], str(match.values["rounded"].ty.dtype)
    cast = relax.op.astype(match.operands["x"], dtype)
    return Call(call.op, [cast, *call.args[1:]], call.attrs, call.ty_args)


def _bits(value: Expr) -> int:
    return int(DataType(str(value.ty.dtype)).bits)


RULE = Rule(
    name="round_before_move",
    pattern=_rounded,
    parts={"x": _x, "moved": _moved, "rounded": _rounded},
    check=check,
    rewrite=rewrite,
)
