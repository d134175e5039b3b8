# SPDX-License-Identifier: Apache-2.0
"""Convolutions with weights that are computed at run time: CONV2D that Vela compiles as matrix products, for Ethos-U85.

requantize(conv2d(widen(x) - zx, widen(w) - zw) + offset)    →    CONV2D with both zero points
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call, Expr, GenericConst, Var

from arm_ext.ethosu.ops.common.constraint import EARLIER, SUPPORTED_OPS, TOSA, Constraint
from arm_ext.ethosu.ops.common.contract import Operation, Quirks, always
from arm_ext.ethosu.ops.common.convolutions import OF_KERNELS, ONE_GROUP, Convolved, layout_of, placed
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.ops.common.reading import Reader, farthest, integers, shape_of
from arm_ext.ethosu.ops.common.sums import (
    OF_SUMS,
    AccumulatorRescale,
    PendingSum,
    accumulators,
    biases,
    of_channels,
    requantized,
)
from arm_ext.ethosu.ops.common.windows import Window, over_images
from arm_ext.ethosu.tosa.graph import DTYPES, TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class RunTimeConvolution(Convolved):
    """Attributes of a convolution of data and weights [O, KH, KW, I].

    Attributes:
        weight_zero_point: Zero point of the weights.
    """

    weight_zero_point: int


def parse(call: Call, reader: Reader) -> PendingSum | None:
    """Parse a convolution of two run-time tensors, together with the casts and zero points before it."""
    attrs, layout = call.attrs, layout_of(call)
    if layout not in ("NHWC", "NCHW") or isinstance(call.args[1], GenericConst):
        return None
    operands = [_centred(arg, reader) for arg in call.args]
    if None in operands:
        return None
    (data, zero, of_data), (weight, weight_zero, of_weight) = (found for found in operands if found)
    first, taps = layout == "NCHW", math.prod(shape_of(weight)[1:])
    kernel = shape_of(weight)[2:4] if first else shape_of(weight)[1:3]
    steps: Sequence[Sequence[Expr]] = (attrs.strides, attrs.dilation, attrs.padding)
    window = Window(kernel, *(tuple(integers(step)) for step in steps))

    def attributes(requantization: AccumulatorRescale) -> RunTimeConvolution:
        return RunTimeConvolution(
            window=window,
            groups=int(attrs.groups),
            input_zero_point=zero,
            weight_zero_point=weight_zero,
            channels_first=first,
            requantization=requantization,
        )

    return PendingSum(
        kind="run_time_conv2d",
        inputs=(data, weight),
        attributes=attributes,
        offset=np.zeros(1, np.int64),
        reach=taps * farthest(data, zero) * farthest(weight, weight_zero),
        macs=math.prod(shape_of(call)) * taps,
        covered=(*of_data, *of_weight),
        channels_first=first,
    )


def _centred(wide: Expr, reader: Reader) -> tuple[Expr, int, tuple[tuple[Var, Call], ...]] | None:
    """Parse astype(x) or astype(x) - zero; returns x, the zero point and the covered calls, or None."""
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


_CONSTANT: Constraint[RunTimeConvolution] = Constraint(
    "its weights are computed at run time", "constants, or Ethos-U85", lambda _: "run time", lambda _: False,
    "make them constants", SUPPORTED_OPS, EARLIER,
)  # fmt: skip
_WEIGHTS_OF_8_BITS: Constraint[RunTimeConvolution] = Constraint(
    "its weights are not of 8 bits", "int8", lambda op: op.inputs[1].dtype, lambda found: found == "int8",
    "quantise them to int8", TOSA, ("u85",),
)  # fmt: skip


def emit(
    graph: TosaGraph, operator: Operator[RunTimeConvolution], data: TosaTensor, weight: TosaTensor
) -> TosaTensor:
    """Emit CONV2D of one group with run-time weights."""
    given, own = operator.attributes, operator.attributes.requantization

    def windows(image: TosaTensor) -> TosaTensor:
        kept, size, pads = placed(graph, image, given.window)
        dtype, channels = accumulators(kept), weight.shape[0]
        zeros = [given.input_zero_point, given.weight_zero_point]
        inputs = [kept, weight, biases(graph, of_channels(own.bias, channels), dtype)]
        inputs += [graph.scalar(zero, value.dtype) for zero, value in zip(zeros, inputs, strict=False)]
        steps = [
            [pad for pair in pads for pad in pair],
            list(given.window.strides),
            list(given.window.dilation),
        ]
        shape = (kept.shape[0], *size, channels)
        acc = graph.add(ts.Op.CONV2D, inputs, shape, dtype, *steps, False, DTYPES[dtype])
        return requantized(graph, acc, own, operator.output.dtype, of_channels(own.multiplier, channels))

    return over_images(graph, data, given.window.padding, windows)


OPERATION: Operation[RunTimeConvolution] = Operation(
    kinds=("run_time_conv2d",),
    sums={"nn.conv2d": parse},
    constraints=(*OF_SUMS, _CONSTANT, _WEIGHTS_OF_8_BITS, *OF_KERNELS, ONE_GROUP),
    emit=emit,
    quirks=Quirks(rescales_apart=always, joins_all=True),
)
