# SPDX-License-Identifier: Apache-2.0
"""RMS norm as one operator.

    x / sqrt(mean(x²) + epsilon)    →    rms_norm(x, 1, epsilon)
    the mean over the last axes; x² as product or power, the root as sqrt, rsqrt or 1 / sqrt

A scale that follows goes into it by `fold_affine_into_norm`. The mean is summed in another order, and divided by the
root or multiplied by its inverse: error relative to max|result| ≤ (n + 4) eps for n elements a mean, eps = 2^-23.

Quantised: where a step's result is quantised by itself, the rule does not match: that rounding is part of the model.
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
    """Check that the mean is over the last axes, and epsilon is one number."""
    dtype = str(match.operands["x"].ty.dtype)
    if dtype not in _DTYPES:
        return match.reject("dtype has no norm", limit=" or ".join(_DTYPES), actual=dtype)
    return check_over_rms(match) or match


def rewrite(match: Match) -> Expr:
    """Return the operator with a scale of 1."""
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
