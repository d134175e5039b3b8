# SPDX-License-Identifier: Apache-2.0
"""Parsing of sums of products: convolutions, matrix products, and sums over axes."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from tvm.ir import Call, GenericConst

from arm_ext.ethosu.convolutions import convolution
from arm_ext.ethosu.reading import Array, Reader, Sum, farthest, integers, reach_of, shape_of
from schedules.composites.transposed_convolution import Geometry
from schedules.numerics.tosa.requantize import divisors


def sum_of(call: Call, reader: Reader) -> Sum | None:
    """Parse the sum that a call computes; None if the call is no known sum."""
    name = str(getattr(call.op, "name", ""))
    if name in ("relax.nn.conv2d", "relax.nn.conv3d"):
        return convolution(call, reader)
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
        reach=reach_of(data, 0, w, (0,)),
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
        reach=depth * math.prod(farthest(x, zero) for x, zero in zip((a, b), zeros, strict=True)),
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
        reach=reach_of(data, zero, w, (1, 2, 3)),
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
        reach=count * farthest(data, 0),
        macs=0,
        covered=((wide, cast),),
    )


def over_windows(total: Sum) -> bool:
    """Whether a sum is over rows and columns of images."""
    given, (data, *_) = total.attributes, total.inputs
    return "axes" not in given or (given["axes"] == (1, 2) and len(shape_of(data)) == 4)


def counts_padding(total: Sum, multiplier: Array) -> bool:
    """Whether an average divides by the whole window where part of the window is padding."""
    given = total.attributes
    if not any(given.get("padding", ())):
        return False
    whole, _ = divisors(np.array([math.prod(given["weight"].shape[1:-1])], np.float32))
    return bool((multiplier == whole).all())


def average_of(total: Sum, bias: Array) -> Sum:
    """Return a windowed sum as an average that divides by the number of elements inside the data.

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
    first = given.get("channels_first", False)
    attributes = {**window, "input_zero_point": zero, "channels_first": first}
    return replace(total, kind="average_pool2d", attributes=attributes)
