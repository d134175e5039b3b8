# SPDX-License-Identifier: Apache-2.0
"""Normalisation of hard sigmoid and hard swish, for which Relax has no operators, to one form without a division.

    clip(x + 3, 0, 6) / 6         →    clip(x · ⅙ + ½, 0, 1)
    clip(x + 3, 0, 6) · ⅙         →    clip(x · ⅙ + ½, 0, 1)
    (y · clip(x + 3, 0, 6)) / 6   →    y · clip(x · ⅙ + ½, 0, 1)    and with · ⅙
    (y / 6) · clip(x + 3, 0, 6)   →    y · clip(x · ⅙ + ½, 0, 1)

With y = x the last two are hard swish. TVM imports ONNX HardSigmoid in the form on the right.

|error| ≤ 2 eps (times |y|), eps = 2^-23 in float32: the result is in [0, 1], and each side has three roundings. The
error is absolute, because near x = -3 the sum cancels.

Quantised: the rule is not applied to functions that quantise. There x / 6 of a dequantised x gives ties, and x · ⅙ does
not: with scales that are powers of two, a quarter of the tables of 256 entries differ.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.scalars import bounds, has_bounds, is_number, uniform_value
from schedules.diagnostic import Diagnostic

_SHIFT, _WIDTH = 3.0, 6.0

_multiply, _divide = is_op("relax.multiply"), is_op("relax.divide")
_x, _y = wildcard(), wildcard()
_shift, _divisor, _factor = is_const(), is_const(), is_const()
_clip = is_op("relax.clip")(is_op("relax.add")(_x, _shift), wildcard(), wildcard())
_product = _multiply(_y, _clip)
_root = (
    _divide(_clip, _divisor)
    | _multiply(_clip, _factor)
    | _divide(_product, _divisor)
    | _multiply(_divide(_y, _divisor), _clip)
    | _multiply(_product, _factor)
)
_numbers = {"shift": _SHIFT, "divisor": _WIDTH, "factor": 1 / _WIDTH}


def check(match: Match) -> Match | Diagnostic:
    """Check that the constants are those of the formula, and that broadcasting them does not enlarge the tensor."""
    clip, x = match.values["clip"], match.operands["x"]
    if not has_bounds(clip):
        return match.reject("a bound is computed at run time")
    if bounds(clip) != (0.0, _WIDTH):
        reason = "bounds are not those of hard sigmoid"
        return match.reject(reason, limit=(0.0, _WIDTH), actual=bounds(clip))
    for part, number in _numbers.items():
        if part not in match.operands:
            continue
        if not is_number(match.operands[part], number):
            found = uniform_value(match.operands[part])
            return match.reject(f"{part} is not that of hard sigmoid", limit=number, actual=found)
        if len(match.operands[part].ty.shape) > len(x.ty.shape) or match.constant(part).size > 1:
            return match.reject(f"{part} is a tensor", limit="1 element", actual=match.constant(part).shape)
    return match


def rewrite(match: Match) -> Expr:
    """Return the clip, multiplied by y if the match has a y."""
    x = match.operands["x"]
    scale, shift = (relax.const(number, str(x.ty.dtype)) for number in (1 / _WIDTH, _SHIFT / _WIDTH))
    gate = relax.op.clip(relax.op.add(relax.op.multiply(x, scale), shift), 0.0, 1.0)
    return relax.op.multiply(match.operands["y"], gate) if "y" in match.operands else gate


RULE = Rule(
    name="recognize_hard_sigmoid",
    pattern=_root,
    parts={
        "x": _x,
        "y": _y,
        "shift": _shift,
        "divisor": _divisor,
        "factor": _factor,
        "clip": _clip,
    },
    check=check,
    rewrite=rewrite,
)
