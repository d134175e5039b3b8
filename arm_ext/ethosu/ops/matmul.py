# SPDX-License-Identifier: Apache-2.0
"""Products of two run-time matrices: MATMUL, RESCALE and CLAMP."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.constraint import OF_8_BITS, TOSA, Constraint, input_dtypes
from arm_ext.ethosu.ops.common.contract import Operation, Quirks
from arm_ext.ethosu.ops.common.operators import Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Reader, farthest, shape_of
from arm_ext.ethosu.ops.common.sums import (
    OF_SUMS,
    AccumulatorRescale,
    PendingSum,
    SumAttributes,
    accumulators,
    requantized,
)
from arm_ext.ethosu.tosa.common import of_rank, reshaped, tiled
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class MatMul(SumAttributes):
    """Attributes of a product of [..., M, K] and [..., K, N].

    Attributes:
        a_zero_point: Zero point of the first operand.
        b_zero_point: Zero point of the second operand.
    """

    a_zero_point: int
    b_zero_point: int

    def zero_points(
        self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor
    ) -> Sequence[tuple[RunTimeTensor, int]]:
        """Return both operands and the result, each with its zero point."""
        a, b = inputs
        return (output, self.requantization.zero_point), (a, self.a_zero_point), (b, self.b_zero_point)


def parse(call: Call, reader: Reader) -> PendingSum | None:
    """Parse the call of the routine `qdq.matmul`, which computes the accumulators."""
    attrs = reader.routine(call)
    assert attrs is not None, call
    a, b = call.args[1].fields
    zeros = (int(attrs["a_zero"]), int(attrs["b_zero"]))
    depth = shape_of(a)[-1]

    def attributes(requantization: AccumulatorRescale) -> MatMul:
        return MatMul(a_zero_point=zeros[0], b_zero_point=zeros[1], requantization=requantization)

    return PendingSum(
        kind="matmul",
        inputs=(a, b),
        attributes=attributes,
        offset=np.zeros(1, np.int64),
        reach=depth * math.prod(farthest(x, zero) for x, zero in zip((a, b), zeros, strict=True)),
        macs=math.prod(shape_of(call)) * depth,
    )


_ONE_TYPE: Constraint[MatMul] = Constraint(
    "its operands have different types", "one type", input_dtypes, lambda found: len(found) == 1,
    "quantise both alike", TOSA,
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[MatMul], a: TosaTensor, b: TosaTensor) -> TosaTensor:
    """Emit MATMUL; a broadcast operand is tiled, or, if b is one matrix, all rows of a are multiplied at once."""
    given = operator.attributes
    left, right = _batches(graph, operator.output.shape[:-2], a, b)
    zeros = [graph.scalar(given.a_zero_point, a.dtype), graph.scalar(given.b_zero_point, b.dtype)]
    shape = (left.shape[0], left.shape[1], right.shape[2])
    acc = graph.add(ts.Op.MATMUL, [left, right, *zeros], shape, accumulators(a))
    own = given.requantization
    value = requantized(graph, acc, own, operator.output.dtype, own.multiplier)
    return reshaped(graph, value, operator.output.shape)


def _batches(
    graph: TosaGraph, leading: Sequence[int], a: TosaTensor, b: TosaTensor
) -> tuple[TosaTensor, TosaTensor]:
    """Return both operands reshaped to rank 3 with equal batch sizes."""
    if math.prod(b.shape[:-2]) == 1:
        rows = reshaped(graph, a, (1, math.prod(a.shape[:-1]), a.shape[-1]))
        return rows, reshaped(graph, b, (1, *b.shape[-2:]))
    count = math.prod(leading)
    left, right = (
        reshaped(
            graph,
            tiled(graph, of_rank(graph, x, len(leading) + 2), (*leading, *x.shape[-2:])),
            (count, *x.shape[-2:]),
        )
        for x in (a, b)
    )
    return left, right


OPERATION: Operation[MatMul] = Operation(
    kinds=("matmul",),
    sums={"qdq.matmul": parse},
    constraints=(_ONE_TYPE, OF_8_BITS, *OF_SUMS),
    emit=emit,
    quirks=Quirks(joins_all=True),
)
