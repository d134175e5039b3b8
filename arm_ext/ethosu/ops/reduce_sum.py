# SPDX-License-Identifier: Apache-2.0
"""Sums over axes: DEPTHWISE_CONV2D by ones for rows and columns of images, else one REDUCE_SUM per axis."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.contract import Operation, Quirks, always
from arm_ext.ethosu.ops.common.convolutions import MAX_AREA, MAX_ROWS, convolved
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.ops.common.reading import Reader, farthest, integers, shape_of
from arm_ext.ethosu.ops.common.sums import (
    OF_SUMS,
    AccumulatorRescale,
    PendingSum,
    SumAttributes,
    accumulators,
    of_channels,
    requantized,
)
from arm_ext.ethosu.ops.common.windows import Window
from arm_ext.ethosu.tosa.common import reshaped, widened
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class ReduceSum(SumAttributes):
    """Attributes of a sum over axes.

    Attributes:
        axes: The summed axes, counted from the first.
    """

    axes: tuple[int, ...]
    wide: ClassVar[bool] = False


def parse(call: Call, reader: Reader) -> PendingSum | None:
    """Parse a sum over axes together with the cast that widens its data."""
    wide = call.args[0]
    cast = reader.single(wide)
    if cast is None or cast.op.name != "relax.astype":
        return None
    data = cast.args[0]
    shape = shape_of(data)
    rank = len(shape)
    axes = tuple(range(rank) if call.attrs.axis is None else (a % rank for a in integers(call.attrs.axis)))
    count = math.prod(shape[axis] for axis in axes)

    def attributes(requantization: AccumulatorRescale) -> ReduceSum:
        return ReduceSum(axes=axes, requantization=requantization)

    return PendingSum(
        kind="reduce_sum",
        inputs=(data,),
        attributes=attributes,
        offset=np.zeros(1, np.int64),
        reach=count * farthest(data, 0),
        macs=0,
        covered=((wide, cast),),
        window=Window(shape[1:3]) if _over_images(axes, rank) else None,
    )


def _over_images(axes: tuple[int, ...], rank: int) -> bool:
    return axes == (1, 2) and rank == len("NHWC")


def emit(graph: TosaGraph, operator: Operator[ReduceSum], data: TosaTensor) -> TosaTensor:
    """Emit DEPTHWISE_CONV2D by ones for int8 images within its window limits; one REDUCE_SUM per axis otherwise."""
    axes, own = operator.attributes.axes, operator.attributes.requantization
    window = data.shape[1:3]
    images = _over_images(axes, len(data.shape)) and accumulators(data) == "int32"
    if images and max(window) <= MAX_ROWS and math.prod(window) <= MAX_AREA:
        channels = data.shape[3]
        ones, bias = np.ones((*window, channels, 1), np.int8), of_channels(own.bias, channels)
        acc = convolved(graph, ts.Op.DEPTHWISE_CONV2D, data, ones, bias, Window(window))
    else:
        acc = widened(graph, data, 0)
        # An axis of one element needs no sum; if Vela 5.2 removes such a sum itself, it confuses the tensor's
        # memory layout.
        for axis in (axis for axis in axes if data.shape[axis] > 1):
            shape = [1 if at == axis else size for at, size in enumerate(acc.shape)]
            acc = graph.add(ts.Op.REDUCE_SUM, [acc], shape, "int32", axis)
        if own.bias.any():
            offset = graph.constant(own.bias.astype(np.int32).reshape((1,) * len(data.shape)))
            acc = graph.add(ts.Op.ADD, [acc, offset], acc.shape, "int32")
    value = requantized(graph, acc, own, operator.output.dtype, own.multiplier.reshape(-1))
    return reshaped(graph, value, operator.output.shape)


OPERATION: Operation[ReduceSum] = Operation(
    kinds=("reduce_sum",),
    sums={"sum": parse},
    constraints=OF_SUMS,
    emit=emit,
    quirks=Quirks(rescales_apart=always, widens=always),
)
