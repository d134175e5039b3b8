# SPDX-License-Identifier: Apache-2.0
"""The interface of a composite's description, which the fusion passes read and the kernels' package implements."""

from collections.abc import Sequence
from typing import Protocol


class EpilogueStep(Protocol):
    """One call that may follow an anchor."""

    @property
    def op(self) -> str:
        """The Relax operator, or the name of a numerics' routine."""

    @property
    def also(self) -> Sequence[str]:
        """Operators that may stand in its place, such as the same routine of another numerics."""

    @property
    def operand(self) -> str | None:
        """Kind of the second operand: "constant", "tensor" or "any"; None if there is none."""

    @property
    def broadcast(self) -> str | None:
        """Shape of the second operand; None if there is none.

        "last-axis" has as many elements as that axis, "per-channel" that many or one, "per-row" one for each row along
        it, or one, "same-shape" is the value's, "scalar" has one element, "any" does not enlarge the value,
        "contracted" is a matmul's right side with the value's leading axes.
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
        """Vector registers that the step occupies for all outputs, as a look-up table does."""

    @property
    def weighed(self) -> bool:
        """Whether the step is fused only if the estimate is lower than that of a separate kernel."""


class CompositeSpec(Protocol):
    """The description of a composite: an anchor, and the steps that may follow it."""

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
        """Vector registers that a kernel's tile leaves free for steps; steps that need more would spill."""

    @property
    def pad(self) -> bool:
        """Whether a constant pad of operand 0 may be part of the composite."""

    @property
    def constant_dtype(self) -> str:
        """Dtype of the constant operands; any if empty."""

    @property
    def permuted(self) -> Sequence[tuple[int, int]]:
        """Operands of the anchor whose `permute_dims` may be part of the composite.

        Each has a number n: the axis that is contiguous before the permutation must be among its last n axes.
        """

    @property
    def widened(self) -> str:
        """Dtype of operands, of steps too, whose cast from it may be part of the composite; none if empty."""
