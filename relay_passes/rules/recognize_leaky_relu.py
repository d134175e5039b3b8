# SPDX-License-Identifier: Apache-2.0
"""Recognition of leaky ReLU and PReLU.

    maximum(x, x · a)  where 0 ≤ a ≤ 1            →    leakyrelu(x, a), or prelu(x, a) for one a per channel
    where(x > 0, x, x · a), and with x ≥ 0        →    likewise, any a
    where(x < 0, x · a, x), and with x ≤ 0        →    likewise, any a

Exact except for the sign of zero: the operators compute x if x > 0, else x · a. NaN gives NaN.

Quantised: if x · a is quantised, the rule does not match, because that rounding is part of the model.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.rewriter.patterns import any_of, either_order
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.scalars import enlarged, is_number, uniform_value
from schedules.diagnostic import Diagnostic

_x, _slope, _zero = wildcard(), is_const(), is_const()
_where = is_op("relax.where")
_steep = is_op("relax.multiply")(_x, _slope)
_positive = any_of(is_op("relax.greater"), is_op("relax.greater_equal"))(_x, _zero)
_negative = any_of(is_op("relax.less"), is_op("relax.less_equal"))(_x, _zero)
_larger = either_order(is_op("relax.maximum"), _x, _steep)
_root = _larger | _where(_positive, _x, _steep) | _where(_negative, _steep, _x)


def check(match: Match) -> Match | Diagnostic:
    """Check that slopes vary along one axis at most, and that the matched form equals the operator for these slopes."""
    slope = match.constant("slope")
    if "zero" in match.operands and not is_number(match.operands["zero"], 0.0):
        return match.reject(
            "x is not compared with 0", limit=0.0, actual=uniform_value(match.operands["zero"])
        )
    if "larger" in match.values and not ((slope >= 0) & (slope <= 1)).all():
        actual = [float(slope.min()), float(slope.max())]
        return match.reject("slope of a maximum is not in [0, 1]", limit=[0.0, 1.0], actual=actual)
    long = [n for n in slope.shape if n != 1]
    if uniform_value(match.operands["slope"]) is None and len(long) != 1:
        return match.reject("slope is not along one axis", limit="1 axis", actual=list(slope.shape))
    return enlarged(match) or match


def rewrite(match: Match) -> Expr:
    """Return the operator with a single slope or one slope per channel."""
    x, number = match.operands["x"], uniform_value(match.operands["slope"])
    if number is not None:
        return relax.op.nn.leakyrelu(x, number)
    slope = match.constant("slope")
    # Broadcasting aligns axes at the right.
    axis = len(x.ty.shape) - slope.ndim + next(i for i, n in enumerate(slope.shape) if n != 1)
    return relax.op.nn.prelu(x, tensor_const(slope.reshape(-1)), axis=axis)


RULE = Rule(
    name="recognize_leaky_relu",
    pattern=_root,
    parts={"x": _x, "slope": _slope, "zero": _zero, "larger": _larger, "root": _root},
    check=check,
    rewrite=rewrite,
)
