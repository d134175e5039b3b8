# SPDX-License-Identifier: Apache-2.0
"""Calls that are linear in constant weights: convolutions, transposed convolutions and matmuls.

It finds the channel axes of such a call in data, output and weights, by which rules move a scale or a shift per channel
into the weights and the bias.
"""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from tvm.ir import Call, Expr
from tvm.relax.dpl import DFPattern, is_op

from relay_passes.ir.calls import tensor_const
from relay_passes.ir.shapes import shape_of, static_shape
from relay_passes.rewriter.rule import Match
from schedules.diagnostic import Diagnostic

Array = np.ndarray[Any, Any]

CONVOLUTIONS = tuple(f"relax.nn.conv{d}d" for d in (1, 2, 3))
TRANSPOSED = tuple(f"relax.nn.conv{d}d_transpose" for d in (1, 2, 3))
ANCHORS = (*CONVOLUTIONS, *TRANSPOSED, "relax.matmul")
# Weights with fewer axes have no output channels, such as the vector in a matmul with a vector.
_MATRIX = 2


@dataclass(frozen=True)
class Channels:
    """The axes of an anchor's channels, in data, weights and output.

    Attributes:
        data_axis: Axis of the input channels in operand 0.
        output_axis: Axis of the output channels in the result.
        ndim: Rank of data and result (a matmul's data may have fewer axes).
        weight_in: Input channel axis of the weights; in a convolution it spans one group.
        weight_out: Output channel axis of the weights; in a transposed convolution it spans one group.
        inputs: Number of input channels.
        outputs: Number of output channels.
        groups: Number of groups of the convolution, 1 for a matmul.
    """

    data_axis: int
    output_axis: int
    ndim: int
    weight_in: int
    weight_out: int
    inputs: int
    outputs: int
    groups: int


def anchor(data: DFPattern, weight: DFPattern) -> DFPattern:
    """Return a pattern that matches all anchors on `data` and `weight`."""
    return reduce(or_, (is_op(name)(data, weight) for name in ANCHORS))


def channels_of(call: Call) -> Channels:
    """Return the channel axes of an anchor with static shapes."""
    data, result, weight = (shape_of(expr) for expr in (call.args[0], call, call.args[1]))
    if call.op.name == "relax.matmul":
        last, ndim = len(data) - 1, len(result)
        k, n = len(weight) - 2, len(weight) - 1
        return Channels(last, ndim - 1, ndim, k, n, data[last], result[ndim - 1], 1)
    data_axis = str(call.attrs.data_layout).index("C")
    output_axis = str(call.attrs.out_layout or call.attrs.data_layout).index("C")
    kernel = str(call.attrs.kernel_layout)
    return Channels(
        data_axis,
        output_axis,
        len(result),
        kernel.index("I"),
        kernel.index("O"),
        data[data_axis],
        result[output_axis],
        int(call.attrs.groups),
    )


def is_transposed(call: Call) -> bool:
    """Whether the call is a transposed convolution."""
    return str(call.op.name) in TRANSPOSED


def padding_of(call: Call) -> tuple[int, ...]:
    """Return the widths of the call's zero padding: before each spatial axis, then after each."""
    return () if call.op.name == "relax.matmul" else tuple(int(n) for n in call.attrs.padding)


def is_per_channel(value: Array, axis: int, ndim: int, channels: int) -> bool:
    """Whether `value`, broadcast to `ndim` axes, varies along `axis` alone and does not enlarge the tensor."""
    axes = range(ndim - value.ndim, ndim)
    return value.ndim <= ndim and all(
        n == 1 or (a == axis and n == channels) for n, a in zip(value.shape, axes, strict=True)
    )


def per_channel(value: Array, channels: int) -> Array:
    """Return a value for which `is_per_channel` holds as float64 with one element per channel."""
    return np.broadcast_to(value.astype(np.float64).reshape(-1), (channels,))


def along(values: Array, axis: int, ndim: int) -> Array:
    """Return `values` (one element per channel) reshaped to broadcast along `axis` of `ndim` axes."""
    return values.reshape([-1 if a == axis else 1 for a in range(ndim)])


def factors(match: Match, scaled: str, scale: str) -> Array:
    """Return the factor, float64, of a multiplication or division by the constant `scale`."""
    value = match.constant(scale).astype(np.float64)
    if match.values[scaled].op.name == "relax.multiply":
        return value
    with np.errstate(divide="ignore"):
        return 1 / value


def scale_outputs(call: Call, weight: Array, scale: Array) -> Array:
    """Return weights whose call has its output channels scaled by `scale`; computed in float64, rounded once."""
    at = channels_of(call)
    if is_transposed(call):
        return _times(weight, _grouped(scale, weight, at.weight_in, at.weight_out, at.groups))
    return _times(weight, along(scale, at.weight_out, weight.ndim))


def scale_inputs(call: Call, weight: Array, scale: Array) -> Array:
    """Return weights that include a scaling of the input channels by `scale`; computed in float64, rounded once."""
    at = channels_of(call)
    if is_transposed(call):
        return _times(weight, along(scale, at.weight_in, weight.ndim))
    return _times(weight, _grouped(scale, weight, at.weight_out, at.weight_in, at.groups))


def response(call: Call, weight: Array, shift: Array) -> Array:
    """Return the call's output channels, float64, for data that equals `shift` per channel at every position."""
    at = channels_of(call)
    shifts = _grouped(shift, weight, at.weight_out, at.weight_in, at.groups)
    others = tuple(a for a in range(weight.ndim) if a != at.weight_out)
    return np.asarray((weight.astype(np.float64) * shifts).sum(axis=others))


def with_weight(call: Call, data: Expr, weight: Array) -> Call:
    """Return a copy of the call on other data and weights."""
    return Call(call.op, [data, tensor_const(weight)], call.attrs, call.ty_args)


def not_foldable(match: Match) -> Diagnostic | None:
    """Return why nothing can be folded into the weights of an anchor; None if it is possible."""
    if not match.is_constant("weight"):
        return match.reject("weight is not a constant")
    value = match.constant("weight")
    if not is_float(value.dtype):
        return match.reject("weight is no floating-point tensor", limit="float", actual=str(value.dtype))
    if value.ndim < _MATRIX:
        return match.reject("weight has no axis of output channels", limit=_MATRIX, actual=value.ndim)
    call = match.values["anchor"]
    if static_shape(call.args[0]) is None or static_shape(call) is None:
        return match.reject("shape is not static")
    return None


def is_float(dtype: object) -> bool:
    """Whether the dtype is a floating-point one."""
    return "float" in str(dtype)


def _grouped(values: Array, weight: Array, whole: int, part: int, groups: int) -> Array:
    """Return values per channel, shaped to broadcast over weights whose axis `part` spans one group only.

    The axis `whole` has all groups one after the other, which determines the group of an element.
    """
    table = np.repeat(values.reshape(groups, -1), weight.shape[whole] // groups, axis=0)
    if whole > part:
        table = table.T
    return table.reshape([n if a in (whole, part) else 1 for a, n in enumerate(weight.shape)])


def _times(weight: Array, factors: Array) -> Array:
    return (weight * factors).astype(weight.dtype)
