# SPDX-License-Identifier: Apache-2.0
"""`Constraint`: a limit of an Ethos-U with the document that states it, and the limits of every operator.

Vela's own list of supported operators is wrong in both directions: it accepts casts and resizes that it compiles to
something else, and rejects 16-bit tables that it compiles correctly. So these constraints decide; an operator that
meets them can still be rejected when Vela compiles it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.target.npu import Family
from schedules.diagnostic import Diagnostic

SUPPORTED_OPS = "Vela 5.2, SUPPORTED_OPS.md"
TOSA = "TOSA 1.0"
MEASURED = "compared with the TOSA reference model"

EVERY: tuple[Family, ...] = ("u55", "u65", "u85")
EARLIER: tuple[Family, ...] = ("u55", "u65")

A_contra = TypeVar("A_contra", bound=Attributes, contravariant=True)


@dataclass(frozen=True, eq=False)
class Constraint(Generic[A_contra]):
    """One limit of an Ethos-U.

    Attributes:
        reason: Why an operator that violates it is rejected, as a sentence without full stop.
        limit: The allowed values, as text.
        actual: Returns an operator's value of the limited property.
        met: Whether such a value is allowed.
        advice: Change of the model that would meet the constraint.
        source: Document or measurement that the limit comes from.
        families: Accelerators that it holds for.
    """

    reason: str
    limit: str
    actual: Callable[[Operator[A_contra]], Any]
    met: Callable[[Any], bool]
    advice: str
    source: str
    families: tuple[Family, ...] = EVERY

    def violated(self, actual: str) -> Diagnostic:
        """Return the rejection of an operator whose value is `actual`."""
        return Diagnostic(self.reason, self.limit, actual, asked=self.source, hint=self.advice)


def at_most(limit: int) -> Callable[[int], bool]:
    """Return a predicate that is true for numbers up to `limit`."""
    return lambda actual: actual <= limit


def dtypes(operator: Operator[Attributes]) -> tuple[str, ...]:
    """Return the dtypes of all inputs and of the output, sorted."""
    return tuple(sorted({tensor.dtype for tensor in operator.tensors}))


def input_dtypes(operator: Operator[Attributes]) -> tuple[str, ...]:
    """Return the dtypes of all inputs, sorted."""
    return tuple(sorted({tensor.dtype for tensor in operator.inputs}))


def change(operator: Operator[Attributes]) -> tuple[str, str]:
    """Return the dtypes of the first input and of the output."""
    return operator.inputs[0].dtype, operator.output.dtype


def _data_dtypes(operator: Operator[Attributes]) -> tuple[str, ...]:
    data = operator.attributes.data(operator.inputs, operator.output)
    return tuple(sorted({tensor.dtype for tensor in data}))


def _zero_point_of_16_bits(operator: Operator[Attributes]) -> int:
    """Return the first zero point of an int16 tensor that is not 0; 0 if all are 0."""
    pairs = operator.attributes.zero_points(operator.inputs, operator.output)
    return next((zero for tensor, zero in pairs if zero and tensor.dtype == "int16"), 0)


def _rank(operator: Operator[Attributes]) -> int:
    return max(len(tensor.shape) for tensor in operator.tensors)


def _smallest_axis(operator: Operator[Attributes]) -> int:
    return min(dim for tensor in operator.tensors for dim in (*tensor.shape, 1))


def _largest_axis(operator: Operator[Attributes]) -> int:
    return max(dim for tensor in operator.tensors for dim in (*tensor.shape, 1))


OF_ALL: tuple[Constraint[Attributes], ...] = (
    Constraint(
        "its tensors are not int8 or int16", "int8 or int16", _data_dtypes,
        lambda found: set(found) <= {"int8", "int16"}, "quantise activations to int8 or int16", TOSA,
    ),
    Constraint(
        "a tensor of 16 bits has a zero point", "0", _zero_point_of_16_bits, lambda zero: zero == 0,
        "quantise it symmetrically", TOSA,
    ),
    Constraint("a tensor has too many axes", "at most 6", _rank, at_most(6), "reshape it", TOSA),
    Constraint(
        "a tensor has no elements", "at least one along each axis", _smallest_axis, lambda size: size > 0,
        "leave it to the CPU", TOSA,
    ),
    Constraint(
        "a tensor's axis is too long", "at most 65536", _largest_axis, at_most(1 << 16), "split it", SUPPORTED_OPS,
    ),
)  # fmt: skip
"""Constraints of every operator, which are checked before its own."""

OF_8_BITS: Constraint[Attributes] = Constraint(
    "Vela supports it for int8 data only", "int8", input_dtypes, lambda found: found == ("int8",),
    "quantise its data to int8", MEASURED, EARLIER,
)  # fmt: skip

OF_U85: Constraint[Attributes] = Constraint(
    "the accelerator has no such operator", "of Ethos-U85", lambda op: op.kind, lambda _: False,
    "leave it to the CPU", SUPPORTED_OPS, EARLIER,
)  # fmt: skip
