# SPDX-License-Identifier: Apache-2.0
"""Parsing of convolutions with two or three spatial dimensions, in either layout.

    conv2d(pad(x, zp), W)    →    a convolution with padding whose data has zp subtracted

A border that holds zp is one of zeros once zp is subtracted; what that takes off each sum goes back into the bias.
"""

import math

import numpy as np
from tvm.ir import Call, Expr, GenericConst, Var

from arm_ext.ethosu.reading import Reader, Sum, farthest, integers, reach_of, shape_of

# The layout of the weights that goes with one of the data.
_KERNEL_LAYOUTS = {"NHWC": "OHWI", "NCHW": "OIHW", "NDHWC": "ODHWI", "NCDHW": "OIDHW"}


def convolution(call: Call, reader: Reader) -> Sum | None:
    """Parse a convolution; one with run-time weights has two spatial dimensions."""
    attrs, (data, weight) = call.attrs, call.args
    layout = str(attrs.data_layout)
    known = (_KERNEL_LAYOUTS.get(layout), layout)
    if (str(attrs.kernel_layout), str(attrs.out_layout or layout)) != known:
        return None
    first = layout[1] == "C"
    if not isinstance(weight, GenericConst):
        return _of_run_time(call, reader) if layout in ("NHWC", "NCHW") else None
    w = weight.value.numpy()
    w = np.ascontiguousarray(np.moveaxis(w, 1, -1)) if first else w
    padding, zero = tuple(integers(attrs.padding)), 0
    covered: tuple[tuple[Var, Call], ...] = ()
    pad = reader.single(data)
    if pad is not None and not any(padding) and (border := _border(pad, layout)) is not None:
        padding, zero = border
        covered, data = ((data, pad),), pad.args[0]
    groups, channels = int(attrs.groups), shape_of(data)[layout.index("C")]
    return Sum(
        kind=_kind(w.ndim, groups, channels, w.shape[0]),
        inputs=(data,),
        attributes={
            "weight": w,
            "strides": tuple(integers(attrs.strides)),
            "dilation": tuple(integers(attrs.dilation)),
            "padding": padding,
            "groups": groups,
            "input_zero_point": zero,
            "channels_first": first,
        },
        offset=zero * w.astype(np.int64).sum(tuple(range(1, w.ndim))),
        reach=reach_of(data, zero, w, tuple(range(1, w.ndim))),
        macs=math.prod(shape_of(call)) * w[0].size,
        covered=covered,
    )


def _of_run_time(call: Call, reader: Reader) -> Sum | None:
    """A convolution of two tensors that are widened, and less their zero points, first."""
    attrs, operands = call.attrs, [_centred(arg, reader) for arg in call.args]
    if None in operands:
        return None
    (data, zero, of_data), (weight, weight_zero, of_weight) = (found for found in operands if found)
    taps = math.prod(shape_of(weight)[1:])
    return Sum(
        kind="run_time_conv2d",
        inputs=(data, weight),
        attributes={
            "strides": tuple(integers(attrs.strides)),
            "dilation": tuple(integers(attrs.dilation)),
            "padding": tuple(integers(attrs.padding)),
            "groups": int(attrs.groups),
            "input_zero_point": zero,
            "weight_zero_point": weight_zero,
            "channels_first": str(attrs.data_layout) == "NCHW",
        },
        offset=np.zeros(1, np.int64),
        reach=taps * farthest(data, zero) * farthest(weight, weight_zero),
        macs=math.prod(shape_of(call)) * taps,
        covered=(*of_data, *of_weight),
    )


def _centred(wide: Expr, reader: Reader) -> tuple[Expr, int, tuple[tuple[Var, Call], ...]] | None:
    """What a tensor widens, the zero point that it takes off, and the calls that do; None of any other tensor."""
    call, zero = reader.single(wide), 0
    if call is None:
        return None
    covered: tuple[tuple[Var, Call], ...] = ((wide, call),)
    if call.op.name == "relax.subtract" and isinstance(call.args[1], GenericConst):
        zero, inner = int(call.args[1].value.numpy()), call.args[0]
        call = reader.single(inner)
        if call is None:
            return None
        covered = ((inner, call), *covered)
    return (call.args[0], zero, covered) if call.op.name == "relax.astype" else None


def _kind(rank: int, groups: int, channels: int, out: int) -> str:
    if rank == len("NDHWC"):
        return "conv3d"
    return "depthwise_conv2d" if groups == channels and (groups > 1 or out == 1) else "conv2d"


def _border(pad: Call, layout: str) -> tuple[tuple[int, ...], int] | None:
    """What a constant padding puts before, then after, the spatial axes, if it is of them alone; and its value."""
    if pad.op.name != "relax.nn.pad" or str(pad.attrs.pad_mode) != "constant":
        return None
    widths = integers(pad.attrs.pad_width)
    before, after = widths[::2], widths[1::2]
    spatial = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    others = [axis for axis in range(len(layout)) if axis not in spatial]
    if len(before) != len(layout) or min(widths) < 0 or any(before[axis] or after[axis] for axis in others):
        return None
    return tuple(side[axis] for side in (before, after) for axis in spatial), int(pad.attrs.pad_value)
