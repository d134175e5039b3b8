# SPDX-License-Identifier: Apache-2.0
"""Functions of one or two tensors, element by element."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tosa_serializer as ts

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa.common import IGNORE_NAN, ONE, clamped, of_rank, rescale
from arm_ext.ethosu.tosa.graph import TosaGraph, Value
from schedules.numerics.tosa import Scale

_OPERATORS: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "add": (ts.Op.ADD, ()),
    "subtract": (ts.Op.SUB, ()),
    "multiply": (ts.Op.MUL, ()),
    "maximum": (ts.Op.MAXIMUM, (IGNORE_NAN,)),
    "minimum": (ts.Op.MINIMUM, (IGNORE_NAN,)),
}


def binary(graph: TosaGraph, operator: Operator, *data: Value) -> Value:
    """RESCALE of each operand, the operator, RESCALE of the result."""
    given, out, runtime = operator.attributes, operator.output, list(data)
    extremum = operator.kind in ("maximum", "minimum")
    dtype = out.dtype if extremum else "int32"
    operands = []
    for name in "ab":
        if name in given:
            array = given[name] + given["y_zero_point"] if extremum else given[name]
            value = graph.constant(array.astype(dtype))
        else:
            zero = given["y_zero_point"] if extremum else 0
            value = _rescaled(graph, runtime.pop(0), given, name, dtype, zero)
        operands.append(of_rank(graph, value, len(out.shape)))
    kind, attributes = _OPERATORS[operator.kind]
    shift = [graph.scalar(0, "int8")] if operator.kind == "multiply" else []
    value = graph.add(kind, [*operands, *shift], out.shape, dtype, *attributes)
    if not extremum:
        value = rescale(graph, value, _scale(given, "y"), out.dtype, zero_point=given["y_zero_point"])
    return clamped(graph, value, given)


def _rescaled(
    graph: TosaGraph, x: Value, given: Mapping[str, Any], name: str, dtype: str, zero_point: int
) -> Value:
    scale, own = _scale(given, name), given[f"{name}_zero_point"]
    if scale == ONE and own == zero_point and dtype == x.dtype:
        return x
    return rescale(graph, x, scale, dtype, input_zero_point=own, zero_point=zero_point)


def _scale(given: Mapping[str, Any], name: str) -> Scale:
    return Scale(given[f"{name}_multiplier"], given[f"{name}_shift"])


def table(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """TABLE of 256 entries."""
    entries = graph.constant(np.asarray(operator.attributes["table"]))
    return graph.add(ts.Op.TABLE, [data, entries], data.shape, operator.output.dtype)
