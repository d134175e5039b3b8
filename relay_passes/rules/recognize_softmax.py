# SPDX-License-Identifier: Apache-2.0
"""Recognition of softmax.

    e / sum(e), e = exp(x - max(x))    →    softmax(x)
    e / sum(e), e = exp(x)             →    softmax(x)
    sum and maximum along the same axis

For the first form only the order of the sum may differ: error ≤ n eps of a result for sums of n elements, eps = 2^-23
in float32. The second form overflows above x = 88 and gives NaN, while softmax is correct; otherwise they differ by the
rounding of x - max(x): (n + |x - max(x)|) eps.

Quantised: if an intermediate result is quantised, the rule does not match, because that rounding is part of the model.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_x = wildcard()
_maximum = is_op("relax.max")(_x)
_exp = is_op("relax.exp")(is_op("relax.subtract")(_x, _maximum) | _x)
_sum = is_op("relax.sum")(_exp)
_root = is_op("relax.divide")(_exp, _sum)


def check(match: Match) -> Match | Diagnostic:
    """Check that both reductions are along the same single axis, with `keepdims`."""
    axes = _axes(match, "sum")
    if len(axes) != 1:
        return match.reject("sum is not along one axis", limit="1 axis", actual=axes)
    for part in ("sum", "maximum"):
        if part not in match.values:
            continue
        if not match.values[part].attrs.keepdims:
            return match.reject(f"{part} does not keep the axis")
        if _axes(match, part) != axes:
            return match.reject(
                "maximum and sum are along different axes", limit=axes, actual=_axes(match, part)
            )
    return match


def rewrite(match: Match) -> Expr:
    """Return relax.nn.softmax of the operand."""
    return relax.op.nn.softmax(match.operands["x"], axis=_axes(match, "sum")[0])


def _axes(match: Match, part: str) -> list[int]:
    rank, axes = len(match.values["root"].ty.shape), match.values[part].attrs.axis
    return list(range(rank)) if axes is None else sorted(int(axis) % rank for axis in axes)


RULE = Rule(
    name="recognize_softmax",
    pattern=_root,
    parts={"x": _x, "maximum": _maximum, "sum": _sum, "root": _root},
    check=check,
    rewrite=rewrite,
)
