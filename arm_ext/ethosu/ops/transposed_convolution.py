# SPDX-License-Identifier: Apache-2.0
"""Transposed 2D convolutions with constant weights: TRANSPOSE_CONV2D of one group, without dilation."""

import math
from dataclasses import dataclass

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.constraint import EARLIER, OF_8_BITS, SUPPORTED_OPS, TOSA, Constraint
from arm_ext.ethosu.ops.common.contract import Operation, Quirks, always
from arm_ext.ethosu.ops.common.convolutions import OF_KERNELS, ONE_GROUP, Convolved, operands, told_apart
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.ops.common.reading import Reader, reach_of, shape_of
from arm_ext.ethosu.ops.common.sums import (
    OF_WEIGHTED,
    AccumulatorRescale,
    PendingSum,
    Weighted,
    accumulators,
    of_channels,
    requantized,
)
from arm_ext.ethosu.ops.common.windows import Window
from arm_ext.ethosu.tosa.graph import DTYPES, TosaGraph, TosaTensor
from schedules.composites.transposed_convolution import Geometry


@dataclass(frozen=True, kw_only=True)
class TransposedConvolution(Weighted, Convolved):
    """Attributes of a transposed convolution with weights [O, KH, KW, I].

    Attributes:
        output_padding: Rows and columns after the last ones that a window writes.
    """

    output_padding: tuple[int, int]


def parse(call: Call, reader: Reader) -> PendingSum | None:
    """Parse the call of the routine `qdq.conv2d_transpose`, which computes the accumulators."""
    attrs = reader.routine(call)
    assert attrs is not None, call
    data, weight = call.args[1].fields
    w, zero = weight.value.numpy(), int(attrs["x_zero"])
    geometry = Geometry.read(shape_of(data), w.shape, {name: str(value) for name, value in attrs.items()})
    below, beside = geometry.output_padding

    def attributes(requantization: AccumulatorRescale) -> TransposedConvolution:
        return TransposedConvolution(
            weight=w,
            window=Window(
                w.shape[1:3], tuple(geometry.strides), tuple(geometry.dilation), tuple(geometry.padding)
            ),
            output_padding=(below, beside),
            groups=geometry.groups,
            input_zero_point=zero,
            requantization=requantization,
        )

    return PendingSum(
        kind="conv2d_transpose",
        inputs=(data,),
        attributes=attributes,
        offset=np.zeros(1, np.int64),
        reach=reach_of(data, zero, w, (1, 2, 3)),
        macs=math.prod(shape_of(data)) * w[..., 0].size,
    )


_UNDILATED: Constraint[TransposedConvolution] = Constraint(
    "TOSA's transposed convolution is not dilated", "(1, 1)", lambda op: op.attributes.window.dilation,
    lambda dilation: dilation == (1, 1), "no dilation", TOSA,
)  # fmt: skip
_STRIDES: Constraint[TransposedConvolution] = Constraint(
    "its strides are not supported", "(1, 1) or (2, 2)", lambda op: op.attributes.window.strides,
    lambda found: found in ((1, 1), (2, 2)), "strides of 1 or 2", SUPPORTED_OPS, EARLIER,
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[TransposedConvolution], data: TosaTensor) -> TosaTensor:
    """Emit TRANSPOSE_CONV2D."""
    given, own = operator.attributes, operator.attributes.requantization
    weight, (top, left, bottom, right) = given.weight, given.window.padding
    below, beside = given.output_padding
    out, bias = weight.shape[0], of_channels(own.bias, weight.shape[0])
    weight, rows = told_apart(graph, weight, bias, 1)
    inputs = operands(graph, data, weight, bias, given.input_zero_point)
    grown = [-top, below - bottom - rows, -left, beside - right]
    dtype, strides = accumulators(data), list(given.window.strides)
    shape = operator.output.shape
    acc = graph.add(ts.Op.TRANSPOSE_CONV2D, inputs, shape, dtype, grown, strides, False, DTYPES[dtype])
    return requantized(graph, acc, own, operator.output.dtype, of_channels(own.multiplier, out))


OPERATION: Operation[TransposedConvolution] = Operation(
    kinds=("conv2d_transpose",),
    sums={"qdq.conv2d_transpose": parse},
    constraints=(OF_8_BITS, *OF_WEIGHTED, *OF_KERNELS, ONE_GROUP, _UNDILATED, _STRIDES),
    emit=emit,
    quirks=Quirks(rescales_apart=always),
)
