# SPDX-License-Identifier: Apache-2.0
"""The composites that there are kernels for, as data that the graph side reads to form them.

A composite is one anchor call followed by a chain of epilogue steps, each of which takes the value before it:
`relu(add(matmul(x, W), b))` is the anchor `relax.matmul` with the steps `bias` and `relu`.
"""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class EpilogueStep:
    """One call that may follow an anchor.

    Attributes:
        name: What kernels call it.
        op: The Relax operator, or the name of a numerics' routine, such as "qdq.requantize".
        also: What may stand in the operator's place, such as the same routine of another numerics.
        operand: Kind of its second operand: "constant", "tensor" for a value computed at run time, or "any" of
            both. None where the call has no second tensor; bounds such as those of `relax.clip` are prim values.
        broadcast: Shape of the second operand: "last-axis" has as many elements as the value's last axis and
            nothing else, "per-channel" has that many or one, "same-shape" is the value's shape, "scalar" has one
            element, "any" is what does not enlarge the value, "contracted" is the right side of a matmul with the
            value's leading axes. The operands of `relax.add` and `relax.multiply` may come in either order.
        required: Whether there is no composite without this step.
        retypes: Whether it may change the dtype.
        registers: Vector registers that it keeps over all outputs.
    """

    name: str
    op: str
    operand: Literal["constant", "tensor", "any"] | None = None
    broadcast: Literal["last-axis", "per-channel", "same-shape", "scalar", "any", "contracted"] | None = None
    required: bool = False
    retypes: bool = False
    registers: int = 0
    also: tuple[str, ...] = ()

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


BIAS = EpilogueStep("bias", "relax.add", operand="constant", broadcast="last-axis")
RESIDUAL = EpilogueStep("residual", "relax.add", operand="tensor", broadcast="same-shape")
RELU = EpilogueStep("relu", "relax.nn.relu")
CLIP = EpilogueStep("clip", "relax.clip")
ACTIVATIONS = (
    RELU,
    CLIP,
    EpilogueStep("leaky_relu", "relax.nn.leakyrelu"),
    EpilogueStep("sigmoid", "relax.sigmoid"),
    EpilogueStep("tanh", "relax.tanh"),
    EpilogueStep("silu", "relax.nn.silu"),
    EpilogueStep("gelu", "relax.nn.gelu"),
    EpilogueStep("gelu_tanh", "relax.nn.gelu_tanh"),
)
# An activation, then the residual, as YOLO has them, or the residual, then an activation, as residual networks do.
_FLOAT_EPILOGUE = (BIAS, *ACTIVATIONS, RESIDUAL, *ACTIVATIONS)

LINEAR = CompositeSpec(
    name="arm.linear",
    anchor="relax.matmul",
    constant_operands=(1,),
    dtypes=("float32",),
    epilogue=_FLOAT_EPILOGUE,
)

CONV2D = CompositeSpec(
    name="arm.conv2d",
    anchor="relax.nn.conv2d",
    constant_operands=(1,),
    dtypes=("float32",),
    epilogue=_FLOAT_EPILOGUE,
)

CONV2D_TRANSPOSE = CompositeSpec(
    name="arm.conv2d_transpose",
    anchor="relax.nn.conv2d_transpose",
    constant_operands=(1,),
    dtypes=("float32",),
    epilogue=_FLOAT_EPILOGUE,
)

# Products of 16-bit floats, summed up in float32. What follows is computed in float16, or in float32 and then cast.
_CAST = EpilogueStep("cast", "relax.astype", retypes=True)
HALF_PRODUCTS = tuple(
    CompositeSpec(
        name=f"arm.{name}_{suffix}",
        anchor=anchor,
        constant_operands=(1,),
        dtypes=(dtype,),
        epilogue=(_CAST, *_FLOAT_EPILOGUE) if dtype == "float16" else (*_FLOAT_EPILOGUE, _CAST),
        anchor_dtype="float32",
        constant_dtype=dtype,
    )
    for name, anchor in (("linear", "relax.matmul"), ("conv2d", "relax.nn.conv2d"))
    for dtype, suffix in (("float16", "f16"), ("bfloat16", "bf16"))
)

# int8 weights, float data; their scale follows the product.
LINEAR_W8 = CompositeSpec(
    name="arm.linear_w8",
    anchor="relax.matmul",
    constant_operands=(1,),
    dtypes=("float32", "float16"),
    epilogue=(
        EpilogueStep("scale", "relax.multiply", operand="constant", broadcast="per-channel", required=True),
        _CAST,
        *_FLOAT_EPILOGUE,
    ),
    anchor_dtype="float32",
    constant_dtype="int8",
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
    permuted=((0, 1), (1, 2)),
)

# Integer accumulators, an offset that holds bias and zero points, requantised to 8 bits; an activation's table.
_INTEGER_EPILOGUE = (
    EpilogueStep("offset", "relax.add", operand="constant", broadcast="per-channel"),
    EpilogueStep(
        "requantize",
        "qdq.requantize",
        operand="constant",
        broadcast="per-channel",
        required=True,
        retypes=True,
        also=("tosa.requantize",),
    ),
    # Beside the tile it would be loaded again for each 16 outputs: that is 3 to 5 % more instructions of a linear layer
    # than by a loop of its own, in which it stays.
    EpilogueStep("table", "qdq.table", operand="constant", broadcast="any", retypes=True, registers=16),
)
# Of 32, a tile of 16 accumulators, as few as hide the latency of loads, has its operands, and its requantisation four.
_SPARE_REGISTERS = 8
_8_BIT = ("int8", "uint8")

CONV2D_S8 = CompositeSpec(
    name="arm.conv2d_s8",
    anchor="relax.nn.conv2d",
    constant_operands=(1,),
    dtypes=_8_BIT,
    epilogue=_INTEGER_EPILOGUE,
    anchor_dtype="int32",
    pad=True,
    spare_registers=_SPARE_REGISTERS,
)

# The data's zero point is the anchor's own.
CONV2D_TRANSPOSE_S8 = CompositeSpec(
    name="arm.conv2d_transpose_s8",
    anchor="qdq.conv2d_transpose",
    constant_operands=(1,),
    dtypes=_8_BIT,
    epilogue=_INTEGER_EPILOGUE,
    anchor_dtype="int32",
    spare_registers=_SPARE_REGISTERS,
)

LINEAR_S8 = CompositeSpec(
    name="arm.linear_s8",
    anchor="relax.matmul",
    constant_operands=(1,),
    dtypes=_8_BIT,
    epilogue=_INTEGER_EPILOGUE,
    anchor_dtype="int32",
    spare_registers=_SPARE_REGISTERS,
)

# Of two tensors of run time; the zero points are the anchor's own.
MATMUL_S8 = CompositeSpec(
    name="arm.matmul_s8",
    anchor="qdq.matmul",
    constant_operands=(),
    dtypes=_8_BIT,
    epilogue=_INTEGER_EPILOGUE[1:],
    anchor_dtype="int32",
    permuted=((0, 2), (1, 2)),
    spare_registers=_SPARE_REGISTERS,
)

# The second operand is the table of exponentials.
SOFTMAX_S8 = CompositeSpec(
    name="arm.softmax_s8", anchor="qdq.softmax", constant_operands=(1,), dtypes=_8_BIT, epilogue=()
)

# Beside it the table of reciprocals.
TOSA_SOFTMAX_S8 = CompositeSpec(
    name="arm.tosa_softmax_s8", anchor="tosa.softmax", constant_operands=(1, 2), dtypes=_8_BIT, epilogue=()
)

# The other operands are gamma and beta in units of the output.
NORMS_S8 = tuple(
    CompositeSpec(
        name=f"arm.{op}_s8", anchor=f"qdq.{op}", constant_operands=(1, 2), dtypes=_8_BIT, epilogue=()
    )
    for op in ("layer_norm", "rms_norm")
)

# Rows of float32.
ROWS_F32 = (
    CompositeSpec("arm.layer_norm", "relax.nn.layer_norm", (1, 2), ("float32",), ()),
    CompositeSpec("arm.rms_norm", "relax.nn.rms_norm", (1,), ("float32",), ()),
    CompositeSpec("arm.softmax", "relax.nn.softmax", (), ("float32",), ()),
)

ELEMENTWISE_S8 = tuple(
    CompositeSpec(name, anchor, constant_operands=(), dtypes=_8_BIT, epilogue=())
    for name, anchor in (
        *((f"arm.{op}_s8", f"qdq.{op}") for op in ("add", "subtract", "multiply", "table")),
        *((f"arm.tosa_{op}_s8", f"tosa.{op}") for op in ("add", "subtract", "multiply")),
    )
)

# Along one axis, computed as along two; see `schedules.one_axis`.
CONV1D = tuple(
    replace(spec, name=spec.name.replace("conv2d", "conv1d"), anchor="relax.nn.conv1d")
    for spec in (*HALF_PRODUCTS, CONV2D, CONV2D_S8)
    if spec.anchor == "relax.nn.conv2d"
)

VOCABULARY: tuple[CompositeSpec, ...] = (
    *ELEMENTWISE_S8,
    *HALF_PRODUCTS,
    LINEAR_W8,
    LINEAR,
    *CONV1D,
    CONV2D,
    CONV2D_TRANSPOSE,
    ATTENTION,
    CONV2D_S8,
    CONV2D_TRANSPOSE_S8,
    LINEAR_S8,
    MATMUL_S8,
    SOFTMAX_S8,
    TOSA_SOFTMAX_S8,
    *NORMS_S8,
    *ROWS_F32,
)
