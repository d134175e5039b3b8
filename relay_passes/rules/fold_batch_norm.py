# SPDX-License-Identifier: Apache-2.0
"""BatchNorm after a convolution goes into its weights and bias.

    batch_norm(conv2d(x, W) + b, gamma, beta, mean, var)    →    conv2d(x, W·s) + ((b - mean)·s + beta)
    where s = gamma / sqrt(var + epsilon), one number an output channel, and b may be missing

Any layout and any number of groups: s goes along the weights' output channels (the axis O), which grouped and
depthwise kernels have, too. The new weights are computed in float64 and rounded once.

Quantised: weights that are `dequantize(c)` are no constant and are left alone; folding would need them quantised
anew. Quantisers fold BatchNorm before they quantise.
"""

import numpy as np
from tvm import relax
from tvm.ir import Call, Expr
from tvm.relax.dpl import is_op, is_tuple_get_item, wildcard

from relay_passes.rule import Match, Rejection, Rule

_data, _weight, _bias = wildcard(), wildcard(), wildcard()
_gamma, _beta, _mean, _variance = wildcard(), wildcard(), wildcard(), wildcard()
_conv = is_op("relax.nn.conv2d")(_data, _weight)
_biased = is_op("relax.add")(_conv, _bias)  # matches the operands in either order
_norm = is_op("relax.nn.batch_norm")(_conv | _biased, _gamma, _beta, _mean, _variance)

_CONSTANTS = ("weight", "bias", "gamma", "beta", "mean", "variance")


def check(match: Match) -> Match | Rejection:
    """Everything but the data is a constant, and bias and norm are one number an output channel."""
    norm, conv = match.values["norm"].attrs, match.values["conv"]
    for part in _CONSTANTS:
        if part in match.values and not match.is_constant(part):
            return match.reject(f"{part} is not a constant")
    if norm.training:
        return match.reject("batch_norm is in training mode")
    layout = _layout(conv)
    if norm.axis % len(layout) != layout.index("C"):
        return match.reject("batch_norm is not along the channels", limit=layout.index("C"), actual=norm.axis)
    lowest = float(match.constant("variance").min()) + norm.epsilon
    if lowest <= 0:
        return match.reject("variance + epsilon is not positive", limit="above 0", actual=lowest)
    if "bias" in match.values:
        shape = match.constant("bias").shape
        channels = match.constant("weight").shape[_out_axis(conv)]
        if not _is_per_channel(shape, layout, channels):
            return match.reject(
                "bias is not one number an output channel", limit=channels, actual=list(shape)
            )
    return match


def rewrite(match: Match) -> Expr:
    """The convolution with scaled weights, and one bias."""
    norm, conv = match.values["norm"].attrs, match.values["conv"]
    values = {part: match.constant(part) for part in _CONSTANTS if part in match.values}
    weight = values["weight"]
    wide = {part: value.astype(np.float64).reshape(-1) for part, value in values.items() if part != "weight"}
    scale = 1 / np.sqrt(wide["variance"] + norm.epsilon)
    if norm.scale:
        scale *= wide["gamma"]
    bias = (wide.get("bias", 0.0) - wide["mean"]) * scale
    if norm.center:
        bias += wide["beta"]
    shaped = scale.reshape([-1 if axis == _out_axis(conv) else 1 for axis in range(weight.ndim)])
    new_weight = relax.const((weight * shaped).astype(weight.dtype))
    new_bias = bias.reshape([-1 if axis == "C" else 1 for axis in _layout(conv)]).astype(weight.dtype)
    new_conv = Call(conv.op, [match.operands["data"], new_weight], conv.attrs, conv.ty_args)
    return relax.op.add(new_conv, relax.const(new_bias))


def _layout(conv: Call) -> str:
    return str(conv.attrs.out_layout or conv.attrs.data_layout)


def _out_axis(conv: Call) -> int:
    return str(conv.attrs.kernel_layout).index("O")


def _is_per_channel(shape: tuple[int, ...], layout: str, channels: int) -> bool:
    """Whether broadcasting, which aligns axes at the right, leaves `shape` along the channels alone."""
    axes = layout[len(layout) - len(shape) :]
    fits = (n == 1 or (axis == "C" and n == channels) for n, axis in zip(shape, axes, strict=True))
    return len(shape) <= len(layout) and all(fits)


RULE = Rule(
    name="fold_batch_norm",
    pattern=is_tuple_get_item(_norm, 0),
    parts={
        "data": _data,
        "conv": _conv,
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
