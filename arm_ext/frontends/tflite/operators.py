# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that TVM's converters take for something else, or write in a way that TVM has no loops for.

They see float tensors only; see `converter`.
"""

from typing import Any

import tflite
from tvm import relax

from arm_ext.frontends.tflite.detection import detection_postprocess
from arm_ext.frontends.tflite.forms import Convert, shape_of
from arm_ext.frontends.tflite.moves import MOVES
from arm_ext.frontends.tflite.recurrent import RECURRENT

_NHWC_TO_NCHW, _NCHW_TO_NHWC, _OHWI_TO_IOHW = (0, 3, 1, 2), (0, 2, 3, 1), (3, 0, 1, 2)


def _identity(c: Any, op: Any) -> relax.Expr:
    return c.get_tensor_expr(c.get_input_tensors(op)[0])


def _dequantize(c: Any, op: Any) -> relax.Expr:
    (data,) = c.get_input_tensors(op)
    # Upstream's is for weights in half precision; what is quantised is dequantised wherever it is used.
    return c.convert_dequantize(op) if data.tensor.Type() == tflite.TensorType.FLOAT16 else _identity(c, op)


def _reshape(c: Any, op: Any) -> relax.Expr:
    """To the declared shape: upstream's takes no -1, and a SQUEEZE of all axes for one of none."""
    (output,) = c.get_output_tensors(op)
    return relax.op.reshape(_identity(c, op), shape_of(output))


def _softmax(c: Any, op: Any) -> relax.Expr:
    """Upstream takes beta for 1."""
    beta, value = c._get_builtin_options(op, tflite.SoftmaxOptions).Beta(), _identity(c, op)
    scaled = value if beta == 1 else relax.op.multiply(value, relax.const(beta, "float32"))
    return relax.op.nn.softmax(scaled, -1)


def _gelu(c: Any, op: Any) -> relax.Expr:
    """Upstream does not know of the approximate form."""
    approximate = c._get_builtin_options(op, tflite.GeluOptions).Approximate()
    return (relax.op.nn.gelu_tanh if approximate else relax.op.nn.gelu)(_identity(c, op))


def _nms_v4(c: Any, op: Any) -> relax.Expr:
    return _places_from_0(c, c.convert_nms_v4(op))


def _nms_v5(c: Any, op: Any) -> relax.Expr:
    return _places_from_0(c, c.convert_nms_v5(op))


def _places_from_0(c: Any, found: relax.Tuple) -> relax.Expr:
    """Behind the last box that is found indices are 0; upstream has -1 there."""
    places, *others = found.fields
    return relax.Tuple(
        [relax.op.maximum(places, relax.const(0, str(c.bb.normalize(places).ty.dtype))), *others]
    )


def _fully_connected(c: Any, op: Any) -> relax.Expr:
    """Upstream does not flatten its input."""
    data, weight = c.get_input_tensors(op)[:2]
    (output,) = c.get_output_tensors(op)
    depth = shape_of(weight)[1]
    if len(shape_of(output)) == 2 and shape_of(data)[1:] != (depth,):
        c.show(data.tensor_idx, relax.op.reshape(c.get_tensor_expr(data), (-1, depth)))
    return c.convert_fully_connected(op)


def _batch_matmul(c: Any, op: Any) -> relax.Expr:
    """Upstream asks a reshaped tensor for its shape before it has one."""
    options = c._get_builtin_options(op, tflite.BatchMatMulOptions)
    sides = [c.get_tensor_expr(tensor) for tensor in c.get_input_tensors(op)]
    for number, swapped in enumerate((options.AdjX(), options.AdjY())):
        if swapped:
            rank = len(sides[number].ty.shape)
            sides[number] = relax.op.permute_dims(sides[number], [*range(rank - 2), rank - 1, rank - 2])
    return relax.op.matmul(*sides)


def _transpose_conv(c: Any, op: Any) -> relax.Expr:
    """In NCHW, which TVM has loops for; upstream's has no activation and no output padding."""
    _, weight, data, *bias = c.get_input_tensors(op)
    (output,) = c.get_output_tensors(op)
    options = c._get_builtin_options(op, tflite.TransposeConvOptions)
    strides = options.StrideH(), options.StrideW()
    sizes = zip(shape_of(data)[1:3], strides, shape_of(weight)[1:3], shape_of(output)[1:3], strict=True)
    surplus = [(size - 1) * stride + kernel - out for size, stride, kernel, out in sizes]
    before = [max(rows, 0) // 2 for rows in surplus]
    after = [max(rows, 0) - first for rows, first in zip(surplus, before, strict=True)]
    y = relax.op.nn.conv2d_transpose(
        relax.op.permute_dims(c.get_tensor_expr(data), _NHWC_TO_NCHW),
        relax.op.permute_dims(c.get_tensor_expr(weight), _OHWI_TO_IOHW),
        strides=strides,
        padding=[*before, *after],
        output_padding=[max(-rows, 0) for rows in surplus],
    )
    y = relax.op.permute_dims(y, _NCHW_TO_NHWC)
    if bias:
        y = relax.op.add(y, c.get_tensor_expr(bias[0]))
    return c.convert_fused_activation_function(y, options.FusedActivationFunction())


OWN: dict[str, Convert] = {
    **MOVES,
    **RECURRENT,
    "BATCH_MATMUL": _batch_matmul,
    "DEQUANTIZE": _dequantize,
    "DETECTION_POSTPROCESS": detection_postprocess,
    "EXPAND_DIMS": _reshape,
    "FULLY_CONNECTED": _fully_connected,
    "GELU": _gelu,
    "NON_MAX_SUPPRESSION_V4": _nms_v4,
    "NON_MAX_SUPPRESSION_V5": _nms_v5,
    "QUANTIZE": _identity,
    "RESHAPE": _reshape,
    "SOFTMAX": _softmax,
    "SQUEEZE": _reshape,
    "TRANSPOSE_CONV": _transpose_conv,
}
"""TFLite's operator name → what converts it."""
