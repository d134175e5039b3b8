# SPDX-License-Identifier: Apache-2.0
"""A clip of a clip becomes one clip.

    clip(clip(x, a, b), c, d)    →    clip(x, clip(a, c, d), clip(b, c, d))
    where relu(x) counts as clip(x, 0, ∞)

Relax's clip(x, a, b) is max(min(x, b), a), a monotonic function of x, so that the outer clip can be applied to the
bounds of the inner clip: exact, also for NaN (see `recognize_clip`). If a > b, clip(x, a, b) is a for all x, and the
result is clip(x, a, a), so that its bounds are ordered.

Quantised: applies to float values only; clips with a `quantize` in between are not merged.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.scalars import bounds, has_bounds
from schedules.diagnostic import Diagnostic

_x = wildcard()
_clip, _relu = is_op("relax.clip"), is_op("relax.nn.relu")
_inner = _clip(_x, wildcard(), wildcard()) | _relu(_x)
_outer = _clip(_inner, wildcard(), wildcard()) | _relu(_inner)


def check(match: Match) -> Match | Diagnostic:
    """Check that all bounds are constants."""
    known = has_bounds(match.values["inner"]) and has_bounds(match.values["outer"])
    return match if known else match.reject("a bound is computed at run time")


def rewrite(match: Match) -> Expr:
    """Return the outer clip with the bounds of both."""
    (a, b), (c, d) = bounds(match.values["inner"]), bounds(match.values["outer"])
    return relax.op.clip(match.operands["x"], *(max(min(bound, d), c) for bound in (a, max(a, b))))


RULE = Rule(
    name="merge_clips",
    pattern=_outer,
    parts={"x": _x, "inner": _inner, "outer": _outer},
    check=check,
    rewrite=rewrite,
)
