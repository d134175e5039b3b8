# SPDX-License-Identifier: Apache-2.0
"""Emission of Relax's own elementwise integer and boolean arithmetic.

Most of it TOSA has for 32 bits alone: narrower operands are widened, of what cannot leave their range.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tosa_serializer as ts
from tvm.ir import GenericConst

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa.common import IGNORE_NAN, Array, clamped, of_rank
from arm_ext.ethosu.tosa.graph import TosaGraph, Value

_WIDE = "int32"


@dataclass(frozen=True)
class Form:
    """The TOSA operator for an operator of Relax.

    Attributes:
        operator: TOSA's.
        attributes: The serialiser's.
        reversed: Whether TOSA takes the operands in the other order.
        negated: Whether it gives the opposite truth.
    """

    operator: Any
    attributes: tuple[Any, ...] = ()
    reversed: bool = False
    negated: bool = False


COMPARISONS: Mapping[str, Form] = {
    "equal": Form(ts.Op.EQUAL),
    "not_equal": Form(ts.Op.EQUAL, negated=True),
    "greater": Form(ts.Op.GREATER),
    "greater_equal": Form(ts.Op.GREATER_EQUAL),
    "less": Form(ts.Op.GREATER, reversed=True),
    "less_equal": Form(ts.Op.GREATER_EQUAL, reversed=True),
}
LOGICAL: Mapping[str, Form] = {
    "logical_and": Form(ts.Op.LOGICAL_AND),
    "logical_or": Form(ts.Op.LOGICAL_OR),
    "logical_xor": Form(ts.Op.LOGICAL_XOR),
    "logical_not": Form(ts.Op.LOGICAL_NOT),
}
BITWISE: Mapping[str, Form] = {
    "bitwise_and": Form(ts.Op.BITWISE_AND),
    "bitwise_or": Form(ts.Op.BITWISE_OR),
    "bitwise_xor": Form(ts.Op.BITWISE_XOR),
    "bitwise_not": Form(ts.Op.BITWISE_NOT),
}
EXTREMA: Mapping[str, Form] = {
    "integer_maximum": Form(ts.Op.MAXIMUM, (IGNORE_NAN,)),
    "integer_minimum": Form(ts.Op.MINIMUM, (IGNORE_NAN,)),
}
ARITHMETIC: Mapping[str, Form] = {
    "integer_add": Form(ts.Op.ADD),
    "integer_subtract": Form(ts.Op.SUB),
    "integer_multiply": Form(ts.Op.MUL),
    "abs": Form(ts.Op.ABS),
    "negative": Form(ts.Op.NEGATE),
    "left_shift": Form(ts.Op.LOGICAL_LEFT_SHIFT),
    "right_shift": Form(ts.Op.ARITHMETIC_RIGHT_SHIFT, (False,)),
    "logical_right_shift": Form(ts.Op.LOGICAL_RIGHT_SHIFT),
    "divide": Form(ts.Op.INTDIV),
}
_FORMS = {**COMPARISONS, **LOGICAL, **BITWISE, **EXTREMA, **ARITHMETIC}


def elementwise(graph: TosaGraph, operator: Operator, *data: Value) -> Value:
    """Emit an operator of `_FORMS`, whose operands may be constants."""
    form, out = _FORMS[operator.kind], operator.output
    operands = _operands(graph, operator, data)
    if operator.kind in COMPARISONS:
        operands = [cast(graph, operand, _WIDE) for operand in operands]
    operands = operands[::-1] if form.reversed else operands
    value = graph.add(
        form.operator,
        [*operands, *_further(graph, operator.kind, operands[0].dtype)],
        out.shape,
        out.dtype,
        *form.attributes,
    )
    return graph.add(ts.Op.LOGICAL_NOT, [value], out.shape, out.dtype) if form.negated else value


def extremum(graph: TosaGraph, operator: Operator, *data: Value) -> Value:
    """Emit CLAMP for a maximum or minimum with a constant; any other one in int32."""
    out = operator.output
    limit = _limit(operator)
    if limit is not None and out.dtype != _WIDE:
        info = np.iinfo(out.dtype)
        greatest = operator.kind == "integer_minimum"
        ends = {"low": info.min, "high": limit} if greatest else {"low": limit, "high": info.max}
        return clamped(graph, data[0], ends)
    form = _FORMS[operator.kind]
    operands = [cast(graph, operand, _WIDE) for operand in _operands(graph, operator, data)]
    value = graph.add(form.operator, operands, out.shape, _WIDE, *form.attributes)
    return cast(graph, value, out.dtype)


def astype(graph: TosaGraph, operator: Operator, data: Value) -> Value:
    """CAST."""
    return cast(graph, data, operator.output.dtype)


def where(graph: TosaGraph, operator: Operator, *data: Value) -> Value:
    """SELECT."""
    return graph.add(
        ts.Op.SELECT, _operands(graph, operator, data), operator.output.shape, operator.output.dtype
    )


def cast(graph: TosaGraph, x: Value, dtype: str) -> Value:
    """CAST, to another dtype."""
    return x if x.dtype == dtype else graph.add(ts.Op.CAST, [x], x.shape, dtype)


def _operands(graph: TosaGraph, operator: Operator, data: Sequence[Value]) -> list[Value]:
    """All that the call reads, of the output's rank."""
    runtime, rank = list(data), len(operator.output.shape)
    values = [
        graph.constant(_signed(arg.value.numpy())) if isinstance(arg, GenericConst) else runtime.pop(0)
        for arg in operator.call.args
    ]
    return [of_rank(graph, value, rank) for value in values]


def _signed(array: Array) -> Array:
    """Amounts of a logical shift, below 32, as TOSA takes them; any other constant itself."""
    return array.astype(np.int32) if array.dtype == np.uint32 else array


def _limit(operator: Operator) -> int | None:
    """The constant operand of an extremum, if it is one number."""
    found = [arg.value.numpy() for arg in operator.call.args if isinstance(arg, GenericConst)]
    return int(found[0].item()) if found and found[0].size == 1 else None


def _further(graph: TosaGraph, kind: str, dtype: str) -> list[Value]:
    """What TOSA wants beside the operands: the shift of a product, the zero points of a negation."""
    if kind == "integer_multiply":
        return [graph.scalar(0, "int8")]
    return [graph.scalar(0, dtype)] * 2 if kind == "negative" else []
