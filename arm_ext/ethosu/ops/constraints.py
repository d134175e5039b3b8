# SPDX-License-Identifier: Apache-2.0
"""All constraints of the Ethos-U as one list, which the check, the table in the docs and the tests read."""

from typing import Any

from arm_ext.ethosu.ops.common.constraint import OF_ALL, TOSA, Constraint
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, channels_last
from arm_ext.ethosu.ops.registry import BY_KIND, OPERATIONS
from arm_ext.target.npu import Accelerator
from schedules.diagnostic import Diagnostic

NO_FORM, KNOWN = "we have no TOSA form of this operator", "one of those listed in docs, Ethos-U limits"
LEAVE = "leave it to the CPU"

_IS_KNOWN: Constraint[Attributes] = Constraint(
    NO_FORM, KNOWN, lambda op: op.kind, lambda kind: kind in BY_KIND, LEAVE, TOSA
)
_OF_ALL = (_IS_KNOWN, *OF_ALL)

CONSTRAINTS: tuple[Constraint[Any], ...] = tuple(
    dict.fromkeys((*_OF_ALL, *(limit for operation in OPERATIONS for limit in operation.constraints)))
)
"""The constraints of every operator, then those of each operator in turn; shared ones are listed once."""


def kinds_of(constraint: Constraint[Any]) -> tuple[str, ...]:
    """Return the operator kinds that a constraint holds for; empty if it holds for all."""
    return tuple(kind for kind, operation in BY_KIND.items() if constraint in operation.constraints)


def violation(operator: Operator[Any], npu: Accelerator) -> Diagnostic | None:
    """Return the first constraint of an accelerator that an operator violates, or None."""
    operator, operation = channels_last(operator), BY_KIND.get(operator.kind)
    for constraint in (*_OF_ALL, *(operation.constraints if operation else ())):
        if npu.family not in constraint.families:
            continue
        actual = constraint.actual(operator)
        if not constraint.met(actual):
            text = ", ".join(map(str, actual)) if isinstance(actual, tuple) else str(actual)
            return constraint.violated(text)
    return None
