# SPDX-License-Identifier: Apache-2.0
"""Recognition of layer norm.

    d / sqrt(mean(d²) + epsilon), d = x - mean(x)    →    layer_norm(x, 1, 0, epsilon)
    both means over the same last axes; d² as product or power, the root as sqrt, rsqrt or 1 / sqrt; for mean(d²) also
    max(0, mean(x²) - mean(x)²), as flax writes it

A scale and a shift that follow are then folded by `fold_affine_into_norm`. The order of sums, and division or
multiplication by the inverse, may differ: error relative to max|result| ≤ (n + 4) eps for means of n elements, eps =
2^-23.

Quantised: if an intermediate result is quantised, the rule does not match, because that rounding is part of the model.
"""

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.norms import (
    OTHER_MEAN,
    check_mean,
    check_over_rms,
    mean_axes,
    normalized_shape,
    over_rms,
    square,
    squares_mean,
    with_gain,
)
from relay_passes.rules.common.scalars import is_number, uniform_value
from schedules.diagnostic import Diagnostic

_x = wildcard()
_subtract, _two, _zero = is_op("relax.subtract"), is_const(), is_const()
_center, _mean_of_squares = is_op("relax.mean")(_x), is_op("relax.mean")(square(_x, _two))
_squared_mean = is_op("relax.multiply")(_center, _center) | is_op("relax.square")(_center)
_difference = _subtract(_mean_of_squares, _squared_mean)
_maximum = is_op("relax.maximum")
_positive = is_op("relax.nn.relu")(_difference) | _maximum(_difference, _zero) | _maximum(_zero, _difference)
_norm = over_rms(_subtract(_x, _center), _positive | _difference)


def check(match: Match) -> Match | Diagnostic:
    """Check that both means are over the same last axes, and that epsilon is a number."""
    rejection = check_over_rms(match) or check_mean(match, "center")
    if rejection is not None:
        return rejection
    for part, number in (("zero", 0.0), ("power", 2.0)):
        if part in match.operands and not is_number(match.operands[part], number):
            return match.reject(f"{part} is not {number}", number, uniform_value(match.operands[part]))
    axes, center = mean_axes(match, squares_mean(match)), mean_axes(match, "center")
    return match if axes == center else match.reject("the means are over other axes", axes, center)


def rewrite(match: Match) -> Expr:
    """Return the operator with gamma = 1 and beta = 0, multiplied by the gain if the match has a gain."""
    x, shape = match.operands["x"], normalized_shape(match)
    gamma, beta = (relax.const(fill(shape, str(x.ty.dtype))) for fill in (np.ones, np.zeros))
    axes = [-1 - axis for axis in reversed(range(len(shape)))]
    return with_gain(
        match, relax.op.nn.layer_norm(x, gamma, beta, axes, uniform_value(match.operands["epsilon"]))
    )


RULE = Rule(
    name="recognize_layer_norm",
    pattern=_norm.root,
    parts={
        **_norm.parts,
        "x": _x,
        "center": _center,
        OTHER_MEAN: _mean_of_squares,
        "zero": _zero,
        "power": _two,
    },
    check=check,
    rewrite=rewrite,
)
