# SPDX-License-Identifier: Apache-2.0
"""A scale before a (transposed) convolution or a matmul is folded into its weights.

    conv2d(x·s, W)        →    conv2d(x, W·s)                  s: one number, or one per input channel
    conv2d(x·s + t, W)    →    conv2d(x + t/s, W·s)            s has no 0; t may have any shape
    and x / d likewise with s = 1 / d

Padding does not prevent the rewrite: zeros around x·s are zeros around x, and the shift stays before the padding. An
input normalisation (x/255 - mean)/std becomes one shift, to which `fold_shift_before` applies.

The new weights are computed in float64 and rounded once: with K terms of a sum and u the unit roundoff, an output
differs from the original by at most about (K + 5)·u·Σ|W|·(|x·s| + |t|).

Quantised: the rule does not match weights that are `dequantize(c)`, or if there is a `dequantize` in between.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.ir.shapes import shape_of
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import (
    anchor,
    channels_of,
    factors,
    is_per_channel,
    not_foldable,
    per_channel,
    scale_inputs,
    with_weight,
)
from schedules.diagnostic import Diagnostic

_data, _weight, _scale, _shift = wildcard(), wildcard(), is_const(), is_const()
_scaled = is_op("relax.multiply")(_data, _scale) | is_op("relax.divide")(_data, _scale)
_shifted = is_op("relax.add")(_scaled, _shift)
_anchor = anchor(_scaled | _shifted, _weight)


def check(match: Match) -> Match | Diagnostic:
    """Check that the weights are constant, and that the scale has one number, or one per input channel."""
    problem = not_foldable(match)
    if problem is not None:
        return problem
    at = channels_of(match.values["anchor"])
    value, shape = match.constant("scale"), shape_of(match.operands["data"])
    if not is_per_channel(value, at.data_axis, len(shape), at.inputs):
        return match.reject(
            "scale is not one number an input channel", limit=at.inputs, actual=list(value.shape)
        )
    if shape != shape_of(match.values["anchor"].args[0]):
        return match.reject("scale or shift enlarges the tensor", limit=list(shape))
    scale = factors(match, "scaled", "scale")
    if not np.isfinite(scale).all():
        return match.reject("scale is not finite")
    if "shift" in match.values and not np.isfinite(_moved(match)).all():
        return match.reject("shift divided by scale is not finite")
    return match


def rewrite(match: Match) -> Expr:
    """Return the anchor with scaled weights, applied to the data plus the remaining shift, if there is one."""
    call, data = match.values["anchor"], match.operands["data"]
    at = channels_of(call)
    scale = per_channel(factors(match, "scaled", "scale"), at.inputs)
    if "shift" in match.values:
        data = relax.op.add(data, tensor_const(_moved(match)))
    return with_weight(call, data, scale_inputs(call, match.constant("weight"), scale))


def _moved(match: Match) -> npt.NDArray[Any]:
    """Return the shift divided by the scale, in the shift's dtype."""
    shift = match.constant("shift")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(shift / factors(match, "scaled", "scale")).astype(shift.dtype)


RULE = Rule(
    name="fold_scale_before",
    pattern=_anchor,
    parts={
        "data": _data,
        "anchor": _anchor,
        "weight": _weight,
        "scale": _scale,
        "scaled": _scaled,
        "shift": _shift,
    },
    check=check,
    rewrite=rewrite,
)
