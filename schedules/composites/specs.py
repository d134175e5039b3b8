# SPDX-License-Identifier: Apache-2.0
"""Specifications of composites: an anchor, and the chain of epilogue steps that may follow it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EpilogueStep:
    """One call that may follow the anchor of a composite.

    Attributes:
        name: Name of the step in kernels.
        op: The Relax operator, or the name of a numerics' routine, such as "qdq.requantize".
        also: Alternatives to `op`, such as the same routine of another numerics.
        operand: Kind of the second operand: "constant", "tensor" (computed at run time), or "any" of both. None if the
            call has no second tensor; bounds such as those of `relax.clip` are prim values.
        broadcast: Shape of the second operand, compared with the value (the first operand). "last-axis": as many
            elements as the value's last axis. "per-channel": as many, or one. "per-row": one per row along the last
            axis, or one. "same-shape": the value's shape. "scalar": one element. "any": any shape that broadcasts to
            the value's. "contracted": the right side of a matmul with the value's leading axes. The operands of
            `relax.add` and `relax.multiply` may come in either order.
        required: Whether every composite of the spec has this step.
        retypes: Whether the step may change the dtype.
        to: Dtypes to which the step may change; any if empty.
        registers: Number of vector registers that the step occupies during the whole kernel.
        weighed: Whether the step is fused only if the estimate of the kernel with it is below that of two kernels.
    """

    name: str
    op: str
    operand: Literal["constant", "tensor", "any"] | None = None
    broadcast: (
        Literal["last-axis", "per-channel", "per-row", "same-shape", "scalar", "any", "contracted"] | None
    ) = None
    required: bool = False
    retypes: bool = False
    registers: int = 0
    also: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    weighed: bool = False

    def __post_init__(self) -> None:
        if (self.operand is None) != (self.broadcast is None):
            raise ValueError(
                f"epilogue step {self.name!r}: operand and broadcast must both be set, or both be None"
            )


@dataclass(frozen=True)
class CompositeSpec:
    """The specification of a composite: its anchor, and the epilogue steps that may follow.

    Attributes:
        name: Value of the composite function's attribute "Composite".
        anchor: The Relax operator of the anchor.
        constant_operands: Indexes of the anchor's operands that must be constants.
        dtypes: Allowed dtypes of operand 0.
        epilogue: The possible steps, in their order; each occurs at most once.
        anchor_dtype: Allowed dtype of the anchor's value; any if empty.
        pad: Whether a `relax.nn.pad` of operand 0 with a constant may be part of the composite.
        permuted: (operand, n) for each operand of the anchor whose `relax.permute_dims` may be part of the composite;
            the contiguous axis before the permutation must be one of the last n axes after it.
        constant_dtype: Dtype of the constant operands; any if empty.
        spare_registers: Number of vector registers that a kernel's tile leaves to steps with `registers`.
        widened: Dtype from which casts of operands (also of steps) may be part of the composite; no casts if empty.
    """

    name: str
    anchor: str
    constant_operands: tuple[int, ...]
    dtypes: tuple[str, ...]
    epilogue: tuple[EpilogueStep, ...]
    anchor_dtype: str = ""
    pad: bool = False
    permuted: tuple[tuple[int, int], ...] = ()
    constant_dtype: str = ""
    spare_registers: int = 0
    widened: str = ""
