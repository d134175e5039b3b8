# SPDX-License-Identifier: Apache-2.0
"""Descriptions of composites: an anchor, and the chain of epilogue steps that may follow it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EpilogueStep:
    """One call that may follow an anchor.

    Attributes:
        name: Name of the step in kernels.
        op: The Relax operator, or the name of a numerics' routine, such as "qdq.requantize".
        also: Alternatives to the operator, such as the same routine of another numerics.
        operand: Kind of its second operand: "constant", "tensor" for a value computed at run time, or "any" of
            both. None where the call has no second tensor; bounds such as those of `relax.clip` are prim values.
        broadcast: Shape of the second operand: "last-axis" has as many elements as the value's last axis and
            nothing else, "per-channel" has that many or one, "per-row" has one for each row along that axis, or one,
            "same-shape" is the value's shape, "scalar" has one element, "any" is what does not enlarge the value,
            "contracted" is the right side of a matmul with the value's leading axes. The operands of `relax.add` and
            `relax.multiply` may come in either order.
        required: Whether every composite of the spec has this step.
        retypes: Whether the step may change the dtype.
        to: Dtypes that it may change to; any if empty.
        registers: Vector registers that it keeps over all outputs.
        weighed: Whether the step is taken only where the estimate of a kernel with it is below that of two kernels.
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
                f"epilogue step {self.name!r}: operand and broadcast are given together or not at all"
            )


@dataclass(frozen=True)
class CompositeSpec:
    """One composite: an anchor, and the steps that may follow it.

    Attributes:
        name: Value of the composite function's attribute "Composite".
        anchor: The Relax operator of the anchor.
        constant_operands: Indexes of the anchor's operands that must be constants.
        dtypes: Allowed dtypes of operand 0.
        epilogue: The steps in the order that they may follow; each occurs at most once.
        anchor_dtype: Allowed dtype of the anchor's value; any if empty.
        pad: Whether a `relax.nn.pad` of operand 0, with a constant, may be part of it.
        permuted: Operands of the anchor whose `relax.permute_dims` may be part of it, each with how many of the
            anchor's last axes the axis that is contiguous before the permutation must be among.
        constant_dtype: Dtype of the constant operands; any if empty.
        spare_registers: Vector registers that a kernel's tile leaves to steps that keep some.
        widened: Dtype of operands, those of steps too, whose cast from it may be part of it; none if empty.
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
