# SPDX-License-Identifier: Apache-2.0
"""Splits of a tensor: each result is one operator, SLICE."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm.ir import Call, Expr, TupleGetItem, Var

from arm_ext.ethosu.ops.common.contract import ITEM, Operation, Quirks, operator_of
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.ops.common.reading import Reader, integers, name_of, shape_of
from arm_ext.ethosu.tosa.common import sliced
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class Split(Attributes):
    """Attributes of a part of a split.

    Attributes:
        axis: The split axis, counted from the first.
        start: First element of the part along the axis.
    """

    axis: int
    start: int


def parse(var: Var, value: Expr, reader: Reader) -> Operator[Split] | None:
    """Parse an item of a split's result; the binding of the split is part of each item's operator."""
    assert isinstance(value, TupleGetItem), value
    split = reader.value(value.tuple_value)
    if not isinstance(split, Call) or name_of(split) != "split":
        return None
    given = Split(axis=int(split.attrs.axis) % len(shape_of(split.args[0])), start=_start(split, value.index))
    found = operator_of("split", var, split, given, [split.args[0]])
    return replace(found, bindings=(value.tuple_value, var))


def _start(split: Call, index: int) -> int:
    sections, shape = split.attrs.indices_or_sections, shape_of(split.args[0])
    if isinstance(sections, Sequence) or hasattr(sections, "__len__"):
        return [0, *integers(sections)][index]
    return int(index) * math.ceil(shape[int(split.attrs.axis)] / int(sections))


def emit(graph: TosaGraph, operator: Operator[Split], data: TosaTensor) -> TosaTensor:
    """Emit SLICE."""
    start = [0] * len(data.shape)
    start[operator.attributes.axis] = operator.attributes.start
    return sliced(graph, data, start, operator.output.shape)


OPERATION: Operation[Split] = Operation(
    kinds=("split",), patterns={ITEM: parse}, emit=emit, quirks=Quirks(reads_slices=True)
)
