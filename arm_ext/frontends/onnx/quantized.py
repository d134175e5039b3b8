# SPDX-License-Identifier: Apache-2.0
"""Quantised ONNX operators in QDQ form: each the float operator between DequantizeLinear and QuantizeLinear.

    QLinearConv(x, xs, xz, w, ws, wz, ys, yz, b)
        →  Quantize(Conv(Dequantize(x, xs, xz), Dequantize(w, ws, wz), Dequantize(b, xs * ws)), ys, yz)

    DequantizeLinear(W, a scale per block of rows)    →    Transpose(Reshape(DequantizeLinear(blocks, a scale each)))

An operator whose output is an int32 sum has no output scale, and float32 would lose bits beyond 2^24. It stays integer:
MatMulInteger as it is, ConvInteger as an int32 convolution of operands minus their zero points. If the zero point of
constant weights is computed at run time, it is multiplied by the sums of the data and subtracted from the product:

    matmul(x - xz, w - wz)    =    matmul(x - xz, w) - wz * matmul(x - xz, 1)
"""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import CONTRIB, Expand, Expansion
from arm_ext.frontends.onnx.opset_forms import reduce, standard

# Number of steps between the smallest and the largest uint8.
_UINT8_STEPS = 255.0

# Before this opset, DequantizeLinear has a single scale for the tensor.
_SCALES_ALONG_AN_AXIS = 13

# From this opset on Softmax works along one axis; before, along all axes from `axis` on.
_SOFTMAX_ALONG_ONE_AXIS = 13

_CHANNELS_LAST = "channels_last"

Array = npt.NDArray[Any]

Quantized = tuple[str, str, str]
"""Names of a value, its scale and its zero point."""


def _dequantize(e: Expansion, x: str, scale: str, zero_point: str, axis: int = 0) -> str:
    """Emit DequantizeLinear; `axis` is the axis of a scale with several values."""
    params = [_scalar(e, name) for name in (scale, zero_point) if name]
    return e.emit("DequantizeLinear", [x, *params], axis=axis)


def _quantize(e: Expansion, x: str, scale: str, zero_point: str, like: str) -> None:
    """Emit QuantizeLinear to the node's output; without a zero point, its dtype is that of `like`."""
    zero_point = _scalar(e, zero_point) if zero_point else e.constant(np.zeros((), e.dtype(like)))
    e.emit("QuantizeLinear", [x, _scalar(e, scale), zero_point], e.node.output[0], axis=0)


def _scalar(e: Expansion, name: str) -> str:
    """Return a constant of one element as a scalar; return other values unchanged."""
    value = e.value(name)
    return name if value is None or value.size != 1 or value.ndim == 0 else e.constant(value.reshape(()))


def _product(e: Expansion, a: str, b: str) -> str:
    """Return the float32 product of two scales."""
    left, right = e.value(a), e.value(b)
    if left is None or right is None:
        return e.emit("Mul", [a, b])
    return e.constant(np.asarray(left * right, np.float32))


def _transposed(e: Expansion, matrix: str) -> str:
    value = e.value(matrix)
    return e.emit("Transpose", [matrix], perm=[1, 0]) if value is None else e.constant(value.T.copy())


def _channels_first(e: Expansion, x: str) -> tuple[str, list[int]]:
    """Return the image with its channels in front, and the permutation that puts them back."""
    if not e.attribute(_CHANNELS_LAST, 0):
        return x, []
    last = e.rank(x) - 1
    return e.emit("Transpose", [x], perm=[0, last, *range(1, last)]), [0, *range(2, last + 1), 1]


def _permuted(e: Expansion, y: str, perm: list[int]) -> str:
    return e.emit("Transpose", [y], perm=perm) if perm else y


def by_element(values: Array, block: int, axis: int, length: int) -> Array:
    """Return values, one for each block along an axis, repeated for each element; the last block may be shorter."""
    return values.take(np.arange(length) // block, axis)


def scaled(value: Array, scale: Array, zero: Array) -> Array:
    """Return (value - zero) * scale, float32, of arrays that broadcast."""
    floats: Array = (value.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)
    return floats


def matrix_of_blocks(e: Expansion, value: Array, scale: Array, zero: Array, block: int) -> str:
    """Emit DequantizeLinear of a constant matrix with one scale per block of a row; its integers stay a constant.

    Args:
        e: Emitter at the node that is replaced.
        value: Integers [rows, columns].
        scale: Scales, [rows, blocks].
        zero: Zero points, of the same shape.
        block: Columns of a block; the last may be shorter.
    """
    rows, columns = value.shape
    block = min(block, columns)
    count = -(-columns // block)
    if scale.shape != (rows, count):
        raise ModelError(
            f"its scales have the shape {list(scale.shape)}; expected {[rows, count]}, for blocks of {block}"
        )
    exact = value.astype(np.float64) - by_element(zero.astype(np.float64), block, 1, columns)
    narrow = np.array_equal(exact, np.clip(np.rint(exact), -128, 127))
    if e.opset() < _SCALES_ALONG_AN_AXIS or scale.dtype != np.float32 or not narrow:
        return e.constant(exact.astype(scale.dtype) * by_element(scale, block, 1, columns))
    padded = np.pad(exact.astype(np.int8), ((0, 0), (0, count * block - columns))).reshape(-1, block)
    blocks = e.emit("DequantizeLinear", [e.constant(padded), e.constant(scale.ravel())], axis=0)
    whole = e.emit("Reshape", [blocks, e.constant(np.array([rows, count * block]))])
    if columns == count * block:
        return whole
    return e.emit("Slice", [whole, *(e.constant(np.array([n])) for n in (0, columns, 1))])


def _dequantize_blocks(e: Expansion) -> None:
    """Replace DequantizeLinear of a constant with one scale per block; leave other DequantizeLinear nodes unchanged."""
    block = int(e.attribute("block_size", 0))
    if not block:
        return
    x, scale, zero = e.inputs("x x_scale x_zero_point?")
    value, step = e.known(x), e.known(scale)
    point = e.known(zero) if zero else np.zeros(step.shape, value.dtype)
    axis = int(e.attribute("axis", 1)) % value.ndim
    # Reshape integers, scales and zero points to matrices with the blocks along the rows.
    moved = [np.moveaxis(each, axis, -1) for each in (value, step, point)]
    integers, scales, points = (each.reshape(-1, each.shape[-1]) for each in moved)
    matrix = matrix_of_blocks(e, integers, scales, points, block)
    order = [*range(axis), value.ndim - 1, *range(axis, value.ndim - 1)]
    shaped = e.emit("Reshape", [matrix, e.constant(np.array(moved[0].shape))]) if value.ndim > 2 else matrix
    e.emit("Transpose", [shaped], e.node.output[0], perm=order)


def _conv(e: Expansion) -> None:
    x, xs, xz, w, ws, wz, ys, yz, bias = e.inputs(
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B?"
    )
    image, back = _channels_first(e, x)
    operands = [_dequantize(e, image, xs, xz), _dequantize(e, w, ws, wz)]
    if bias:
        operands.append(_dequantize(e, bias, _product(e, xs, ws), ""))
    y = e.emit("Conv", operands, copied=e.attributes(_CHANNELS_LAST))
    _quantize(e, _permuted(e, y, back), ys, yz, like=x)


def _matmul(e: Expansion) -> None:
    a, sa, za, b, sb, zb, ys, yz = e.inputs(
        "a a_scale a_zero_point b b_scale b_zero_point y_scale y_zero_point"
    )
    for name, side in ((sa, "a"), (sb, "b")):
        if (value := e.value(name)) is not None and value.ndim > 1 and value.size > 1:
            raise ModelError(
                f"{side}_scale has {value.ndim} dimensions; one value or one dimension is supported"
            )
    # The left operand may have one scale per row, the right operand one per column.
    y = e.emit("MatMul", [_dequantize(e, a, sa, za, axis=-2), _dequantize(e, b, sb, zb, axis=-1)])
    _quantize(e, y, ys, yz, like=a)


def _gemm(e: Expansion) -> None:
    a, sa, za, b, sb, zb, c, ys, yz = e.inputs(
        "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?"
    )
    output = "" if ys else e.node.output[0]
    if (alpha := e.attribute("alpha", 1.0)) != 1.0:
        sa = _product(e, e.constant(np.array(alpha, np.float32)), sa)
    left = _dequantize(e, _transposed(e, a) if e.attribute("transA", 0) else a, sa, za)
    right = _dequantize(e, _transposed(e, b) if e.attribute("transB", 0) else b, sb, zb, axis=-1)
    y = e.emit("MatMul", [left, right], "" if c else output)
    if c:
        y = e.emit("Add", [y, _dequantize(e, c, _product(e, sa, sb), "", axis=-1)], output)
    if ys:
        _quantize(e, y, ys, yz, like=a)


def _unary(op: str, e: Expansion) -> None:
    """Emit an operator with one quantised input and one quantised output; the attributes are the float operator's."""
    x, xs, xz, ys, yz = e.inputs("X X_scale X_zero_point? Y_scale Y_zero_point?")
    image, back = _channels_first(e, x)
    y = e.emit(op, [_dequantize(e, image, xs, xz)], copied=e.attributes(_CHANNELS_LAST))
    _quantize(e, _permuted(e, y, back), ys, yz, like=x)


def _softmax(e: Expansion) -> None:
    x, xs, xz, ys, yz = e.inputs("X X_scale X_zero_point? Y_scale Y_zero_point?")
    axis, opset = int(e.attribute("axis", -1)), int(e.attribute("opset", e.opset()))
    along_one, means_one = (version >= _SOFTMAX_ALONG_ONE_AXIS for version in (e.opset(), opset))
    if along_one != means_one and axis not in (-1, e.rank(x) - 1):
        raise ModelError(
            f"its axis {axis} is defined as in opset {opset}, but the model's opset is {e.opset()}"
        )
    y = e.emit("Softmax", [_dequantize(e, x, xs, xz)], axis=axis)
    _quantize(e, y, ys, yz, like=x)


def _reduce_mean(e: Expansion) -> None:
    x, xs, xz, ys, yz = e.inputs("data data_scale data_zero_point? reduced_scale reduced_zero_point?")
    axes = [*map(int, e.numbers("axes"))] or range(e.rank(x))
    y = reduce(e, "ReduceMean", _dequantize(e, x, xs, xz), axes, keepdims=bool(e.attribute("keepdims", 1)))
    _quantize(e, y, ys, yz, like=x)


def _binary(op: str, e: Expansion) -> None:
    a, sa, za, b, sb, zb, sc, zc = e.inputs(
        "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?"
    )
    y = e.emit(op, [_dequantize(e, a, sa, za), _dequantize(e, b, sb, zb)])
    _quantize(e, y, sc, zc, like=a)


def _where(e: Expansion) -> None:
    condition, x, xs, xz, y, ys, yz, zs, zz = e.inputs(
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point"
    )
    z = e.emit("Where", [condition, _dequantize(e, x, xs, xz), _dequantize(e, y, ys, yz)])
    _quantize(e, z, zs, zz, like=x)


def _concat(e: Expansion) -> None:
    count = (len(e.node.input) - 2) // 3
    ys, yz, *parts = e.inputs("Y_scale Y_zero_point" + " x x_scale x_zero_point" * count)
    floats = [_dequantize(e, *part) for part in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]
    _quantize(e, e.emit("Concat", floats, copied=e.attributes()), ys, yz, like=parts[0])


def _dynamic_quantize(e: Expansion) -> None:
    (x,) = e.inputs("x")
    dynamic(e, x, *e.node.output)


def dynamic(e: Expansion, x: str, y: str = "", scale: str = "", zero_point: str = "") -> Quantized:
    """Emit the quantisation of `x` to uint8 over the range of its values, widened to contain 0."""
    zero, one, steps = (e.constant(np.array(v, np.float32)) for v in (0.0, 1.0, _UINT8_STEPS))
    low = e.emit("Min", [e.emit("ReduceMin", [x], keepdims=0), zero])
    high = e.emit("Max", [e.emit("ReduceMax", [x], keepdims=0), zero])
    span = e.emit("Sub", [high, low])
    # If all values are zero, any scale is right; onnxruntime uses 1.
    step = e.emit("Where", [e.emit("Equal", [span, zero]), one, e.emit("Div", [span, steps])], scale)
    # -low / step lies between 0 and 255, so it needs no clip.
    whole = e.emit("Round", [e.emit("Neg", [e.emit("Div", [low, step])])])
    zero_point = e.emit("Cast", [whole], zero_point, to=TensorProto.UINT8)
    return e.emit("QuantizeLinear", [x, step, zero_point], y), step, zero_point


def _conv_integer(e: Expansion) -> None:
    x, w, xz, wz = e.inputs("x w x_zero_point? w_zero_point?")
    weight, value = _int32(e, w), e.value(w)
    image = e.emit("Sub", [_int32(e, x), _int32(e, _scalar(e, xz))]) if xz else _int32(e, x)
    output = e.node.output[0]
    if wz and value is not None and e.value(wz) is None and int(e.attribute("group", 1)) == 1:
        # The weights have one zero point per filter, or one for all filters.
        zero = _reshaped(e, _int32(e, wz), -1, *[1] * (e.rank(w) - 2))
        ones = e.constant(np.ones((1, *value.shape[1:]), np.int32))
        sums = e.emit("Conv", [image, ones], copied=e.attributes())
        total = e.emit("Conv", [image, weight], copied=e.attributes())
        e.emit("Sub", [total, e.emit("Mul", [sums, zero])], output)
        return
    if wz:
        weight = e.emit("Sub", [weight, _reshaped(e, _int32(e, wz), -1, *[1] * (e.rank(w) - 1))])
    e.emit("Conv", [image, weight], output, e.attributes())


def _matmul_integer(e: Expansion) -> None:
    a, b, az, bz = e.inputs("A B a_zero_point? b_zero_point?")
    value = e.value(b)
    if not bz or value is None or e.value(bz) is not None or value.ndim != 2:
        return
    ones = e.constant(np.ones((len(value), 1), value.dtype))
    total, sums = (e.emit("MatMulInteger", [a, right, *[az] * bool(az)]) for right in (b, ones))
    e.emit("Sub", [total, e.emit("Mul", [sums, _int32(e, bz)])], e.node.output[0])


def _reshaped(e: Expansion, x: str, *shape: int) -> str:
    return e.emit("Reshape", [x, e.constant(np.array(shape, np.int64))])


def _int32(e: Expansion, x: str) -> str:
    return e.emit("Cast", [x], to=TensorProto.INT32)


def _matmul_integer_to_float(e: Expansion) -> None:
    a, b, sa, sb, za, zb, bias = e.inputs("A B a_scale b_scale a_zero_point? b_zero_point? bias?")
    _scaled_matmul_integer(e, (a, sa, za), (b, sb, zb), bias)


def _dynamic_quantize_matmul(e: Expansion) -> None:
    a, b, sb, zb, bias = e.inputs("A B b_scale b_zero_point? bias?")
    _scaled_matmul_integer(e, dynamic(e, a), (b, sb, zb), bias)


def _scaled_matmul_integer(e: Expansion, a: Quantized, b: Quantized, bias: str) -> None:
    output = e.node.output[0]
    y = matmul_integer(e, a, b, "" if bias else output)
    if bias:
        e.emit("Add", [y, bias], output)


def matmul_integer(e: Expansion, a: Quantized, b: Quantized, output: str = "") -> str:
    """Emit the float32 product of quantised matrices, each of which is a value, scale and zero point."""
    total = e.emit("Cast", [e.emit("MatMulInteger", [a[0], b[0], a[2], b[2]])], to=TensorProto.FLOAT)
    return e.emit("Mul", [total, _product(e, a[1], b[1])], output)


# (domain, operator) → the function that emits its replacement.
EXPANSIONS: dict[tuple[str, str], Expand] = {
    ("", "ConvInteger"): _conv_integer,
    ("", "DequantizeLinear"): _dequantize_blocks,
    ("", "DynamicQuantizeLinear"): _dynamic_quantize,
    ("", "MatMulInteger"): _matmul_integer,
    ("", "QLinearConv"): _conv,
    ("", "QLinearMatMul"): _matmul,
    (CONTRIB, "DequantizeLinear"): standard,
    (CONTRIB, "DynamicQuantizeMatMul"): _dynamic_quantize_matmul,
    (CONTRIB, "MatMulIntegerToFloat"): _matmul_integer_to_float,
    (CONTRIB, "QGemm"): _gemm,
    (CONTRIB, "QLinearAdd"): partial(_binary, "Add"),
    (CONTRIB, "QLinearAveragePool"): partial(_unary, "AveragePool"),
    (CONTRIB, "QLinearConcat"): _concat,
    (CONTRIB, "QLinearConv"): _conv,
    (CONTRIB, "QLinearGlobalAveragePool"): partial(_unary, "GlobalAveragePool"),
    (CONTRIB, "QLinearLeakyRelu"): partial(_unary, "LeakyRelu"),
    (CONTRIB, "QLinearMul"): partial(_binary, "Mul"),
    (CONTRIB, "QLinearReduceMean"): _reduce_mean,
    (CONTRIB, "QLinearSigmoid"): partial(_unary, "Sigmoid"),
    (CONTRIB, "QLinearSoftmax"): _softmax,
    (CONTRIB, "QLinearWhere"): _where,
    (CONTRIB, "QuantizeLinear"): standard,
}
