# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that TVM's converters take for something else, or write in a way that TVM has no loops for.

They see float tensors only; see `tflite_converter`.
"""

from collections.abc import Callable
from typing import Any

import tflite
from tvm import relax

from arm_ext.errors import ModelError

Convert = Callable[[Any, Any], relax.Expr]
"""From a `QdqConverter` and an operator to its result."""

_NHWC_TO_NCHW, _NCHW_TO_NHWC, _OHWI_TO_IOHW = (0, 3, 1, 2), (0, 2, 3, 1), (3, 0, 1, 2)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape that the model declares for a tensor."""
    return tuple(int(size) for size in tensor.tensor.ShapeAsNumpy()) if tensor.tensor.ShapeLength() else ()


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
    beta = c._get_builtin_options(op, tflite.SoftmaxOptions).Beta()
    if beta != 1:
        raise ModelError(f"its beta is {beta}; 1 is taken")
    return c.convert_softmax(op)


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
    "BATCH_MATMUL": _batch_matmul,
    "DEQUANTIZE": _dequantize,
    "EXPAND_DIMS": _reshape,
    "FULLY_CONNECTED": _fully_connected,
    "QUANTIZE": _identity,
    "RESHAPE": _reshape,
    "SOFTMAX": _softmax,
    "SQUEEZE": _reshape,
    "TRANSPOSE_CONV": _transpose_conv,
}
"""TFLite's operator name → what converts it."""
