# SPDX-License-Identifier: Apache-2.0
"""Layer norm as one operator.

    d / sqrt(mean(d²) + epsilon), d = x - mean(x)    →    layer_norm(x, 1, 0, epsilon)
    both means over the same last axes; d² as product or power, the root as sqrt, rsqrt or 1 / sqrt

Scale and shift that follow go into it by `fold_affine_into_norm`. Means are summed in another order, and divided by
the root or multiplied by its inverse: error relative to max|result| ≤ (n + 4) eps for n elements a mean, eps = 2^-23.

Quantised: where a step's result is quantised by itself, the rule does not match: that rounding is part of the model.
"""

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rule import Match, Rejection, Rule
from relay_passes.rules.norms import check_mean, check_over_rms, mean_axes, normalized_shape, over_rms
from relay_passes.rules.scalars import uniform_value

_x = wildcard()
_center = is_op("relax.mean")(_x)
_norm = over_rms(is_op("relax.subtract")(_x, _center))


def check(match: Match) -> Match | Rejection:
    """Both means are over the same last axes, and epsilon is one number."""
    rejection = check_over_rms(match) or check_mean(match, "center")
    if rejection is not None:
        return rejection
    axes, center = mean_axes(match, "mean"), mean_axes(match, "center")
    return match if axes == center else match.reject("the means are over other axes", axes, center)


def rewrite(match: Match) -> Expr:
    """The operator with a scale of 1 and a shift of 0."""
    x, shape = match.operands["x"], normalized_shape(match)
    gamma, beta = (relax.const(fill(shape, str(x.ty.dtype))) for fill in (np.ones, np.zeros))
    axes = [-1 - axis for axis in reversed(range(len(shape)))]
    return relax.op.nn.layer_norm(x, gamma, beta, axes, uniform_value(match.operands["epsilon"]))


RULE = Rule(
    name="recognize_layer_norm",
    pattern=_norm.root,
    parts={**_norm.parts, "x": _x, "center": _center},
    check=check,
    rewrite=rewrite,
)
