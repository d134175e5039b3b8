# SPDX-License-Identifier: Apache-2.0
"""Sums of products, from the integer calls that compute them: convolutions, matrix products, totals over axes.

    conv2d(pad(x, zp), W)    →    a convolution with padding whose data has zp subtracted

A border that holds zp is one of zeros once zp is subtracted; what that takes off each sum goes back into the bias.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tvm import ir
from tvm.ir import Call, Expr, GenericConst, Var

from schedules.transposed import Geometry

Array = npt.NDArray[Any]


class Reader(Protocol):
    """What is known of the function around a call."""

    def single(self, expr: Expr) -> Call | None:
        """The call that computes a variable, if nothing else reads it."""

    def routine(self, value: Expr) -> Mapping[str, Any] | None:
        """The attributes of the routine that a call_tir calls."""


@dataclass(frozen=True)
class Sum:
    """An anchor, read; `Operator` has the meaning of kind and attributes.

    Attributes:
        kind: Of the operator.
        inputs: Tensors of run time.
        attributes: But for those of a sum.
        offset: What its bias holds beyond the graph's: broadcasts to the output.
        reach: Bound of the accumulators without bias.
        macs: Multiply-accumulates.
        covered: Variables that are part of it before the anchor's, and their calls.
    """

    kind: str
    inputs: tuple[Expr, ...]
    attributes: Mapping[str, Any]
    offset: Array
    reach: int
    macs: int
    covered: tuple[tuple[Var, Call], ...] = ()


def sum_of(call: Call, reader: Reader) -> Sum | None:
    """The sum that a call computes, or None if it is none that is known here."""
    name = str(getattr(call.op, "name", ""))
    if name == "relax.nn.conv2d":
        return _convolution(call, reader)
    if name == "relax.matmul":
        return _linear(call)
    if name == "relax.sum":
        return _total(call, reader)
    attrs = reader.routine(call)
    match None if attrs is None else str(attrs["numerics"]):
        case "qdq.matmul":
            return _matmul(call, attrs or {})
        case "qdq.conv2d_transpose":
            return _transposed(call, attrs or {})
    return None


def _convolution(call: Call, reader: Reader) -> Sum | None:
    attrs, (data, weight) = call.attrs, call.args
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or attrs.data_layout))
    if layouts != ("NHWC", "OHWI", "NHWC") or not isinstance(weight, GenericConst):
        return None
    w = weight.value.numpy()
    top, left, bottom, right = integers(attrs.padding)
    zero = 0
    covered: tuple[tuple[Var, Call], ...] = ()
    pad = reader.single(data)
    if pad is not None and (border := _border(pad)) is not None and not (top or left or bottom or right):
        (top, bottom, left, right), zero = border
        covered, data = ((data, pad),), pad.args[0]
    groups, channels = int(attrs.groups), shape_of(data)[3]
    depthwise = groups == channels and (groups > 1 or w.shape[0] == 1)
    return Sum(
        kind="depthwise_conv2d" if depthwise else "conv2d",
        inputs=(data,),
        attributes={
            "weight": w,
            "strides": tuple(integers(attrs.strides)),
            "dilation": tuple(integers(attrs.dilation)),
            "padding": (top, left, bottom, right),
            "groups": groups,
            "input_zero_point": zero,
        },
        offset=zero * w.astype(np.int64).sum((1, 2, 3)),
        reach=_reach(data, zero, w, (1, 2, 3)),
        macs=math.prod(shape_of(call)) * w[0].size,
        covered=covered,
    )


def _border(pad: Call) -> tuple[tuple[int, int, int, int], int] | None:
    """Top, bottom, left and right of a constant padding of rows and columns alone, and its value."""
    if pad.op.name != "relax.nn.pad" or str(pad.attrs.pad_mode) != "constant" or len(shape_of(pad)) != 4:
        return None
    batch_before, batch_after, top, bottom, left, right, before, after = integers(pad.attrs.pad_width)
    if batch_before or batch_after or before or after or min(top, bottom, left, right) < 0:
        return None
    return (top, bottom, left, right), int(pad.attrs.pad_value)


def _linear(call: Call) -> Sum | None:
    data, weight = call.args
    if not isinstance(weight, GenericConst) or len(shape_of(weight)) != 2 or len(shape_of(data)) < 2:
        return None
    w = weight.value.numpy()
    return Sum(
        kind="linear",
        inputs=(data,),
        attributes={"weight": w},
        offset=np.zeros(1, np.int64),
        reach=_reach(data, 0, w, (0,)),
        macs=math.prod(shape_of(call)) * w.shape[0],
    )


def _matmul(call: Call, attrs: Mapping[str, Any]) -> Sum:
    a, b = call.args[1].fields
    zeros = (int(attrs["a_zero"]), int(attrs["b_zero"]))
    depth = shape_of(a)[-1]
    return Sum(
        kind="matmul",
        inputs=(a, b),
        attributes={"a_zero_point": zeros[0], "b_zero_point": zeros[1]},
        offset=np.zeros(1, np.int64),
        reach=depth * math.prod(_farthest(x, zero) for x, zero in zip((a, b), zeros, strict=True)),
        macs=math.prod(shape_of(call)) * depth,
    )


def _transposed(call: Call, attrs: Mapping[str, Any]) -> Sum:
    data, weight = call.args[1].fields
    w, zero = weight.value.numpy(), int(attrs["x_zero"])
    geometry = Geometry.read(shape_of(data), w.shape, {name: str(value) for name, value in attrs.items()})
    return Sum(
        kind="conv2d_transpose",
        inputs=(data,),
        attributes={
            "weight": w,
            "strides": tuple(geometry.strides),
            "padding": tuple(geometry.padding),
            "output_padding": tuple(geometry.output_padding),
            "dilation": tuple(geometry.dilation),
            "groups": geometry.groups,
            "input_zero_point": zero,
        },
        offset=np.zeros(1, np.int64),
        reach=_reach(data, zero, w, (1, 2, 3)),
        macs=math.prod(shape_of(data)) * w[..., 0].size,
    )


def _total(call: Call, reader: Reader) -> Sum | None:
    """A sum over axes of values that are widened first."""
    wide = call.args[0]
    cast = reader.single(wide)
    if cast is None or cast.op.name != "relax.astype":
        return None
    data = cast.args[0]
    rank = len(shape_of(data))
    axes = range(rank) if call.attrs.axis is None else [axis % rank for axis in integers(call.attrs.axis)]
    count = math.prod(shape_of(data)[axis] for axis in axes)
    return Sum(
        kind="reduce_sum",
        inputs=(data,),
        attributes={"axes": tuple(axes), "keepdims": bool(call.attrs.keepdims)},
        offset=np.zeros(1, np.int64),
        reach=count * _farthest(data, 0),
        macs=0,
        covered=((wide, cast),),
    )


def over_windows(total: Sum) -> bool:
    """Whether a sum is over rows and columns of images."""
    given, (data, *_) = total.attributes, total.inputs
    return "axes" not in given or (given["axes"] == (1, 2) and len(shape_of(data)) == 4)


def average_of(total: Sum, bias: Array) -> Sum:
    """The average that divides a sum over a window by how many of its elements are inside of the data.

    Args:
        total: A convolution by ones, or a sum over rows and columns.
        bias: What the graph adds to it: all that the zero point adds to a window.
    """
    (data,), given = total.inputs, total.attributes
    if total.kind == "reduce_sum":
        rows, columns = shape_of(data)[1:3]
        window = {"kernel": (rows, columns), "strides": (1, 1), "padding": (0, 0, 0, 0)}
    else:
        window = {
            "kernel": given["weight"].shape[1:3],
            "strides": given["strides"],
            "padding": given["padding"],
        }
    zero = -int(bias.flat[0]) // math.prod(window["kernel"])
    return replace(total, kind="average_pool2d", attributes={**window, "input_zero_point": zero})


def _reach(data: Expr, zero: int, weight: Array, summed: tuple[int, ...]) -> int:
    """The greatest |sum (x - zero) w| over all data."""
    return int(np.abs(weight.astype(np.int64)).sum(summed).max(initial=0)) * _farthest(data, zero)


def _farthest(data: Expr, zero: int) -> int:
    info = np.iinfo(str(data.ty.dtype))
    return max(zero - int(info.min), int(info.max) - zero)


def shape_of(expr: Expr) -> tuple[int, ...]:
    """The static shape of a tensor."""
    return tuple(int(dim) for dim in expr.ty.shape)


def integers(values: Sequence[ir.Expr]) -> list[int]:
    """Attributes of a call as Python integers."""
    return [int(value) for value in values]
