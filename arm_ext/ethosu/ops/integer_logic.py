# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logical and bitwise operators, and SELECT, on integers and bools that are not quantised."""

from collections.abc import Mapping

import tosa_serializer as ts

from arm_ext.ethosu.ops.common.constraint import OF_U85
from arm_ext.ethosu.ops.common.contract import Operation, of_relax
from arm_ext.ethosu.ops.common.integers import (
    OF_ANY_TYPE,
    OF_ANY_WIDTH,
    WIDE,
    IntegerOperands,
    TosaForm,
    attributes,
    cast,
    emit_form,
    operands_of,
)
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor

_COMPARISONS: Mapping[str, TosaForm] = {
    "equal": TosaForm(ts.Op.EQUAL),
    "not_equal": TosaForm(ts.Op.EQUAL, negated=True),
    "greater": TosaForm(ts.Op.GREATER),
    "greater_equal": TosaForm(ts.Op.GREATER_EQUAL),
    "less": TosaForm(ts.Op.GREATER, reversed=True),
    "less_equal": TosaForm(ts.Op.GREATER_EQUAL, reversed=True),
}
_LOGICAL: Mapping[str, TosaForm] = {
    "logical_and": TosaForm(ts.Op.LOGICAL_AND),
    "logical_or": TosaForm(ts.Op.LOGICAL_OR),
    "logical_xor": TosaForm(ts.Op.LOGICAL_XOR),
    "logical_not": TosaForm(ts.Op.LOGICAL_NOT),
}
_BITWISE: Mapping[str, TosaForm] = {
    "bitwise_and": TosaForm(ts.Op.BITWISE_AND),
    "bitwise_or": TosaForm(ts.Op.BITWISE_OR),
    "bitwise_xor": TosaForm(ts.Op.BITWISE_XOR),
    "bitwise_not": TosaForm(ts.Op.BITWISE_NOT),
}
_FORMS = {**_COMPARISONS, **_LOGICAL, **_BITWISE}


def emit(graph: TosaGraph, operator: Operator[IntegerOperands], *data: TosaTensor) -> TosaTensor:
    """Emit the TOSA operator of `_FORMS`."""
    return emit_form(graph, _FORMS[operator.kind], operator, operands_of(graph, operator, data))


def emit_comparison(graph: TosaGraph, operator: Operator[IntegerOperands], *data: TosaTensor) -> TosaTensor:
    """Emit a comparison of operands cast to int32."""
    operands = [cast(graph, operand, WIDE) for operand in operands_of(graph, operator, data)]
    return emit_form(graph, _FORMS[operator.kind], operator, operands)


def emit_where(graph: TosaGraph, operator: Operator[IntegerOperands], *data: TosaTensor) -> TosaTensor:
    """Emit SELECT."""
    out = operator.output
    return graph.add(ts.Op.SELECT, operands_of(graph, operator, data), out.shape, out.dtype)


COMPARISONS: Operation[IntegerOperands] = Operation(
    kinds=tuple(_COMPARISONS),
    patterns={kind: of_relax(kind, attributes) for kind in _COMPARISONS},
    constraints=(OF_U85, OF_ANY_TYPE),
    emit=emit_comparison,
)
LOGICAL: Operation[IntegerOperands] = Operation(
    kinds=tuple(_LOGICAL),
    patterns={kind: of_relax(kind, attributes) for kind in _LOGICAL},
    constraints=(OF_U85, OF_ANY_TYPE),
    emit=emit,
)
BITWISE: Operation[IntegerOperands] = Operation(
    kinds=tuple(_BITWISE),
    patterns={kind: of_relax(kind, attributes) for kind in _BITWISE},
    constraints=(OF_U85, OF_ANY_WIDTH),
    emit=emit,
)
WHERE: Operation[IntegerOperands] = Operation(
    kinds=("where",),
    patterns={"where": of_relax("where", attributes)},
    constraints=(OF_U85, OF_ANY_TYPE),
    emit=emit_where,
)
