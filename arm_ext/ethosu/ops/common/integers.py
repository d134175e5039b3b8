# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators on integers and bools that are not quantised values: attributes, dtypes and operands."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.constraint import TOSA, Constraint, dtypes
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Array, Reader, constants
from arm_ext.ethosu.tosa.common import of_rank
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor

WIDE = "int32"


@dataclass(frozen=True)
class TosaForm:
    """The TOSA operator for a Relax operator.

    Attributes:
        operator: TOSA operator code.
        attributes: Further attributes that the TOSA serializer takes.
        reversed: Whether TOSA takes the operands in the opposite order.
        negated: Whether the TOSA operator computes the negation, so that LOGICAL_NOT follows.
    """

    operator: Any
    attributes: tuple[Any, ...] = ()
    reversed: bool = False
    negated: bool = False


@dataclass(frozen=True, kw_only=True)
class IntegerOperands(Attributes):
    """Attributes of an elementwise operator on integers that are not quantised.

    Attributes:
        operands: For each operand its value if it is constant, else None.
    """

    operands: tuple[Array | None, ...] = ()

    def data(self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor) -> Sequence[RunTimeTensor]:
        """Return no tensors, since no operand is quantised."""
        return ()


def attributes(call: Call, _: Reader) -> IntegerOperands:
    """Return the attributes of an elementwise Relax call."""
    return IntegerOperands(operands=constants(list(call.args)))


def integer_dtypes(operator: Operator[IntegerOperands]) -> tuple[str, ...]:
    """Return the dtypes of an operator's tensors and constants, sorted."""
    held = {str(operand.dtype) for operand in operator.attributes.operands if operand is not None}
    return tuple(sorted({*dtypes(operator), *held}))


OF_ANY_WIDTH: Constraint[IntegerOperands] = Constraint(
    "TOSA has no such operator for integers of this width", "int8, int16 or int32", integer_dtypes,
    lambda found: set(found) <= {"int8", "int16", "int32"}, "another type", TOSA,
)  # fmt: skip
OF_ANY_TYPE: Constraint[IntegerOperands] = Constraint(
    "TOSA has no such operator for this type", "bool, int8, int16 or int32", integer_dtypes,
    lambda found: set(found) <= {"bool", "int8", "int16", "int32"}, "another type", TOSA, ("u85",),
)  # fmt: skip


def emit_form(
    graph: TosaGraph,
    form: TosaForm,
    operator: Operator[IntegerOperands],
    operands: Sequence[TosaTensor],
    further: Sequence[TosaTensor] = (),
) -> TosaTensor:
    """Emit a TOSA operator on operands of the output's rank, followed by `further` inputs such as a shift."""
    out, given = operator.output, operands[::-1] if form.reversed else operands
    value = graph.add(form.operator, [*given, *further], out.shape, out.dtype, *form.attributes)
    return graph.add(ts.Op.LOGICAL_NOT, [value], out.shape, out.dtype) if form.negated else value


def operands_of(
    graph: TosaGraph, operator: Operator[IntegerOperands], data: Sequence[TosaTensor]
) -> list[TosaTensor]:
    """Return all operands, constants included, reshaped to the output's rank."""
    runtime, rank = list(data), len(operator.output.shape)
    values = [
        runtime.pop(0) if held is None else graph.constant(held) for held in operator.attributes.operands
    ]
    return [of_rank(graph, value, rank) for value in values]


def cast(graph: TosaGraph, x: TosaTensor, dtype: str) -> TosaTensor:
    """Emit CAST if the dtype differs."""
    return x if x.dtype == dtype else graph.add(ts.Op.CAST, [x], x.shape, dtype)
