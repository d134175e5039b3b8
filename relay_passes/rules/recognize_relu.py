# SPDX-License-Identifier: Apache-2.0
"""A clip that only replaces negative values becomes a relu.

    clip(x, 0, ∞)    →    relu(x)

Exact. Quantised: applies to float values between `dequantize` and `quantize`.
"""

import math

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.scalars import bounds, has_bounds
from schedules.diagnostic import Diagnostic

_RELU = (0.0, math.inf)

_x = wildcard()
_clip = is_op("relax.clip")(_x, wildcard(), wildcard())


def check(match: Match) -> Match | Diagnostic:
    """Check that the bounds are 0 and infinity."""
    clip = match.values["clip"]
    if not has_bounds(clip):
        return match.reject("a bound is computed at run time")
    if bounds(clip) != _RELU:
        return match.reject("bounds are not those of relu", limit=_RELU, actual=bounds(clip))
    return match


def rewrite(match: Match) -> Expr:
    """Return relax.nn.relu of the operand."""
    return relax.op.nn.relu(match.operands["x"])


RULE = Rule(
    name="recognize_relu",
    pattern=_clip,
    parts={"x": _x, "clip": _clip},
    check=check,
    rewrite=rewrite,
)
