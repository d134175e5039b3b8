# SPDX-License-Identifier: Apache-2.0
"""2D convolutions with constant weights: CONV2D and DEPTHWISE_CONV2D.

    requantize(conv2d(pad(x, zp), W) + offset)    →    a convolution with padding whose data has zp subtracted

A border of zp is a border of zeros once zp is subtracted from the data; the bias makes up for the subtraction. TOSA has
no groups: a grouped convolution becomes one CONV2D per group. The multipliers of a depthwise convolution may differ by
position, as for an average that divides by fewer elements at the borders: outputs that share a multiplier are computed
by one convolution, and CONCAT joins these areas. There are at most nine areas (corners, edges, middle) if the padding
is no larger than the stride.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call, GenericConst, Var

from arm_ext.ethosu.ops.common.constraint import EARLIER, MEASURED, SUPPORTED_OPS, Constraint, at_most
from arm_ext.ethosu.ops.common.contract import Operation, Quirks
from arm_ext.ethosu.ops.common.convolutions import MAX_DILATION, OF_KERNELS, Convolved, convolved, layout_of
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.ops.common.reading import Array, Reader, integers, reach_of, shape_of
from arm_ext.ethosu.ops.common.sums import (
    OF_WEIGHTED,
    AccumulatorRescale,
    PendingSum,
    Weighted,
    of_channels,
    requantized,
)
from arm_ext.ethosu.ops.common.windows import MAX_STRIDE, Window, over_images
from arm_ext.ethosu.tosa.common import joined, sliced
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class Convolution(Weighted, Convolved):
    """Attributes of a convolution with weights [O, KH, KW, I], or [O, KD, KH, KW, I]."""


def parse(call: Call, reader: Reader) -> PendingSum | None:
    """Parse a convolution with two or three spatial axes, NCHW or NHWC, together with the pad that it reads."""
    attrs, (data, weight) = call.attrs, call.args
    layout = layout_of(call)
    if layout is None or not isinstance(weight, GenericConst):
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
    window = Window(w.shape[1:-1], tuple(integers(attrs.strides)), tuple(integers(attrs.dilation)), padding)

    def attributes(requantization: AccumulatorRescale) -> Convolution:
        return Convolution(
            weight=w,
            window=window,
            groups=groups,
            input_zero_point=zero,
            channels_first=first,
            requantization=requantization,
        )

    return PendingSum(
        kind=_kind(w.ndim, groups, channels, w.shape[0]),
        inputs=(data,),
        attributes=attributes,
        offset=zero * w.astype(np.int64).sum(tuple(range(1, w.ndim))),
        reach=reach_of(data, zero, w, tuple(range(1, w.ndim))),
        macs=math.prod(shape_of(call)) * w[0].size,
        covered=covered,
        channels_first=first,
        window=window if len(window.kernel) == len("HW") else None,
    )


def _kind(rank: int, groups: int, channels: int, out: int) -> str:
    if rank == len("NDHWC"):
        return "conv3d"
    return "depthwise_conv2d" if groups == channels and (groups > 1 or out == 1) else "conv2d"


def _border(pad: Call, layout: str) -> tuple[tuple[int, ...], int] | None:
    """Return the widths of a constant pad before, then after the spatial axes, and its value; None for other pads."""
    if pad.op.name != "relax.nn.pad" or str(pad.attrs.pad_mode) != "constant":
        return None
    widths = integers(pad.attrs.pad_width)
    before, after = widths[::2], widths[1::2]
    spatial = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    others = [axis for axis in range(len(layout)) if axis not in spatial]
    if len(before) != len(layout) or min(widths) < 0 or any(before[axis] or after[axis] for axis in others):
        return None
    return tuple(side[axis] for side in (before, after) for axis in spatial), int(pad.attrs.pad_value)


def _greatest_stride(operator: Operator[Convolution]) -> int:
    return max(operator.attributes.window.strides)


def _stride_in_place(operator: Operator[Convolution]) -> int:
    """Return the largest stride; 1 for windows without padding and dilation, whose data can be gathered first."""
    window = operator.attributes.window
    return 1 if not any(window.padding) and set(window.dilation) == {1} else max(window.strides)


def _blind_dilation(operator: Operator[Convolution]) -> int:
    """Return the largest dilation along an axis with a tap that only ever reads padding; 1 if there is no such tap.

    Vela compiles windows with a stride above 3 one by one: there, a tap counts if it reads padding in one window.
    """
    found, window = 1, operator.attributes.window
    sides = zip(window.sides, operator.inputs[0].shape[1:3], operator.output.shape[1:3], strict=True)
    for axis, ((before, _), size, outputs) in enumerate(sides):
        seen = np.arange(outputs) * window.strides[axis] - before
        places = seen + window.dilation[axis] * np.arange(window.kernel[axis])[:, None]
        inside = (places >= 0) & (places < size)
        seeing = inside.all(axis=1) if window.strides[axis] > MAX_STRIDE else inside.any(axis=1)
        if not seeing.all():
            found = max(found, window.dilation[axis])
    return found


GREAT_STRIDE: Constraint[Convolution] = Constraint(
    "its stride is too great", f"at most {MAX_STRIDE}, but without padding and dilation", _stride_in_place,
    at_most(MAX_STRIDE), "no padding, or a smaller stride", SUPPORTED_OPS, EARLIER,
)  # fmt: skip
_GREAT_STRIDE_DEPTHWISE: Constraint[Convolution] = Constraint(
    "its stride is too great", f"at most {MAX_STRIDE}", _greatest_stride, at_most(MAX_STRIDE), "a smaller stride",
    SUPPORTED_OPS, EARLIER,
)  # fmt: skip
_BLIND_TAPS: Constraint[Convolution] = Constraint(
    "a tap of its dilated window only reads padding", f"a dilation of at most {MAX_DILATION}", _blind_dilation,
    at_most(MAX_DILATION), "less padding", MEASURED,
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[Convolution], data: TosaTensor) -> TosaTensor:
    """Emit one CONV2D per group."""
    padding = operator.attributes.window.padding
    return over_images(graph, data, padding, lambda image: _emit_groups(graph, operator, image))


def _emit_groups(graph: TosaGraph, operator: Operator[Convolution], data: TosaTensor) -> TosaTensor:
    given = operator.attributes
    weight, groups = given.weight, given.groups
    multiplier = of_channels(given.requantization.multiplier, weight.shape[0])
    bias = of_channels(given.requantization.bias, weight.shape[0])
    depth, out = weight.shape[3], weight.shape[0] // groups
    parts = []
    for group in range(groups):
        start = [0, 0, 0, group * depth]
        part = sliced(graph, data, start, (*data.shape[:3], depth)) if groups > 1 else data
        own = slice(group * out, (group + 1) * out)
        zero = given.input_zero_point
        acc = convolved(graph, ts.Op.CONV2D, part, weight[own], bias[own], given.window, zero)
        parts.append(requantized(graph, acc, given.requantization, operator.output.dtype, multiplier[own]))
    return joined(graph, parts, 3)


def emit_depthwise(graph: TosaGraph, operator: Operator[Convolution], data: TosaTensor) -> TosaTensor:
    """Emit DEPTHWISE_CONV2D of any channel multiplier, once per area of outputs that share a RESCALE multiplier."""
    padding = operator.attributes.window.padding
    return over_images(graph, data, padding, lambda image: _by_area(graph, operator, image, _emit_depthwise))


def _emit_depthwise(graph: TosaGraph, operator: Operator[Convolution], data: TosaTensor) -> TosaTensor:
    given, own = operator.attributes, operator.attributes.requantization
    channels = data.shape[3]
    out, rows, columns, _ = given.weight.shape
    weight = given.weight.reshape(channels, out // channels, rows, columns).transpose(2, 3, 0, 1)
    bias = of_channels(own.bias, out)
    acc = convolved(graph, ts.Op.DEPTHWISE_CONV2D, data, weight, bias, given.window, given.input_zero_point)
    return requantized(graph, acc, own, operator.output.dtype, of_channels(own.multiplier, out))


_Emitter = Callable[[TosaGraph, Operator[Convolution], TosaTensor], TosaTensor]


def _by_area(
    graph: TosaGraph, operator: Operator[Convolution], data: TosaTensor, emitter: _Emitter
) -> TosaTensor:
    """Emit an operator for each area of outputs that share a multiplier, and concatenate the results."""
    multiplier = operator.attributes.requantization.multiplier
    if not (multiplier.ndim == 4 and multiplier.shape[0] == multiplier.shape[3] == 1 < multiplier.size):
        return emitter(graph, operator, data)
    by_place = np.broadcast_to(multiplier[0, :, :, 0], operator.output.shape[1:3])
    rows = [
        joined(
            graph,
            [emitter(graph, *_area(graph, operator, data, (span, across))) for across in _spans(by_place.T)],
            2,
        )
        for span in _spans(by_place)
    ]
    return joined(graph, rows, 1)


def _spans(lines: Array) -> list[tuple[int, int]]:
    """Return the runs of equal lines as (first, one past the last)."""
    cuts = 1 + np.flatnonzero((lines[1:] != lines[:-1]).any(axis=1))
    ends = [0, *cuts.tolist(), len(lines)]
    return list(pairwise(ends))


def _area(
    graph: TosaGraph, operator: Operator[Convolution], data: TosaTensor, spans: Sequence[tuple[int, int]]
) -> tuple[Operator[Convolution], TosaTensor]:
    """Return the operator and the data of the area of outputs in these rows and columns."""
    given, window = operator.attributes, operator.attributes.window
    start, size, before, after = [0] * 4, list(data.shape), [], []
    for axis, (first, last) in enumerate(spans):
        taps, stride, lead = window.kernel[axis], window.strides[axis], window.padding[axis]
        begin = first * stride - lead
        end = (last - 1) * stride - lead + (taps - 1) * window.dilation[axis] + 1
        extent = data.shape[1 + axis]
        before.append(max(-begin, 0))
        after.append(max(end - extent, 0))
        start[1 + axis] = max(begin, 0)
        size[1 + axis] = min(end, extent) - start[1 + axis]
    (top, _), (left, _) = spans
    multiplier = given.requantization.multiplier
    rows, columns = multiplier.shape[1:3]
    scale = np.array([multiplier[0, min(top, rows - 1), min(left, columns - 1), 0]])
    own = replace(
        given,
        window=replace(window, padding=(*before, *after)),
        requantization=replace(given.requantization, multiplier=scale),
    )
    return replace(operator, attributes=own), sliced(graph, data, start, size)


CONV2D: Operation[Convolution] = Operation(
    kinds=("conv2d",),
    sums={"nn.conv2d": parse},
    constraints=(*OF_WEIGHTED, *OF_KERNELS, GREAT_STRIDE, _BLIND_TAPS),
    emit=emit,
    quirks=Quirks(reads_slices=True),
)
DEPTHWISE: Operation[Convolution] = Operation(
    kinds=("depthwise_conv2d",),
    constraints=(*OF_WEIGHTED, *OF_KERNELS, _GREAT_STRIDE_DEPTHWISE, _BLIND_TAPS),
    emit=emit_depthwise,
    quirks=Quirks(reads_slices=True),
)
