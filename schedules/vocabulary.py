# SPDX-License-Identifier: Apache-2.0
"""The composites that there are kernels for, as data that the graph side reads to form them.

A composite is one anchor call followed by a chain of epilogue steps, each of which takes the value before it:
`relu(add(matmul(x, W), b))` is the anchor `relax.matmul` with the steps `bias` and `relu`.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EpilogueStep:
    """One elementwise call that may follow an anchor.

    Attributes:
        name: What kernels call it.
        op: The Relax operator.
        operand: Kind of its second operand: "constant", or "tensor" for a value computed at run time. None where
            the call has no second tensor; bounds such as those of `relax.clip` are prim values.
        broadcast: Shape of the second operand: "last-axis" has as many elements as the output's last axis and
            nothing else, "same-shape" is the output's shape. The operands of `relax.add` may come in either order.
    """

    name: str
    op: str
    operand: Literal["constant", "tensor"] | None = None
    broadcast: Literal["last-axis", "same-shape"] | None = None

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
        epilogue: The steps in the order that they may follow; each is optional and occurs at most once.
    """

    name: str
    anchor: str
    constant_operands: tuple[int, ...]
    dtypes: tuple[str, ...]
    epilogue: tuple[EpilogueStep, ...]


BIAS = EpilogueStep("bias", "relax.add", operand="constant", broadcast="last-axis")
RESIDUAL = EpilogueStep("residual", "relax.add", operand="tensor", broadcast="same-shape")
RELU = EpilogueStep("relu", "relax.nn.relu")
CLIP = EpilogueStep("clip", "relax.clip")

LINEAR = CompositeSpec(
    name="arm.linear",
    anchor="relax.matmul",
    constant_operands=(1,),
    dtypes=("float32",),
    # The residual comes before the activation, as in residual networks; transformers have no activation here.
    epilogue=(BIAS, RESIDUAL, RELU, CLIP),
)

VOCABULARY: tuple[CompositeSpec, ...] = (LINEAR,)
