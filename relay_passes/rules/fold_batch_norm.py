# SPDX-License-Identifier: Apache-2.0
"""BatchNorm after a (transposed) convolution or a matmul is folded into its weights and bias.

    batch_norm(conv2d(x, W) + b, gamma, beta, mean, var)    →    conv2d(x, W·s) + ((b - mean)·s + beta)
    where s = gamma / sqrt(var + epsilon), one number per output channel, and b is optional

Any layout and any number of groups: s is broadcast along the weights' output channels. The new weights are computed in
float64 and rounded once: with K terms of a sum and u the unit roundoff, an output differs from the original by at
most about (K + 4)·u·(Σ|W·s·x| + |bias|), as it does between two orders of summing.

Quantised: weights that are `dequantize(c)` are no constant, so that the rule does not match; after folding they would
have to be quantised again. Quantisers fold BatchNorm before they quantise.
"""

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, is_tuple_get_item, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import (
    along,
    anchor,
    channels_of,
    is_per_channel,
    not_foldable,
    scale_outputs,
    with_weight,
)
from schedules.diagnostic import Diagnostic

_data, _weight, _bias = wildcard(), wildcard(), wildcard()
_gamma, _beta, _mean, _variance = wildcard(), wildcard(), wildcard(), wildcard()
_anchor = anchor(_data, _weight)
_biased = is_op("relax.add")(_anchor, _bias)  # add matches its operands in either order
_norm = is_op("relax.nn.batch_norm")(_anchor | _biased, _gamma, _beta, _mean, _variance)

_CONSTANTS = ("bias", "gamma", "beta", "mean", "variance")


def check(match: Match) -> Match | Diagnostic:
    """Check that all operands but the data are constant, and that bias and norm have one number per output channel."""
    problem = not_foldable(match)
    if problem is not None:
        return problem
    for part in _CONSTANTS:
        if part in match.values and not match.is_constant(part):
            return match.reject(f"{part} is not a constant")
    norm, at = match.values["norm"].attrs, channels_of(match.values["anchor"])
    if norm.training:
        return match.reject("batch_norm is in training mode")
    if norm.axis % at.ndim != at.output_axis:
        return match.reject("batch_norm is not along the channels", limit=at.output_axis, actual=norm.axis)
    lowest = float(match.constant("variance").min()) + norm.epsilon
    if lowest <= 0:
        return match.reject("variance + epsilon is not positive", limit="above 0", actual=lowest)
    if "bias" in match.values:
        bias = match.constant("bias")
        if not is_per_channel(bias, at.output_axis, at.ndim, at.outputs):
            return match.reject(
                "bias is not one number an output channel", limit=at.outputs, actual=list(bias.shape)
            )
    return match


def rewrite(match: Match) -> Expr:
    """Return the anchor with scaled weights, and one bias."""
    norm, call, weight = match.values["norm"].attrs, match.values["anchor"], match.constant("weight")
    wide = {
        part: match.constant(part).astype(np.float64).reshape(-1)
        for part in _CONSTANTS
        if part in match.values
    }
    scale = 1 / np.sqrt(wide["variance"] + norm.epsilon)
    if norm.scale:
        scale *= wide["gamma"]
    bias = (wide.get("bias", 0.0) - wide["mean"]) * scale
    if norm.center:
        bias += wide["beta"]
    at = channels_of(call)
    folded = with_weight(call, match.operands["data"], scale_outputs(call, weight, scale))
    return relax.op.add(folded, tensor_const(along(bias, at.output_axis, at.ndim).astype(weight.dtype)))


RULE = Rule(
    name="fold_batch_norm",
    pattern=is_tuple_get_item(_norm, 0),
    parts={
        "data": _data,
        "anchor": _anchor,
        "norm": _norm,
        "weight": _weight,
        "bias": _bias,
        "gamma": _gamma,
        "beta": _beta,
        "mean": _mean,
        "variance": _variance,
    },
    check=check,
    rewrite=rewrite,
)
