# SPDX-License-Identifier: Apache-2.0
"""Matrix products with constant weights, as 1 x 1 CONV2D over the rows of the data."""

import math
from dataclasses import dataclass

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call, GenericConst

from arm_ext.ethosu.ops.common.contract import Operation, Quirks
from arm_ext.ethosu.ops.common.convolutions import convolved
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.ops.common.reading import Reader, reach_of, shape_of
from arm_ext.ethosu.ops.common.sums import (
    OF_WEIGHTED,
    AccumulatorRescale,
    PendingSum,
    Weighted,
    of_channels,
    requantized,
)
from arm_ext.ethosu.ops.common.windows import Window
from arm_ext.ethosu.tosa.common import reshaped
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class FullyConnected(Weighted):
    """Attributes of a product of data [..., K] and weights [N, K]."""


def parse(call: Call, _: Reader) -> PendingSum | None:
    """Parse a matrix product with a constant matrix [K, N]."""
    data, weight = call.args
    if not isinstance(weight, GenericConst) or len(shape_of(weight)) != 2 or len(shape_of(data)) < 2:
        return None
    w = weight.value.numpy()

    def attributes(requantization: AccumulatorRescale) -> FullyConnected:
        return FullyConnected(weight=np.ascontiguousarray(w.T), requantization=requantization)

    return PendingSum(
        kind="linear",
        inputs=(data,),
        attributes=attributes,
        offset=np.zeros(1, np.int64),
        reach=reach_of(data, 0, w, (0,)),
        macs=math.prod(shape_of(call)) * w.shape[0],
    )


def emit(graph: TosaGraph, operator: Operator[FullyConnected], data: TosaTensor) -> TosaTensor:
    """Emit 1 x 1 CONV2D over the rows of the data as an image [1, rows, 1, K]."""
    given, own = operator.attributes, operator.attributes.requantization
    out, depth = given.weight.shape
    rows = reshaped(graph, data, (1, math.prod(data.shape[:-1]), 1, depth))
    weight = given.weight.reshape(out, 1, 1, depth)
    acc = convolved(graph, ts.Op.CONV2D, rows, weight, of_channels(own.bias, out), Window((1, 1)))
    value = requantized(graph, acc, own, operator.output.dtype, of_channels(own.multiplier, out))
    return reshaped(graph, value, operator.output.shape)


OPERATION: Operation[FullyConnected] = Operation(
    kinds=("linear",),
    sums={"matmul": parse},
    constraints=OF_WEIGHTED,
    emit=emit,
    quirks=Quirks(reads_slices=True),
)
