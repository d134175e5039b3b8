# SPDX-License-Identifier: Apache-2.0
"""The composites that there are kernels for, as data that the graph side reads to form them.

A composite is one anchor call followed by a chain of epilogue steps, each of which takes the value before it:
`relu(add(matmul(x, W), b))` is the anchor `relax.matmul` with the steps `bias` and `relu`.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EpilogueStep:
    """One call that may follow an anchor.

    Attributes:
        name: What kernels call it.
        op: The Relax operator, or the name of a numerics' routine, such as "qdq.requantize".
        operand: Kind of its second operand: "constant", "tensor" for a value computed at run time, or "any" of
            both. None where the call has no second tensor; bounds such as those of `relax.clip` are prim values.
        broadcast: Shape of the second operand: "last-axis" has as many elements as the value's last axis and
            nothing else, "same-shape" is the value's shape, "scalar" has one element, "any" is what does not enlarge
            the value, "contracted" is the right side of a matmul with the value's leading axes. The operands of
            `relax.add` and `relax.multiply` may come in either order.
        required: Whether there is no composite without this step.
        retypes: Whether it may change the dtype.
    """

    name: str
    op: str
    operand: Literal["constant", "tensor", "any"] | None = None
    broadcast: Literal["last-axis", "same-shape", "scalar", "any", "contracted"] | None = None
    required: bool = False
    retypes: bool = False

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
    """

    name: str
    anchor: str
    constant_operands: tuple[int, ...]
    dtypes: tuple[str, ...]
    epilogue: tuple[EpilogueStep, ...]
    anchor_dtype: str = ""
    pad: bool = False


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

# Attention: Q times the transposed K, scaled, masked, normalised, times V. Keys and values of run time; a product with
# a constant is `LINEAR`. No kernel takes it as a whole yet: it is lowered call by call.
ATTENTION = CompositeSpec(
    name="arm.attention",
    anchor="relax.matmul",
    constant_operands=(),
    dtypes=("float32",),
    epilogue=(
        EpilogueStep("scale", "relax.multiply", operand="constant", broadcast="scalar"),
        EpilogueStep("mask", "relax.add", operand="any", broadcast="any"),
        EpilogueStep("softmax", "relax.nn.softmax", required=True),
        EpilogueStep("values", "relax.matmul", operand="tensor", broadcast="contracted", required=True),
    ),
)

VOCABULARY: tuple[CompositeSpec, ...] = (LINEAR, ATTENTION)
