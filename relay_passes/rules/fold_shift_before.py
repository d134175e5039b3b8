# SPDX-License-Identifier: Apache-2.0
"""A shift before a convolution or a matmul becomes a bias after it; the results at padded borders do not change.

    matmul(x + t, W)               →    matmul(x, W) + t·W                  t: one number, or one per input channel
    conv2d(x + t, W)               →    conv2d(x, W) + Σ(W·t)               without padding
    conv2d(x + t, W, padding=p)    →    conv2d(pad(x, p, -t), W) + Σ(W·t)   t: one number

At a padded border the convolution sums zeros, not t, so the bias alone would be wrong there: x is padded with -t, which
the shift would map to 0. A t per channel would need a pad value per channel, which `pad` does not support, or a bias
that differs at each border, conv2d(t, W, padding=p): a constant as large as the result, which kernels do not support as
a bias, and which is larger than an image. A transposed convolution sums fewer weights at its borders. In both cases the
rule does not apply. It does not apply either to a shift that another kernel computes in its epilogue at no cost: as the
bias of another such call or, before padding, in any epilogue, from which a pad would separate it.

The sums Σ(W·t) are computed in float64 and rounded once: with K terms of a sum and u the unit roundoff, an output
differs from the original by at most about (K + 3)·u·Σ|W|·(|x| + |t|).

Quantised: the rule does not match weights that are `dequantize(c)`, or if there is a `dequantize` in between.
"""

from dataclasses import replace

from tvm import relax
from tvm.ir import Call, Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.ir.shapes import element_count, shape_of
from relay_passes.rewriter.patterns import non_consuming
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import (
    along,
    anchor,
    channels_of,
    is_per_channel,
    is_transposed,
    not_foldable,
    padding_of,
    per_channel,
    response,
)
from schedules.diagnostic import Diagnostic

_data, _weight, _shift = wildcard(), wildcard(), is_const()
_add = is_op("relax.add")
_biased = _add(_data & non_consuming(anchor(wildcard(), wildcard())), _shift)
_computed = _add(_data & non_consuming(wildcard()(varg_default_wildcard=True)), _shift)
_anchor = anchor(_biased | _computed | _add(_data, _shift), _weight)

# Attributes of a convolution except its padding.
_KEPT = ("strides", "dilation", "groups", "data_layout", "kernel_layout", "out_layout", "out_dtype")


def check(match: Match) -> Match | Diagnostic:
    """Check that weights are constant, the shift is per tensor or input channel, and the padding can be adjusted."""
    problem = not_foldable(match)
    if problem is not None:
        return problem
    call, shift = match.values["anchor"], match.constant("shift")
    at, shape = channels_of(call), shape_of(match.operands["data"])
    if not is_per_channel(shift, at.data_axis, len(shape), at.inputs):
        return match.reject(
            "shift is not one number an input channel", limit=at.inputs, actual=list(shift.shape)
        )
    if shape != shape_of(call.args[0]):
        return match.reject(
            "shift enlarges the tensor", limit=list(shape), actual=list(shape_of(call.args[0]))
        )
    if call.op.name == "relax.matmul" and match.constant("weight").ndim > 2:
        return match.reject("weight has more than two axes", limit=2, actual=match.constant("weight").ndim)
    if is_transposed(call):
        return match.reject("a transposed convolution sums fewer weights at its borders")
    return _check_gain(match)


def _check_gain(match: Match) -> Match | Diagnostic:
    """Check that the results at borders can be preserved, at a lower cost than that of the shift."""
    padding, shift = list(padding_of(match.values["anchor"])), match.constant("shift")
    if any(padding) and (shift != shift.flat[0]).any():
        found = match.reject("padding would need one value a channel", limit=0, actual=padding)
        sums, data = (
            element_count(match.values["anchor"].ty),
            element_count(match.values["anchor"].args[0].ty),
        )
        return replace(found, hint=f"{sums} elements would be added to the result for {data} of the data")
    if "biased" in match.values:
        return match.reject("the shift is the bias of what computes the data")
    if any(padding) and "computed" in match.values:
        return match.reject("a pad of computed data costs more than a shift", limit=0, actual=padding)
    return match


def rewrite(match: Match) -> Expr:
    """Return the anchor on data without the shift, plus a bias."""
    call, weight = match.values["anchor"], match.constant("weight")
    at, shift = channels_of(call), match.constant("shift")
    bias = along(response(call, weight, per_channel(shift, at.inputs)), at.output_axis, at.ndim)
    if any(padding_of(call)):
        plain = _on_padded(match.operands["data"], call, -float(shift.flat[0]))
    else:
        plain = Call(call.op, [match.operands["data"], call.args[1]], call.attrs, call.ty_args)
    return relax.op.add(plain, tensor_const(bias.astype(weight.dtype)))


def _on_padded(data: Expr, call: Call, value: float) -> Expr:
    """Return the convolution on data that is padded with `value` instead of zeros."""
    layout, padding = str(call.attrs.data_layout), padding_of(call)
    spatial = [layout.index(axis) for axis in "DHW" if axis in layout]
    before = dict(zip(spatial, padding[: len(spatial)], strict=True))
    after = dict(zip(spatial, padding[len(spatial) :], strict=True))
    widths = [pads.get(axis, 0) for axis in range(len(layout)) for pads in (before, after)]
    convolution = getattr(relax.op.nn, str(call.op.name).rpartition(".")[2])
    kept = {name: getattr(call.attrs, name) for name in _KEPT}
    return convolution(relax.op.nn.pad(data, widths, "constant", value), call.args[1], padding=0, **kept)


RULE = Rule(
    name="fold_shift_before",
    pattern=_anchor,
    parts={
        "data": _data,
        "anchor": _anchor,
        "weight": _weight,
        "shift": _shift,
        "biased": _biased,
        "computed": _computed,
    },
    check=check,
    rewrite=rewrite,
)
