# SPDX-License-Identifier: Apache-2.0
"""Convolutions of two and three dimensions, in either layout, as sums of products.

    conv2d(pad(x, zp), W)    →    a convolution with padding whose data has zp subtracted

A border that holds zp is one of zeros once zp is subtracted; what that takes off each sum goes back into the bias.
"""

import math

import numpy as np
from tvm.ir import Call, GenericConst, Var

from arm_ext.ethosu.reading import Reader, Sum, integers, reach_of, shape_of

# The layout of the weights that goes with one of the data.
_KERNEL_LAYOUTS = {"NHWC": "OHWI", "NCHW": "OIHW", "NDHWC": "ODHWI", "NCDHW": "OIDHW"}


def convolution(call: Call, reader: Reader) -> Sum | None:
    """A convolution with constant weights."""
    attrs, (data, weight) = call.attrs, call.args
    layout = str(attrs.data_layout)
    known = (_KERNEL_LAYOUTS.get(layout), layout)
    if (str(attrs.kernel_layout), str(attrs.out_layout or layout)) != known:
        return None
    if not isinstance(weight, GenericConst):
        return None
    first = layout[1] == "C"
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
