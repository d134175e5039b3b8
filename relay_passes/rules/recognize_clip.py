# SPDX-License-Identifier: Apache-2.0
"""A maximum or minimum with a constant number becomes a clip; `merge_clips` combines a maximum and a minimum.

    maximum(x, c)    →    clip(x, c, ∞)
    minimum(x, c)    →    clip(x, -∞, c)

Operands in either order; c has equal elements, and any shape that does not enlarge x. Exact, also for NaN: both forms
return NaN, as numpy does.

Quantised: applies to float values between `dequantize` and `quantize`; integer tensors are not changed, because
integers have no infinite bound.
"""

import math

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter.patterns import either_order
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.scalars import enlarged, uniform_value
from schedules.diagnostic import Diagnostic

_x, _bound = wildcard(), is_const()
_lower = either_order(is_op("relax.maximum"), _x, _bound)
_upper = either_order(is_op("relax.minimum"), _x, _bound)
_root = _lower | _upper


def check(match: Match) -> Match | Diagnostic:
    """Check that the elements of the bound are equal, and that the result is a float tensor of x's shape."""
    x, bound = match.operands["x"], uniform_value(match.operands["bound"])
    if not str(x.ty.dtype).startswith("float"):
        return match.reject("dtype is not a float", limit="float16, float32 or float64", actual=x.ty.dtype)
    if bound is None:
        return match.reject("bound is not one number")
    return enlarged(match) or match


def rewrite(match: Match) -> Expr:
    """Return relax.clip of the operand."""
    bound = uniform_value(match.operands["bound"])
    low, high = (bound, math.inf) if "lower" in match.values else (-math.inf, bound)
    return relax.op.clip(match.operands["x"], low, high)


RULE = Rule(
    name="recognize_clip",
    pattern=_root,
    parts={"x": _x, "bound": _bound, "lower": _lower, "root": _root},
    check=check,
    rewrite=rewrite,
)
