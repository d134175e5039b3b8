# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that TVM's converters misinterpret, or convert to operators that cannot be lowered.

They see float tensors only; see `converter`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.codes import CUSTOM
from arm_ext.frontends.tflite.control import GRAPHS
from arm_ext.frontends.tflite.detection import NAME as DETECTION
from arm_ext.frontends.tflite.detection import detection_postprocess
from arm_ext.frontends.tflite.integers import saturated, scaled, whole
from arm_ext.frontends.tflite.moves import MOVES
from arm_ext.frontends.tflite.operands import Convert, data_of, options_of, shape_of
from arm_ext.frontends.tflite.recurrent import RECURRENT
from arm_ext.frontends.tflite.resources import RESOURCES
from arm_ext.frontends.tflite.spectral import SPECTRAL
from arm_ext.frontends.tflite.svdf import svdf
from arm_ext.frontends.tflite.tensors import constant, is_complex, resolved
from arm_ext.frontends.tflite.vocabulary import VOCABULARY

_PADDING_SAME = 1
"""Value for SAME padding in the options of MediaPipe's operators."""

_NHWC_TO_NCHW, _NCHW_TO_NHWC, _OHWI_TO_IOHW = (0, 3, 1, 2), (0, 2, 3, 1), (3, 0, 1, 2)


def _identity(c: Any, op: Any) -> relax.Expr:
    return c.get_tensor_expr(c.get_input_tensors(op)[0])


def _dequantize(c: Any, op: Any) -> relax.Expr:
    (data,) = c.get_input_tensors(op)
    # Upstream's converter handles binary16 weights; quantised values are dequantised by each operator that reads them.
    return c.convert_dequantize(op) if data.tensor.Type() == tflite.TensorType.FLOAT16 else _identity(c, op)


def _quantize(c: Any, op: Any) -> relax.Expr:
    """Emit a quantise between 8 bits and float as QDQ; from or to 16 and 32 bits in LiteRT's integer arithmetic."""
    x, y = c.tensor(op.Inputs(0)), c.tensor(op.Outputs(0))
    kinds = {x.tensor.Type(), y.tensor.Type()}
    is_own = c.whole.own_integers and tflite.TensorType.FLOAT32 not in kinds
    if tflite.TensorType.INT32 not in kinds and not (is_own and tflite.TensorType.INT16 in kinds):
        return _identity(c, op)
    (scale, zero_point), (to_scale, to_zero) = (_affine(t.tensor) for t in (x, y))
    centred = relax.op.subtract(relax.op.astype(c.value(x.tensor_idx), "int32"), whole(zero_point))
    found = c.bb.emit(relax.op.add(scaled(centred, scale / to_scale), whole(to_zero)))
    dtype = c.get_tensor_type_str(y.tensor.Type())
    return found if dtype == "int32" else saturated(found, dtype)


def _affine(tensor: Any) -> tuple[float, int]:
    """Return scale and zero point of a tensor of any dtype."""
    found = tensor.Quantization()
    if found is None or found.ScaleLength() != 1:
        raise ModelError("its data and its result must have one scale each; one of them has none or several")
    return float(found.Scale(0)), int(found.ZeroPoint(0)) if found.ZeroPointLength() else 0


def _reshape(c: Any, op: Any) -> relax.Expr:
    """Convert RESHAPE, SQUEEZE and EXPAND_DIMS. TVM's converter rejects -1 and a SQUEEZE without listed axes."""
    shape, own = c.shape(op.Inputs(0)), c.tensor(op.Outputs(0))
    wanted: list[int] | None = None
    if c.get_op_code_str(op) == "EXPAND_DIMS":
        wanted, axis = list(shape), int(c.known(op.Inputs(1)).reshape(()))
        wanted.insert(axis if axis >= 0 else axis + len(shape) + 1, 1)
    elif op.InputsLength() > 1 and (given := c.known(op.Inputs(1))) is not None:
        wanted = given.tolist()
    elif c.get_op_code_str(op) == "SQUEEZE":
        options = options_of(op, tflite.SqueezeOptions)
        listed = options.SqueezeDimsAsNumpy() if options.SqueezeDimsLength() else range(len(shape))
        axes = {int(axis) % len(shape) for axis in listed}
        wanted = [size for axis, size in enumerate(shape) if size != 1 or axis not in axes]
    pair = (2,) if is_complex(own) else ()
    return relax.op.reshape(_identity(c, op), (*resolved(own, math.prod(shape), wanted), *pair))


def _prelu(c: Any, op: Any) -> relax.Expr:
    """Convert PRELU without flattening its data, as TVM's converter does: that would prevent fusion with a product."""
    data, slopes = c.get_input_tensors(op)
    if math.prod(shape_of(slopes)[:-1]) != 1 or not shape_of(slopes):
        return c.convert_prelu(op)
    return relax.op.nn.prelu(
        c.get_tensor_expr(data), relax.op.reshape(c.get_tensor_expr(slopes), (-1,)), axis=-1
    )


def _nms_v4(c: Any, op: Any) -> relax.Expr:
    return _places_from_0(c, c.convert_nms_v4(op))


def _nms_v5(c: Any, op: Any) -> relax.Expr:
    return _places_from_0(c, c.convert_nms_v5(op))


def _places_from_0(c: Any, found: relax.Tuple) -> relax.Expr:
    """Replace indices of -1 by 0: TVM fills the indices after the last found box with -1, and TFLite with 0."""
    places, *others = found.fields
    return relax.Tuple(
        [relax.op.maximum(places, relax.const(0, str(c.bb.normalize(places).ty.dtype))), *others]
    )


def _fully_connected(c: Any, op: Any) -> relax.Expr:
    """Convert FULLY_CONNECTED; its input is flattened here, since TVM's converter does not."""
    data, weight = c.get_input_tensors(op)[:2]
    if weight.tensor.Type() == tflite.TensorType.INT4 and not weight.qnn_params:
        raise ModelError(
            "its 4-bit weights have one scale for each block of a row, which is not supported: quantise them with a "
            "scale for each row (per channel)"
        )
    (output,) = c.get_output_tensors(op)
    depth = shape_of(weight)[1]
    if len(shape_of(output)) == 2 and shape_of(data)[1:] != (depth,):
        c.show(data.tensor_idx, relax.op.reshape(c.get_tensor_expr(data), (-1, depth)))
    return c.convert_fully_connected(op)


def _where(c: Any, op: Any) -> relax.Expr:
    """Refuse WHERE, whose result has as many rows as its condition has true elements."""
    raise ModelError(
        "the size of its result depends on the data, and a compiled model has static shapes: end the model at its "
        "condition, and find the indices in the program that calls it"
    )


def _batch_matmul(c: Any, op: Any) -> relax.Expr:
    """Convert BATCH_MATMUL; TVM's converter reads the shape of a reshaped tensor before it is inferred."""
    options = options_of(op, tflite.BatchMatMulOptions)
    sides = [c.get_tensor_expr(tensor) for tensor in c.get_input_tensors(op)]
    for number, swapped in enumerate((options.AdjX(), options.AdjY())):
        if swapped:
            rank = len(sides[number].ty.shape)
            sides[number] = relax.op.permute_dims(sides[number], [*range(rank - 2), rank - 1, rank - 2])
    return relax.op.matmul(*sides)


def _transpose_conv(c: Any, op: Any) -> relax.Expr:
    _, weight, data, *bias = c.get_input_tensors(op)
    size = c.known(op.Inputs(0))
    wide = c.shape(op.Outputs(0)) if size is None else tuple(size.tolist())
    options = options_of(op, tflite.TransposeConvOptions)
    y = _transposed(c, (data, weight, *bias), wide, (options.StrideH(), options.StrideW()))
    return c.convert_fused_activation_function(y, options.FusedActivationFunction())


def _transpose_conv_bias(c: Any, op: Any) -> relax.Expr:
    """Convert MediaPipe's operator; its options are the padding and the strides along width and height, as int32."""
    padding, *strides = (int(value) for value in op.CustomOptionsAsNumpy().view(np.int32))
    data, weight, *bias = c.get_input_tensors(op)
    kernel = (0, 0) if padding == _PADDING_SAME else shape_of(weight)[1:3]
    # TVM reads the sizes in NHWC order. With "VALID", a window wider than the stride adds the difference.
    rows, columns = (
        size * stride + max(window - stride, 0)
        for size, stride, window in zip(shape_of(data)[1:3], reversed(strides), kernel, strict=True)
    )
    wide = (shape_of(data)[0], rows, columns, shape_of(weight)[0])
    return _transposed(c, (data, weight, *bias), wide, (strides[1], strides[0]))


def _transposed(c: Any, operands: Sequence[Any], wide: Sequence[int], strides: tuple[int, int]) -> relax.Expr:
    """Convert a transposed convolution in NCHW; TVM's converter supports neither activation nor output padding."""
    data, weight, *bias = operands
    sizes = zip(shape_of(data)[1:3], strides, shape_of(weight)[1:3], wide[1:3], strict=True)
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
    return relax.op.add(y, c.get_tensor_expr(bias[0])) if bias else y


def _fill(c: Any, op: Any) -> relax.Expr:
    """Convert FILL with a run-time value and constant sizes."""
    sizes = c.known(op.Inputs(0))
    if sizes is None:
        raise ModelError("its sizes are computed at run time; they must be constants")
    _, value = c.get_input_tensors(op)
    return relax.op.broadcast_to(data_of(c, value), [int(size) for size in sizes])


def _densify(c: Any, op: Any) -> relax.Expr:
    """Convert DENSIFY of constant sparse weights to a dense constant."""
    c.convert_densify(op)
    return constant(np.asarray(c.get_prefetched_node(op.Outputs(0))))


OWN: dict[str, Convert] = {
    **MOVES,
    **VOCABULARY,
    **GRAPHS,
    **RECURRENT,
    **RESOURCES,
    **SPECTRAL,
    "BATCH_MATMUL": _batch_matmul,
    f"{CUSTOM}{DETECTION}": detection_postprocess,
    "DENSIFY": _densify,
    "DEQUANTIZE": _dequantize,
    f"{CUSTOM}Convolution2DTransposeBias": _transpose_conv_bias,
    "EXPAND_DIMS": _reshape,
    "FILL": _fill,
    "FULLY_CONNECTED": _fully_connected,
    "NON_MAX_SUPPRESSION_V4": _nms_v4,
    "NON_MAX_SUPPRESSION_V5": _nms_v5,
    "PRELU": _prelu,
    "QUANTIZE": _quantize,
    "RESHAPE": _reshape,
    "SQUEEZE": _reshape,
    "SVDF": svdf,
    "TRANSPOSE_CONV": _transpose_conv,
    "WHERE": _where,
}
"""TFLite's operator name → its converter."""
