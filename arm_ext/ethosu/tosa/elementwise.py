# SPDX-License-Identifier: Apache-2.0
"""Emission of elementwise functions of one or two tensors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tosa_serializer as ts

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa.common import IGNORE_NAN, clamped, looked_up, of_rank, rescale
from arm_ext.ethosu.tosa.graph import TosaGraph, Value
from schedules.numerics.tosa import Scale, scale_of

_OPERATORS: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "add": (ts.Op.ADD, ()),
    "subtract": (ts.Op.SUB, ()),
    "multiply": (ts.Op.MUL, ()),
    "maximum": (ts.Op.MAXIMUM, (IGNORE_NAN,)),
    "minimum": (ts.Op.MINIMUM, (IGNORE_NAN,)),
}


def binary(graph: TosaGraph, operator: Operator, *data: Value) -> Value:
    """Emit RESCALE of each operand, the operator on int32, and RESCALE of the result.

    The definition saturates the operands of a maximum or minimum; to saturate the result is the same.
    """
    given, out, runtime = operator.attributes, operator.output, list(data)
    operands = []
    for name in "ab":
        if name in given:
            value = graph.constant(given[name].astype(np.int32))
        else:
            zero_point = given[f"{name}_zero_point"]
            value = rescale(graph, runtime.pop(0), _scale(given, name), "int32", input_zero_point=zero_point)
        operands.append(of_rank(graph, value, len(out.shape)))
    kind, attributes = _OPERATORS[operator.kind]
    shift = [graph.scalar(0, "int8")] if operator.kind == "multiply" else []
    value = graph.add(kind, [*operands, *shift], out.shape, "int32", *attributes)
    value = rescale(graph, value, _scale(given, "y"), out.dtype, zero_point=given["y_zero_point"])
    return clamped(graph, value, given)


def _scale(given: Mapping[str, Any], name: str) -> Scale:
    return Scale(given[f"{name}_multiplier"], given[f"{name}_shift"])


def table(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """Emit TABLE with 256 entries, or TABLE with 513 entries and RESCALE."""
    given = operator.attributes
    found = looked_up(graph, data, graph.constant(np.asarray(given["table"])))
    if data.dtype != "int16":
        return found
    scale = scale_of(2.0 ** -given["shift"])
    return rescale(graph, found, scale, operator.output.dtype, zero_point=given["y_zero_point"])


def restepped(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """Emit RESCALE and CLAMP."""
    given = operator.attributes
    zeros = {"input_zero_point": given["x_zero_point"], "zero_point": given["y_zero_point"]}
    return clamped(graph, rescale(graph, data, _scale(given, "y"), operator.output.dtype, **zeros), given)
