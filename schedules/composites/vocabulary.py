# SPDX-License-Identifier: Apache-2.0
"""The vocabulary: specifications of all composites that kernels can compute; `relay_passes` forms composites by them.

A composite is one anchor call followed by a chain of epilogue steps, each of which is applied to the value before it:
`relu(add(matmul(x, W), b))` is the anchor `relax.matmul` with the steps `bias` and `relu`.
"""

from dataclasses import replace

from schedules.composites.specs import CompositeSpec, EpilogueStep

BIAS = EpilogueStep("bias", "relax.add", operand="constant", broadcast="last-axis")
RESIDUAL = EpilogueStep("residual", "relax.add", operand="tensor", broadcast="same-shape")
RELU = EpilogueStep("relu", "relax.nn.relu")
CLIP = EpilogueStep("clip", "relax.clip")
PRELU = EpilogueStep("prelu", "relax.nn.prelu", operand="constant", broadcast="per-channel")
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
# An activation, then the residual addition (YOLO), or the residual addition, then an activation (residual networks).
_FLOAT_EPILOGUE = (BIAS, *ACTIVATIONS, RESIDUAL, *ACTIVATIONS)
# The same with PReLU; only kernels that pack their constants support its slopes per channel.
_FLOAT_LAYER = (BIAS, *ACTIVATIONS, PRELU, RESIDUAL, *ACTIVATIONS, PRELU)

LINEAR = CompositeSpec(
    name="arm.linear",
    anchor="relax.matmul",
    constant_operands=(1,),
    dtypes=("float32",),
    epilogue=_FLOAT_LAYER,
)

CONV2D = CompositeSpec(
    name="arm.conv2d",
    anchor="relax.nn.conv2d",
    constant_operands=(1,),
    dtypes=("float32",),
    epilogue=_FLOAT_LAYER,
)

CONV2D_TRANSPOSE = CompositeSpec(
    name="arm.conv2d_transpose",
    anchor="relax.nn.conv2d_transpose",
    constant_operands=(1,),
    dtypes=("float32",),
    epilogue=_FLOAT_LAYER,
)

# Products of 16-bit floats with float32 sums. The epilogue is computed in float16, or in float32 with a final cast.
_CAST = EpilogueStep("cast", "relax.astype", retypes=True)
_HALVES = (("float16", "f16"), ("bfloat16", "bf16"))
HALF_PRODUCTS = tuple(
    CompositeSpec(
        name=f"arm.{name}_{suffix}",
        anchor=anchor,
        constant_operands=(1,),
        dtypes=(dtype,),
        epilogue=(_CAST, *_FLOAT_LAYER) if dtype == "float16" else (*_FLOAT_LAYER, _CAST),
        anchor_dtype="float32",
        constant_dtype=dtype,
    )
    for name, anchor, halves in (
        ("linear", "relax.matmul", _HALVES),
        ("conv2d", "relax.nn.conv2d", _HALVES),
        ("conv2d_transpose", "relax.nn.conv2d_transpose", _HALVES[:1]),
    )
    for dtype, suffix in halves
)

# Float data times int8 weights; the product is then multiplied by the weights' scale.
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

# Weights of 4 or 8 bits with scales per group (operand 2) and perhaps offsets (3); data is quantised in blocks.
LINEAR_BLOCKS = CompositeSpec(
    name="arm.linear_blocks",
    anchor="blocks.linear",
    constant_operands=(1, 2),
    dtypes=("float32",),
    epilogue=_FLOAT_EPILOGUE,
)

# Products of float32 data, which is not quantised, by weights of the same form.
LINEAR_BLOCKS_FLOAT = replace(LINEAR_BLOCKS, name="arm.linear_blocks_float", anchor="float.linear_blocks")

# Rows, as floats, of a table of weights that are quantised in groups; the data is the indices of the rows.
GATHER_BLOCKS = CompositeSpec("arm.gather_blocks", "blocks.gather", (1, 2), ("int32",), ())

# Products of data quantised at run time, per row or per tensor. The anchor takes the zero point as an operand. int16
# weights are uint8 weights minus their zero point.
_8_BIT = ("int8", "uint8")
LINEAR_DYNAMIC = CompositeSpec(
    name="arm.linear_dynamic",
    anchor="qdq.linear_dynamic",
    constant_operands=(2,),
    dtypes=_8_BIT,
    epilogue=(
        EpilogueStep("offset", "relax.add", operand="constant", broadcast="per-channel"),
        replace(_CAST, to=("float32",), required=True),
        EpilogueStep("row_scale", "relax.multiply", operand="tensor", broadcast="per-row"),
        EpilogueStep("scale", "relax.multiply", operand="constant", broadcast="per-channel"),
        *_FLOAT_EPILOGUE,
    ),
    anchor_dtype="int32",
)
CONV2D_DYNAMIC = replace(LINEAR_DYNAMIC, name="arm.conv2d_dynamic", anchor="qdq.conv2d_dynamic", pad=True)
# Composites without a scale, whose result is the int32 sums.
DYNAMIC_SUMS = tuple(
    replace(spec, name=f"{spec.name}_sums", epilogue=()) for spec in (LINEAR_DYNAMIC, CONV2D_DYNAMIC)
)

# Composites stored in float16 and computed in float32: all operators in float16, or float32 with casts around them.
_HALF = "float16"
_FLOATS = ("float32", _HALF)
_ROUNDED = replace(_CAST, to=(_HALF,))

# Attention: Q times the transposed K, scaled, masked, normalised, times V. Keys and values of run time; a product with
# a constant is `LINEAR`.
ATTENTION = CompositeSpec(
    name="arm.attention",
    anchor="relax.matmul",
    constant_operands=(),
    dtypes=_FLOATS,
    epilogue=(
        EpilogueStep("scale", "relax.multiply", operand="constant", broadcast="scalar"),
        EpilogueStep("mask", "relax.add", operand="any", broadcast="any"),
        EpilogueStep("softmax", "relax.nn.softmax", required=True),
        EpilogueStep("values", "relax.matmul", operand="tensor", broadcast="contracted", required=True),
        _ROUNDED,
    ),
    permuted=((0, 1), (1, 2)),
    widened=_HALF,
)

# A product of two run-time tensors outside of attention.
MATMUL_F32 = replace(
    LINEAR,
    name="arm.matmul_f32",
    constant_operands=(),
    epilogue=_FLOAT_EPILOGUE,
    anchor_dtype="float32",
    permuted=ATTENTION.permuted,
)

# Integer accumulators plus an offset (bias and zero points), requantised to 8 bits; then the addition of a residual,
# and the table of an activation.
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
    EpilogueStep(
        "residual",
        "qdq.add",
        operand="tensor",
        broadcast="same-shape",
        retypes=True,
        also=("tosa.add",),
        weighed=True,
    ),
    # Without enough spare registers the table would be loaded again for each 16 outputs. A linear layer then takes
    # 3 to 5 % more instructions than with a separate loop, in which the table stays in registers.
    EpilogueStep("table", "qdq.table", operand="constant", broadcast="any", retypes=True, registers=16),
)
# int16 data is multiplied by int8 weights.
_INTEGER_DATA = (*_8_BIT, "int16")
# Registers that an epilogue may take, out of 32: 16 are accumulators, the fewest that hide the latency of loads, some
# are operands of the tile, and requantisation takes four.
_SPARE_REGISTERS = 8

CONV2D_S8 = CompositeSpec(
    name="arm.conv2d_s8",
    anchor="relax.nn.conv2d",
    constant_operands=(1,),
    dtypes=_INTEGER_DATA,
    epilogue=_INTEGER_EPILOGUE,
    anchor_dtype="int32",
    pad=True,
    spare_registers=_SPARE_REGISTERS,
)

# The zero point of the data is an attribute of the anchor.
CONV2D_TRANSPOSE_S8 = CompositeSpec(
    name="arm.conv2d_transpose_s8",
    anchor="qdq.conv2d_transpose",
    constant_operands=(1,),
    dtypes=_INTEGER_DATA,
    epilogue=_INTEGER_EPILOGUE,
    anchor_dtype="int32",
    spare_registers=_SPARE_REGISTERS,
)

LINEAR_S8 = CompositeSpec(
    name="arm.linear_s8",
    anchor="relax.matmul",
    constant_operands=(1,),
    dtypes=_INTEGER_DATA,
    epilogue=_INTEGER_EPILOGUE,
    anchor_dtype="int32",
    spare_registers=_SPARE_REGISTERS,
)

# A product of two run-time tensors; the zero points are attributes of the anchor.
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

# The sums of an int8 matmul without requantisation; operands 2 and 3 are run-time zero points.
MATMUL_DYNAMIC = replace(
    MATMUL_S8, name="arm.matmul_dynamic", anchor="qdq.matmul_dynamic", epilogue=(), spare_registers=0
)

# The second operand is the table of exponentials.
SOFTMAX_S8 = CompositeSpec(
    name="arm.softmax_s8", anchor="qdq.softmax", constant_operands=(1,), dtypes=_8_BIT, epilogue=()
)

# Operand 2 is the table of reciprocals.
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

# Rows of float32, or of float16 with sums in float32.
ROWS_F32 = tuple(
    CompositeSpec(f"arm.{name}", f"relax.nn.{name}", constants, _FLOATS, (_ROUNDED,), widened=_HALF)
    for name, constants in (("layer_norm", (1, 2)), ("rms_norm", (1,)), ("softmax", ()))
)

ELEMENTWISE_S8 = tuple(
    CompositeSpec(name, anchor, constant_operands=(), dtypes=_8_BIT, epilogue=())
    for name, anchor in (
        *((f"arm.{op}_s8", f"qdq.{op}") for op in ("add", "subtract", "multiply", "table")),
        *((f"arm.tosa_{op}_s8", f"tosa.{op}") for op in ("add", "subtract", "multiply")),
    )
)

# conv1d, which is computed as conv2d; see `schedules.composites.one_axis`.
CONV1D = tuple(
    replace(spec, name=spec.name.replace("conv2d", "conv1d"), anchor=spec.anchor.replace("conv2d", "conv1d"))
    for spec in (*HALF_PRODUCTS, CONV2D, CONV2D_S8, CONV2D_DYNAMIC, *DYNAMIC_SUMS)
    if spec.anchor in ("relax.nn.conv2d", CONV2D_DYNAMIC.anchor)
)

# Recurrent layers over whole sequences; operand 1 holds the recurrent weights.
RECURRENT = tuple(
    CompositeSpec(f"arm.{kind}", f"float.{kind}", constant_operands=(1,), dtypes=("float32",), epilogue=())
    for kind in ("lstm", "gru", "rnn")
)
# Recurrent layers with integer weights; operand 2 holds their scales.
RECURRENT_DYNAMIC = tuple(
    replace(
        spec,
        name=f"{spec.name}_dynamic",
        anchor=spec.anchor.replace("float", "dynamic"),
        constant_operands=(1, 2),
    )
    for spec in RECURRENT
)

# LSTM of 8-bit data with a 16-bit cell; operands 1 to 3 are weights, offsets and tables.
LSTM_S8 = CompositeSpec("arm.lstm_s8", "integer.lstm", (1, 2, 3), ("int16",), ())

# Tree ensembles; the constants are arrays of nodes and leaves, and the initial values of the sums.
TREES = CompositeSpec(
    "arm.tree_ensemble", "float.tree_ensemble", tuple(range(1, 8)), ("float32", "float64"), ()
)

VOCABULARY: tuple[CompositeSpec, ...] = (
    *ELEMENTWISE_S8,
    *HALF_PRODUCTS,
    LINEAR_W8,
    LINEAR_BLOCKS_FLOAT,
    LINEAR_BLOCKS,
    GATHER_BLOCKS,
    LINEAR_DYNAMIC,
    CONV2D_DYNAMIC,
    *DYNAMIC_SUMS,
    LINEAR,
    *CONV1D,
    CONV2D,
    CONV2D_TRANSPOSE,
    ATTENTION,
    MATMUL_F32,
    CONV2D_S8,
    CONV2D_TRANSPOSE_S8,
    LINEAR_S8,
    MATMUL_S8,
    MATMUL_DYNAMIC,
    SOFTMAX_S8,
    TOSA_SOFTMAX_S8,
    *NORMS_S8,
    *ROWS_F32,
    *RECURRENT,
    *RECURRENT_DYNAMIC,
    LSTM_S8,
    TREES,
)
