# SPDX-License-Identifier: Apache-2.0
"""What the fusion passes read of a composite's description, which whoever has kernels brings."""

from collections.abc import Sequence
from typing import Protocol


class EpilogueStep(Protocol):
    """One call that may follow an anchor."""

    @property
    def op(self) -> str:
        """The Relax operator, or the name of a numerics' routine."""

    @property
    def also(self) -> Sequence[str]:
        """What may stand in the operator's place, such as the same routine of another numerics."""

    @property
    def operand(self) -> str | None:
        """Kind of the other tensor: "constant", "tensor", "any", or None if there is none."""

    @property
    def broadcast(self) -> str | None:
        """Shape of the other tensor, or None if there is none.

        "last-axis" has as many elements as that axis, "per-channel" that many or one, "per-row" one for each row along
        it, or one, "same-shape" is the value's, "scalar" has one element, "any" is what does not enlarge the value,
        "contracted" is a matmul's right side with the value's leading axes.
        """

    @property
    def required(self) -> bool:
        """Whether there is no composite without it."""

    @property
    def retypes(self) -> bool:
        """Whether it may change the dtype."""

    @property
    def to(self) -> Sequence[str]:
        """Dtypes that it may change to; any if empty."""

    @property
    def registers(self) -> int:
        """Vector registers that it keeps over all outputs, as a table in registers does."""

    @property
    def weighed(self) -> bool:
        """Whether it is taken only where an estimate says that it is cheaper than by itself."""


class CompositeSpec(Protocol):
    """One composite."""

    @property
    def name(self) -> str:
        """Value of the attribute "Composite"."""

    @property
    def anchor(self) -> str:
        """The Relax operator of the first call."""

    @property
    def constant_operands(self) -> tuple[int, ...]:
        """Operands of the anchor that must be constants."""

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Allowed dtypes of the anchor's operand 0."""

    @property
    def epilogue(self) -> Sequence[EpilogueStep]:
        """The steps in the order that they may follow; each occurs at most once."""

    @property
    def anchor_dtype(self) -> str:
        """Allowed dtype of the anchor's value; any if empty."""

    @property
    def spare_registers(self) -> int:
        """Vector registers that a kernel's tile leaves to steps; one that does not fit would go over the stack."""

    @property
    def pad(self) -> bool:
        """Whether a pad of operand 0, with a constant, may be part of it."""

    @property
    def constant_dtype(self) -> str:
        """Dtype of the constant operands; any if empty."""

    @property
    def permuted(self) -> Sequence[tuple[int, int]]:
        """Operands of the anchor whose permutation of axes may be part of it.

        Each with how many of its last axes the one that is contiguous before the permutation must be among.
        """

    @property
    def widened(self) -> str:
        """Dtype of operands, those of steps too, whose cast from it may be part of it; none if empty."""
