# SPDX-License-Identifier: Apache-2.0
"""Interfaces of composite specifications, which fusion passes use and `schedules.composites.specs` implements."""

from collections.abc import Sequence
from typing import Protocol


class EpilogueStep(Protocol):
    """Interface of an epilogue step, one call that may follow the anchor of a composite."""

    @property
    def op(self) -> str:
        """The Relax operator, or the name of a numerics' routine."""

    @property
    def also(self) -> Sequence[str]:
        """Alternatives to `op`, such as the same routine of another numerics."""

    @property
    def operand(self) -> str | None:
        """Kind of the second operand: "constant", "tensor" or "any"; None if there is none."""

    @property
    def broadcast(self) -> str | None:
        """Shape of the second operand; None if there is none.

        "last-axis": as many elements as the value's last axis. "per-channel": as many, or one. "per-row": one per row
        along the last axis, or one. "same-shape": the value's shape. "scalar": one element. "any": any shape that
        broadcasts to the value's. "contracted": the right side of a matmul, with the value's leading axes.
        """

    @property
    def required(self) -> bool:
        """Whether the composite is formed only with this step."""

    @property
    def retypes(self) -> bool:
        """Whether the step may change the dtype."""

    @property
    def to(self) -> Sequence[str]:
        """Dtypes that the step may change to; any if empty."""

    @property
    def registers(self) -> int:
        """Number of vector registers that the step occupies during the whole kernel, such as for a look-up table."""

    @property
    def weighed(self) -> bool:
        """Whether the step is fused only if the estimate is lower than that of a separate kernel."""


class CompositeSpec(Protocol):
    """Interface of a composite's specification: its anchor, and the steps that may follow."""

    @property
    def name(self) -> str:
        """Value of the attribute "Composite"."""

    @property
    def anchor(self) -> str:
        """The Relax operator of the first call."""

    @property
    def constant_operands(self) -> tuple[int, ...]:
        """Indices of the anchor's operands that must be constants."""

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Allowed dtypes of the anchor's operand 0."""

    @property
    def epilogue(self) -> Sequence[EpilogueStep]:
        """The possible steps, in their order; each occurs at most once."""

    @property
    def anchor_dtype(self) -> str:
        """Allowed dtype of the anchor's value; any if empty."""

    @property
    def spare_registers(self) -> int:
        """Number of vector registers that a kernel's tile leaves free for steps; steps that need more would spill."""

    @property
    def pad(self) -> bool:
        """Whether a constant pad of operand 0 may be part of the composite."""

    @property
    def constant_dtype(self) -> str:
        """Dtype of the constant operands; any if empty."""

    @property
    def permuted(self) -> Sequence[tuple[int, int]]:
        """(operand, n) for each operand of the anchor whose `permute_dims` may be part of the composite.

        The contiguous axis before the permutation must be one of the last n axes after it.
        """

    @property
    def widened(self) -> str:
        """Dtype from which casts of operands (also of steps) may be part of the composite; no casts if empty."""
