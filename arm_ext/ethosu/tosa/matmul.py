# SPDX-License-Identifier: Apache-2.0
"""Emission of products of two run-time matrices: MATMUL, RESCALE and CLAMP."""

import math
from collections.abc import Sequence

import tosa_serializer as ts

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa.common import of_rank, reshaped, tiled
from arm_ext.ethosu.tosa.graph import TosaGraph, Value
from arm_ext.ethosu.tosa.products import accumulators, requantized


def matmul(graph: TosaGraph, operator: Operator, a: Value, b: Value) -> Value:
    """Emit a product of two run-time tensors; a broadcast operand is repeated, or multiplied by all rows at once."""
    given = operator.attributes
    left, right = _batches(graph, operator.output.shape[:-2], a, b)
    zeros = [graph.scalar(given["a_zero_point"], a.dtype), graph.scalar(given["b_zero_point"], b.dtype)]
    shape = (left.shape[0], left.shape[1], right.shape[2])
    acc = graph.add(ts.Op.MATMUL, [left, right, *zeros], shape, accumulators(a))
    value = requantized(graph, acc, given, operator.output.dtype, given["multiplier"])
    return reshaped(graph, value, operator.output.shape)


def _batches(graph: TosaGraph, leading: Sequence[int], a: Value, b: Value) -> tuple[Value, Value]:
    """The operands as as many matrices each."""
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
