# SPDX-License-Identifier: Apache-2.0
"""Casts between integer and bool dtypes: CAST."""

from arm_ext.ethosu.ops.common.constraint import EARLIER, MEASURED, TOSA, Constraint, change, dtypes
from arm_ext.ethosu.ops.common.contract import Operation, Quirks, always, of_relax
from arm_ext.ethosu.ops.common.integers import IntegerOperands, attributes, cast
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor

_WIDENING = (("int8", "int16"), ("int8", "int32"), ("int16", "int32"))

_CONSTRAINTS: tuple[Constraint[IntegerOperands], ...] = (
    Constraint(
        "TOSA has no cast between these types", "bool, int8, int16 or int32", dtypes,
        lambda found: set(found) <= {"bool", "int8", "int16", "int32"}, "another type", TOSA,
    ),
    Constraint(
        "it narrows integers, or casts them to bool", "int8 to int16 or int32, int16 to int32", change,
        lambda pair: pair in _WIDENING, "requantise by a scale of 1", MEASURED, EARLIER,
    ),
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[IntegerOperands], data: TosaTensor) -> TosaTensor:
    """Emit CAST."""
    return cast(graph, data, operator.output.dtype)


OPERATION: Operation[IntegerOperands] = Operation(
    kinds=("astype",),
    patterns={"astype": of_relax("astype", attributes)},
    constraints=_CONSTRAINTS,
    emit=emit,
    quirks=Quirks(widens=always),
)
