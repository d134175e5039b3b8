# SPDX-License-Identifier: Apache-2.0
"""Recognition of RMS norm.

    x / sqrt(mean(x²) + epsilon)    →    rms_norm(x, 1, epsilon)
    the mean over the last axes; x² as product or power, the root as sqrt, rsqrt or 1 / sqrt

A scale that follows is then folded by `fold_affine_into_norm`. The order of the sum, and division or multiplication by
the inverse, may differ: error relative to max|result| ≤ (n + 4) eps for means of n elements, eps = 2^-23.

Quantised: if an intermediate result is quantised, the rule does not match, because that rounding is part of the model.
"""

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.norms import check_over_rms, normalized_shape, over_rms, with_gain
from relay_passes.rules.common.scalars import uniform_value
from schedules.diagnostic import Diagnostic

_x = wildcard()
_norm = over_rms(_x)


_DTYPES = ("float16", "float32")
"""Dtypes that TVM has loops of an RMS norm for."""


def check(match: Match) -> Match | Diagnostic:
    """Check that the mean is over the last axes, and that epsilon is a number."""
    dtype = str(match.operands["x"].ty.dtype)
    if dtype not in _DTYPES:
        return match.reject("dtype has no norm", limit=" or ".join(_DTYPES), actual=dtype)
    return check_over_rms(match) or match


def rewrite(match: Match) -> Expr:
    """Return the operator with a weight of 1, multiplied by the gain if the match has a gain."""
    x, shape = match.operands["x"], normalized_shape(match)
    axes = [-1 - axis for axis in reversed(range(len(shape)))]
    weight = relax.const(np.ones(shape, str(x.ty.dtype)))
    return with_gain(match, relax.op.nn.rms_norm(x, weight, axes, uniform_value(match.operands["epsilon"])))


RULE = Rule(
    name="recognize_rms_norm",
    pattern=_norm.root,
    parts={**_norm.parts, "x": _x},
    check=check,
    rewrite=rewrite,
)
