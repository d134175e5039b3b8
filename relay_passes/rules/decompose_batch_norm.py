# SPDX-License-Identifier: Apache-2.0
"""A BatchNorm that cannot be folded into the call before it becomes a multiplication and an addition.

    batch_norm(x, gamma, beta, mean, var)    →    x·s + t
    where s = gamma / sqrt(var + epsilon) and t = beta - mean·s, one number per channel

A BatchNorm before a convolution is then folded by `fold_scale_before` and `fold_shift_before`, if padding permits. The
rule runs after `fold_batch_norm`, which has one rounding less. s and t are computed in float64 and rounded once: the
result differs from the original by at most about 5·u·(|x·s| + |mean·s| + |beta|), u the unit roundoff.

Quantised: between `dequantize` and `quantize` the rounding above could move an integer by one step, so functions
that quantise keep their BatchNorm.
"""

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, is_tuple_get_item, wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import along
from schedules.diagnostic import Diagnostic

_data = wildcard()
_gamma, _beta, _mean, _variance = wildcard(), wildcard(), wildcard(), wildcard()
_norm = is_op("relax.nn.batch_norm")(_data, _gamma, _beta, _mean, _variance)

_CONSTANTS = ("gamma", "beta", "mean", "variance")


def check(match: Match) -> Match | Diagnostic:
    """Check that the BatchNorm is for inference, with constant parameters."""
    norm = match.values["norm"].attrs
    for part in _CONSTANTS:
        if not match.is_constant(part):
            return match.reject(f"{part} is not a constant")
    if norm.training:
        return match.reject("batch_norm is in training mode")
    lowest = float(match.constant("variance").min()) + norm.epsilon
    if lowest <= 0:
        return match.reject("variance + epsilon is not positive", limit="above 0", actual=lowest)
    return match


def rewrite(match: Match) -> Expr:
    """Return a multiplication and an addition of constants along the norm's axis."""
    norm, data = match.values["norm"].attrs, match.operands["data"]
    gamma, beta, mean, variance = (match.constant(part).astype(np.float64) for part in _CONSTANTS)
    scale = (gamma if norm.scale else 1.0) / np.sqrt(variance + norm.epsilon)
    shift = (beta if norm.center else 0.0) - mean * scale
    ndim, dtype = int(data.ty.ndim), str(data.ty.dtype)
    factor, term = (
        relax.const(along(value, norm.axis % ndim, ndim).astype(match.constant("mean").dtype), dtype)
        for value in (scale, shift)
    )
    return relax.op.add(relax.op.multiply(data, factor), term)


RULE = Rule(
    name="decompose_batch_norm",
    pattern=is_tuple_get_item(_norm, 0),
    parts={
        "data": _data,
        "norm": _norm,
        "gamma": _gamma,
        "beta": _beta,
        "mean": _mean,
        "variance": _variance,
    },
    check=check,
    rewrite=rewrite,
)
