# SPDX-License-Identifier: Apache-2.0
"""Operators on float data and 8-bit weights (hybrid, dynamic-range models), computed as by LiteRT's default kernels.

    FULLY_CONNECTED(x, w int8)  →  float(matmul(q - z, w)) * s * scale + bias
    CONV_2D(x, w int8)          →  conv2d((q - z) * s, dequantize(w)) + bias
                                   q = quantize(x, s, z),  s and z from the range of x

LiteRT quantises each image of a convolution, and each row of a matrix, to the 256 steps of int8 between its smallest
and its largest value, 0 included, whatever `asymmetric_quantize_inputs` says. Matrix products, and convolutions of
single pixels, are products of integers. For the others there are float kernels only: differences of such integers are
exact in binary32, so that their product differs from the integer one by the rounding of its sum.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite
from tvm import relax

from arm_ext.frontends.tflite.operands import options_of, shape_of
from arm_ext.frontends.tflite.tensors import resolved

_LEAST, _MOST = -128.0, 127.0
_STEPS = _MOST - _LEAST
_WEIGHT_TYPES = (tflite.TensorType.INT8, tflite.TensorType.INT4)


def product(c: Any, op: Any, numbers: tuple[int, int, int]) -> relax.Expr | None:
    """Return the product of float data and constant weights of at most 8 bits, computed in integers; None for others.

    Args:
        c: A `QdqConverter`.
        op: An operator of data, weights and perhaps a bias.
        numbers: Indices of the data, weights and bias among its inputs.

    Returns:
        Its result; None if it is no such product.
    """
    inputs, code = op.InputsAsNumpy(), c.get_op_code_str(op)
    x, w = (c.tensor(inputs[number]) for number in numbers[:2])
    if not _is_hybrid(x, w) or w.qnn_params["zero_point"].value.numpy().any():
        return None
    weight, scale = c.integers(w), w.qnn_params["scale"].value.numpy()
    rows, options = c.get_expr(x.tensor_idx), None
    if code == "FULLY_CONNECTED":
        options = options_of(op, tflite.FullyConnectedOptions)
        weight = weight.T
    elif code == "CONV_2D" and _is_matrix_product(c, op, x, w):
        options = options_of(op, tflite.Conv2DOptions)
        weight = weight.reshape(len(weight), -1).T
    elif code == "BATCH_MATMUL" and weight.ndim == len("KN"):
        adjoint = options_of(op, tflite.BatchMatMulOptions)
        rank = len(shape_of(x))
        if adjoint.AdjX():
            rows = c.bb.emit(relax.op.permute_dims(rows, [*range(rank - 2), rank - 1, rank - 2]))
        weight = weight.T if adjoint.AdjY() else weight
    else:
        return None
    rows = c.bb.emit(relax.op.reshape(rows, (-1, weight.shape[0])))
    q, point, step = _integers(rows, (-1,))
    exact, zero_point = (relax.op.astype(relax.op.astype(v, "int8"), "int32") for v in (q, point))
    centred = relax.op.subtract(exact, zero_point)
    total = relax.op.matmul(centred, relax.const(weight.astype(np.int32)), out_dtype="int32")
    y = relax.op.multiply(relax.op.multiply(relax.op.astype(total, "float32"), step), relax.const(scale))
    if len(inputs) > numbers[2] and inputs[numbers[2]] >= 0:
        y = relax.op.add(y, c.get_expr(inputs[numbers[2]]))
    if options is not None:
        y = c.convert_fused_activation_function(c.bb.normalize(y), options.FusedActivationFunction())
    lead, width = shape_of(x)[:-1], weight.shape[1]
    count = math.prod(shape_of(x)) // weight.shape[0] * width
    return relax.op.reshape(y, resolved(c.tensor(op.Outputs(0)), count, (*lead, width)))


def _is_hybrid(data: Any, weight: Any) -> bool:
    quantized = weight.qnn_params is not None and weight.tensor.Type() in _WEIGHT_TYPES
    return bool(quantized and data.tensor.Type() == tflite.TensorType.FLOAT32)


def round_data(c: Any, op: Any, data: Any, weight: Any) -> relax.Expr | None:
    """Return float data rounded to 8 bits, for a product with constant 8-bit weights; None for other operators.

    Args:
        c: A `QdqConverter`.
        op: An operator of data and weights.
        data: The data tensor of the file.
        weight: The weight tensor of the file.

    Returns:
        A value of the data's shape; None if LiteRT's kernels do not round it.
    """
    if not _is_hybrid(data, weight):
        return None
    value, code = c.get_expr(data.tensor_idx), c.get_op_code_str(op)
    if code == "FULLY_CONNECTED":
        rows = c.bb.normalize(relax.op.reshape(value, (-1, shape_of(weight)[1])))
        return relax.op.reshape(_by_reciprocal(rows, (-1,)), shape_of(data))
    if code == "BATCH_MATMUL":
        adjoint = options_of(op, tflite.BatchMatMulOptions).AdjX()
        return _by_reciprocal(value, (-2,) if adjoint else (-1,))
    if code == "CONV_2D" and _is_matrix_product(c, op, data, weight):
        return _by_reciprocal(value, (-1,))
    # XNNPACK has no depthwise convolution of this kind, so LiteRT's own kernel runs.
    return (_by_step if code == "DEPTHWISE_CONV_2D" else _by_reciprocal)(value, (1, 2, 3))


def _is_matrix_product(c: Any, op: Any, data: Any, weight: Any) -> bool:
    """Whether a convolution has a 1 x 1 kernel, so that XNNPACK computes it as a matrix product."""
    options = options_of(op, tflite.Conv2DOptions)
    _, *window, depth = shape_of(weight)
    return (*window, options.StrideH(), options.StrideW()) == (1, 1, 1, 1) and depth == shape_of(data)[-1]


def _range(x: relax.Expr, axes: Sequence[int]) -> tuple[relax.Expr, relax.Expr]:
    """Emit the minimum and the maximum along axes, each with 0 included."""
    zero = relax.const(0.0, "float32")
    low = relax.op.minimum(relax.op.min(x, list(axes), keepdims=True), zero)
    return low, relax.op.maximum(relax.op.max(x, list(axes), keepdims=True), zero)


def _by_reciprocal(x: relax.Expr, axes: Sequence[int]) -> relax.Expr:
    """Quantise the data by `_integers`, and dequantise the result."""
    q, point, step = _integers(x, axes)
    return relax.op.multiply(relax.op.subtract(q, point), step)


def _integers(x: relax.Expr, axes: Sequence[int]) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
    """Emit XNNPACK's quantisation: multiply by steps per unit, round half to even, then add the zero point.

    Returns:
        Values and zero points, integers as float32, and the steps.
    """
    low, high = _range(x, axes)
    least, most, steps, one, zero = (relax.const(v, "float32") for v in (_LEAST, _MOST, _STEPS, 1.0, 0.0))
    unit = relax.op.where(
        relax.op.equal(low, high), one, relax.op.divide(steps, relax.op.subtract(high, low))
    )
    below, above = (relax.op.multiply(end, unit) for end in (low, high))
    # The zero point is derived from the end of the range that gives the smaller rounding error.
    errors = relax.op.add(relax.op.add(least, below), relax.op.add(most, above))
    point = relax.op.where(
        relax.op.greater(errors, zero), relax.op.subtract(least, below), relax.op.subtract(most, above)
    )
    point = relax.op.round(relax.op.clip(point, _LEAST, _MOST))
    rounded = relax.op.round(relax.op.multiply(x, unit))
    q = relax.op.clip(relax.op.add(rounded, point), _LEAST, _MOST)
    return q, point, relax.op.divide(one, unit)


def _by_step(x: relax.Expr, axes: Sequence[int]) -> relax.Expr:
    """Quantise the data as LiteRT's own kernels do, and dequantise the result.

    Step and zero point are in binary64; the zero point is added first, then half is rounded away from zero.
    """
    low, high = (relax.op.astype(end, "float64") for end in _range(x, axes))
    least, most, steps, one, zero = (relax.const(v, "float64") for v in (_LEAST, _MOST, _STEPS, 1.0, 0.0))
    flat = relax.op.equal(low, high)
    step = relax.op.where(flat, one, relax.op.divide(relax.op.subtract(high, low), steps))
    from_low = relax.op.subtract(least, relax.op.divide(low, step))
    from_high = relax.op.subtract(most, relax.op.divide(high, step))
    # |least| + |low / step| < |most| + |high / step|
    nearer = relax.op.less(
        relax.op.negative(relax.op.divide(low, step)),
        relax.op.add(relax.op.divide(high, step), relax.const(_MOST + _LEAST, "float64")),
    )
    point = relax.op.clip(_away(relax.op.where(nearer, from_low, from_high), "float64"), _LEAST, _MOST)
    point = relax.op.astype(relax.op.where(flat, zero, point), "float32")
    step = relax.op.astype(step, "float32")
    scaled = relax.op.multiply(x, relax.op.divide(relax.const(1.0, "float32"), step))
    held = relax.op.clip(_away(relax.op.add(scaled, point), "float32"), _LEAST, _MOST)
    return relax.op.multiply(relax.op.subtract(held, point), step)


def _away(x: relax.Expr, dtype: str) -> relax.Expr:
    """Round half away from zero."""
    half = relax.op.floor(relax.op.add(relax.op.abs(x), relax.const(0.5, dtype)))
    return relax.op.multiply(relax.op.sign(x), half)
