# SPDX-License-Identifier: Apache-2.0
"""A scale after a (transposed) convolution or a matmul is folded into its weights and bias.

    (conv2d(x, W) + b)·s    →    conv2d(x, W·s) + b·s        s: one number, or one per output channel; b is optional
    (conv2d(x, W) + b) / d  →    likewise with s = 1 / d

The new weights are computed in float64 and rounded once: with K terms of a sum and u the unit roundoff, an output
differs from the original by at most about (K + 3)·u·(Σ|W·s·x| + |b·s|), as it does between two orders of summing.

Quantised: the rule does not match weights that are `dequantize(c)`, or if there is a `quantize` in between.
"""

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import (
    along,
    anchor,
    channels_of,
    factors,
    is_per_channel,
    not_foldable,
    per_channel,
    scale_outputs,
    with_weight,
)
from schedules.diagnostic import Diagnostic

_data, _weight, _bias, _scale = wildcard(), wildcard(), wildcard(), wildcard()
_anchor = anchor(_data, _weight)
_biased = is_op("relax.add")(_anchor, _bias)
_value = _anchor | _biased
_scaled = is_op("relax.multiply")(_value, _scale) | is_op("relax.divide")(_value, _scale)


def check(match: Match) -> Match | Diagnostic:
    """Check that weights, bias and scale are constants, and that bias and scale have one number per output channel."""
    problem = not_foldable(match)
    if problem is not None:
        return problem
    at = channels_of(match.values["anchor"])
    for part in ("bias", "scale"):
        if part not in match.values:
            continue
        if not match.is_constant(part):
            return match.reject(f"{part} is not a constant")
        value = match.constant(part)
        if not is_per_channel(value, at.output_axis, at.ndim, at.outputs):
            return match.reject(
                f"{part} is not one number an output channel", limit=at.outputs, actual=list(value.shape)
            )
    if not np.isfinite(factors(match, "scaled", "scale")).all():
        return match.reject("scale is not finite")
    return match


def rewrite(match: Match) -> Expr:
    """Return the anchor with scaled weights, and the scaled bias if there is one."""
    call, weight = match.values["anchor"], match.constant("weight")
    at = channels_of(call)
    scale = per_channel(factors(match, "scaled", "scale"), at.outputs)
    folded = with_weight(call, match.operands["data"], scale_outputs(call, weight, scale))
    if "bias" not in match.values:
        return folded
    bias = per_channel(match.constant("bias"), at.outputs) * scale
    dtype = match.constant("bias").dtype
    return relax.op.add(folded, tensor_const(along(bias, at.output_axis, at.ndim).astype(dtype)))


RULE = Rule(
    name="fold_scale",
    pattern=_scaled,
    parts={
        "data": _data,
        "anchor": _anchor,
        "weight": _weight,
        "bias": _bias,
        "scale": _scale,
        "scaled": _scaled,
    },
    check=check,
    rewrite=rewrite,
)
