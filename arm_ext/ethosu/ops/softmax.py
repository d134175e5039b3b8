# SPDX-License-Identifier: Apache-2.0
"""Softmax, as the numerics `tosa` defines it: int32 operators around two tables of exponentials."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tosa_serializer as ts
from tvm.ir import Expr

from arm_ext.ethosu.ops.common.contract import Operation, Quirks, always, of_routine
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Array
from arm_ext.ethosu.ops.common.rescaling import scale_named
from arm_ext.ethosu.tosa.common import IGNORE_NAN, ONE, rescale, reshaped, widened
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor
from schedules.numerics.tosa import RescaleFactor, scale_of

_LEAST, _MOST = -128, 127
_LOW_BITS = 7
"""Number of low bits of a 15-bit exponential, which the second table holds."""

_MAX_RANK = 4
"""Largest rank of int32 tensors that Vela 5.2 compiles correctly for Ethos-U55 and U65."""


@dataclass(frozen=True, kw_only=True)
class SoftmaxTables(Attributes):
    """Attributes of a softmax.

    Attributes:
        axis: The normalised axis.
        exponentials: Table of exponentials, indexed by max - q.
        reciprocals: Table of first estimates of 1 / sum, indexed by the upper bits of the sum.
        scale: Scale of the result's RESCALE.
        zero_point: Zero point of the result.
    """

    axis: int
    exponentials: Array
    reciprocals: Array
    scale: RescaleFactor
    zero_point: int

    def zero_points(
        self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor
    ) -> Sequence[tuple[RunTimeTensor, int]]:
        """Return the result with its zero point."""
        return ((output, self.zero_point),)


def _attributes(given: Sequence[Expr], attrs: Mapping[str, Any]) -> SoftmaxTables:
    _, exponentials, reciprocals = given
    return SoftmaxTables(
        axis=int(attrs["axis"]),
        exponentials=exponentials.value.numpy(),
        reciprocals=reciprocals.value.numpy(),
        scale=scale_named(attrs, "y"),
        zero_point=int(attrs["y_zero_point"]),
    )


def emit(graph: TosaGraph, operator: Operator[SoftmaxTables], data: TosaTensor) -> TosaTensor:
    """Emit the steps of `schedules.numerics.tosa.softmax` one by one, under the same names."""
    given, axis = operator.attributes, operator.attributes.axis % len(data.shape)
    if len(data.shape) > _MAX_RANK:
        inner = math.prod(data.shape[axis + 1 :])
        flat = (math.prod(data.shape[:axis]), data.shape[axis], *((inner,) if inner > 1 else ()))
        data, axis = reshaped(graph, data, flat), 1
    one = tuple(1 if at == axis else size for at, size in enumerate(data.shape))
    e = _exponentials(graph, data, axis, given.exponentials)
    total = graph.add(ts.Op.REDUCE_SUM, [e], one, "int32", axis)
    zeros = graph.add(ts.Op.CLZ, [total], one, "int32")
    inverse = _inverse(graph, total, zeros, given.reciprocals)
    product = graph.add(ts.Op.MUL, [e, inverse, graph.scalar(0, "int8")], data.shape, "int32")
    down = graph.add(ts.Op.SUB, [_number(graph, 30, one), zeros], one, "int32")
    share = graph.add(ts.Op.ARITHMETIC_RIGHT_SHIFT, [product, down], data.shape, "int32", False)
    value = rescale(graph, share, given.scale, operator.output.dtype, zero_point=given.zero_point)
    return reshaped(graph, value, operator.output.shape)


def _exponentials(graph: TosaGraph, data: TosaTensor, axis: int, entries: Array) -> TosaTensor:
    """Emit e = exponentials[max - q] by two table look-ups, one for its upper and one for its lower bits."""
    one = tuple(1 if at == axis else size for at, size in enumerate(data.shape))
    top = graph.add(ts.Op.REDUCE_MAX, [data], one, data.dtype, axis, IGNORE_NAN)
    away = graph.add(ts.Op.SUB, [widened(graph, data, 0), widened(graph, top, 0)], data.shape, "int32")
    index = rescale(graph, away, ONE, "int8", zero_point=_MOST)
    # Index 127 stands for max - q = 0.
    by_index = entries[::-1]
    upper = _looked_up(graph, index, (by_index >> _LOW_BITS) + _LEAST, scale_of(1 << _LOW_BITS), _LEAST)
    lower = _looked_up(graph, index, by_index & ((1 << _LOW_BITS) - 1), ONE, 0)
    return graph.add(ts.Op.ADD, [upper, lower], data.shape, "int32")


def _inverse(graph: TosaGraph, total: TosaTensor, zeros: TosaTensor, entries: Array) -> TosaTensor:
    """Emit R of the definition, the reciprocal of the sum."""
    one = total.shape

    def combined(kind: Any, a: TosaTensor, b: TosaTensor, *attributes: Any) -> TosaTensor:
        shift = [graph.scalar(0, "int8")] if kind == ts.Op.MUL else []
        return graph.add(kind, [a, b, *shift], one, "int32", *attributes)

    def down(value: TosaTensor, bits: int) -> TosaTensor:
        return combined(ts.Op.ARITHMETIC_RIGHT_SHIFT, value, _number(graph, bits, one), False)

    up = combined(ts.Op.SUB, zeros, _number(graph, 1, one))
    n = combined(ts.Op.LOGICAL_LEFT_SHIFT, total, up)
    # Centred at 0, so that it fits into int8 after the shift.
    centred = combined(ts.Op.SUB, n, _number(graph, (1 << 30) + (1 << 29), one))
    index = rescale(graph, centred, scale_of(2.0**-22), "int8")
    r = _looked_up(graph, index, entries + _LEAST, ONE, _LEAST)
    product = combined(ts.Op.MUL, down(n, 15), r)
    missing = combined(ts.Op.SUB, _number(graph, 1 << 24, one), product)
    return down(combined(ts.Op.MUL, r, down(missing, 2)), 14)


def _looked_up(
    graph: TosaGraph, index: TosaTensor, entries: Array, scale: RescaleFactor, zero_point: int
) -> TosaTensor:
    """Emit TABLE with int8 entries, and RESCALE of (entry - zero_point) * scale to int32."""
    found = graph.add(ts.Op.TABLE, [index, graph.constant(entries.astype(np.int8))], index.shape, "int8")
    return rescale(graph, found, scale, "int32", input_zero_point=zero_point)


def _number(graph: TosaGraph, value: int, shape: Sequence[int]) -> TosaTensor:
    """Add an int32 constant of one element with the rank of a shape."""
    return graph.constant(np.full((1,) * len(shape), value, np.int32))


OPERATION: Operation[SoftmaxTables] = Operation(
    kinds=("softmax",),
    patterns={"tosa.softmax": of_routine("softmax", _attributes)},
    emit=emit,
    quirks=Quirks(rescales_apart=always, widens=always),
)
