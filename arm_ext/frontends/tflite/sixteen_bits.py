# SPDX-License-Identifier: Apache-2.0
"""Functions of 16-bit tensors, computed as LiteRT does: by tables and fixed-point arithmetic.

    LOGISTIC, TANH              where the scale is a power of two that gemmlowp's fixed-point functions take: these, as
                                a table of all values; else a table of 256, between which it is interpolated
    EXP, GELU, LOG, RSQRT       a table of 513 values, likewise
    SOFTMAX                     such tables of exp and of 1 / (1 + x)

LiteRT's results differ from the exact functions by up to 12 of 65,536 steps, and those of log and rsqrt near 0 by
thousands.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax

from arm_ext.frontends.tflite import fixed_point
from arm_ext.frontends.tflite.integers import (
    interpolated,
    look_up,
    of_each,
    saturated,
    scaled,
    whole,
)
from arm_ext.frontends.tflite.operands import Convert, options_of

_R = relax.op
_Array = npt.NDArray[np.float64]

_OUTPUT_SCALE = 2.0**-15
"""Output scale of LOGISTIC, TANH and SOFTMAX."""
_FIXED_SCALE = 2.0**-12
"""Scale of int16 fixed-point numbers with 3 integer bits."""
_LEAST_EXPONENT = -10.0
"""Argument of the first entry of softmax's table of exp."""
_GELU_CUBIC = 0.044715


def is_of_16_bits(c: Any, op: Any) -> bool:
    """Whether an operator's data and result are quantised in 16 bits with zero point 0."""
    tensors = [c.tensor(op.Inputs(0)), c.tensor(op.Outputs(0))]
    return all(
        t.qnn_params and t.tensor.Type() == tflite.TensorType.INT16 and not _quantization(t)[1]
        for t in tensors
    )


def _quantization(tensor: Any) -> tuple[float, int]:
    scale, zero_point = (tensor.qnn_params[key].value.numpy() for key in ("scale", "zero_point"))
    return float(scale.item()), int(zero_point.item())


def _scales(c: Any, op: Any) -> tuple[float, float]:
    x, y = (_quantization(c.tensor(number))[0] for number in (op.Inputs(0), op.Outputs(0)))
    return x, y


def _power_of_two(scale: float) -> int | None:
    """Return n if a scale is 2**n times the scale of the fixed-point functions; None for other scales."""
    bits = math.log2(scale / _FIXED_SCALE)
    return round(bits) if abs(bits - round(bits)) < fixed_point.ALMOST else None


def _logistic(c: Any, op: Any) -> relax.Expr | None:
    x, y = _scales(c, op)
    if y != _OUTPUT_SCALE:
        return None
    data = c.value(op.Inputs(0))
    if _power_of_two(x) == 0:
        return of_each(fixed_point.fixed_logistic(), data)
    # 16 fractional bits of the table and 9 bits of the interpolation give 25, of which 15 remain.
    return _between(c, data, x, 9, (0x7FFF << 10, 1 << 9, (1 << 25) + (1 << 9) - 1, 10))


def _tanh(c: Any, op: Any) -> relax.Expr | None:
    x, y = _scales(c, op)
    if y != _OUTPUT_SCALE:
        return None
    data, bits = c.value(op.Inputs(0)), _power_of_two(x)
    if bits in (0, 1):
        every = np.clip(fixed_point.every_value() << bits, fixed_point.LEAST, fixed_point.MOST)
        return of_each(fixed_point.fixed_tanh(3)[every - fixed_point.LEAST], data)
    # tanh(x) = 2 logistic(2x) - 1
    return _between(c, data, x, 8, (0xFFFF << 8, -(1 << 23) + (1 << 7), (1 << 23) + (1 << 7) - 1, 8))


def _between(
    c: Any, data: relax.Expr, scale: float, bits: int, form: tuple[int, int, int, int]
) -> relax.Expr:
    """Return a 256-entry table interpolated at |data| / scale, and mirrored for negative data.

    Args:
        c: The converter.
        data: The int16 tensor.
        scale: Scale of the data.
        bits: Bits of the fraction between two entries of the table.
        form: Value beyond the table, number added to the result, number that the result is subtracted from for negative
            data, and bits of the shift that follows.
    """
    beyond, after, before, down = form
    multiplier, shift = scale / _FIXED_SCALE * 3, 0
    while multiplier <= fixed_point.MOST / 2 and shift <= 30:
        multiplier, shift = 2 * multiplier, shift + 1
    x = _R.multiply(_R.astype(data, "int32"), whole(int(multiplier)))
    if shift:
        x = _R.right_shift(_R.add(x, whole(1 << (shift - 1))), whole(shift))
    x = c.bb.emit(x)
    size = c.bb.emit(_R.abs(x))
    table = fixed_point.sigmoid_table()
    place = c.bb.emit(_R.minimum(_R.right_shift(size, whole(bits)), whole(table.size - 1)))
    base = np.append(table[:-1] << bits, beyond).astype(np.int32)
    slope = np.append(np.diff(table), 0).astype(np.int32)
    rest = _R.bitwise_and(size, whole((1 << bits) - 1))
    y = c.bb.emit(_R.add(look_up(base, place), _R.multiply(look_up(slope, place), rest)))
    y = _R.where(_R.less(x, whole(0)), _R.subtract(whole(before), y), _R.add(y, whole(after)))
    return _R.astype(_R.right_shift(y, whole(down)), "int16")


def _softmax(c: Any, op: Any) -> relax.Expr | None:
    x, y = _scales(c, op)
    if y != _OUTPUT_SCALE:
        return None
    beta = options_of(op, tflite.SoftmaxOptions).Beta()
    data = c.bb.emit(_R.astype(c.value(op.Inputs(0)), "int32"))
    below = _R.subtract(data, _R.max(data, [-1], keepdims=True))
    at = _R.add(
        scaled(below, fixed_point.scale_of(x, beta, 1.0) * (2**16 - 1) / -_LEAST_EXPONENT),
        whole(fixed_point.MOST),
    )
    at = _R.maximum(at, whole(fixed_point.LEAST))
    powers = c.bb.emit(interpolated(c, fixed_point.table_of(np.exp, _LEAST_EXPONENT, 0.0, _OUTPUT_SCALE), at))
    total = c.bb.emit(_R.sum(powers, [-1], keepdims=True))
    width = c.bb.emit(_bits(c, total))
    # The sum as 1 + fraction; the fraction is rounded from 30 to 16 bits.
    aligned = _R.left_shift(_R.astype(total, "int64"), _R.astype(_R.subtract(whole(31), width), "int64"))
    rounded = _R.right_shift(_R.add(aligned, whole(1 << 13, "int64")), whole(14, "int64"))
    at = _R.subtract(_R.astype(rounded, "int32"), whole((1 << 15) + (1 << 16)))
    at = _R.minimum(_R.maximum(at, whole(fixed_point.LEAST)), whole(fixed_point.MOST))
    inverse = interpolated(c, fixed_point.table_of(lambda v: 1 / (1 + v), 0.0, 1.0, _OUTPUT_SCALE), at)
    product = _R.multiply(_R.astype(powers, "int64"), _R.astype(inverse, "int64"))
    down = c.bb.emit(_R.astype(_R.subtract(width, whole(1)), "int64"))
    half = _R.left_shift(whole(1, "int64"), _R.subtract(down, whole(1, "int64")))
    result = c.bb.emit(_R.right_shift(_R.add(product, half), down))
    return saturated(c.bb.emit(_R.maximum(result, whole(0, "int64"))), "int16")


def _bits(c: Any, x: relax.Expr) -> relax.Expr:
    """Emit the number of significant bits of positive int32 values."""
    count = whole(1)
    for bits in range(1, 31):
        count = c.bb.emit(_R.add(count, _R.astype(_R.greater_equal(x, whole(1 << bits)), "int32")))
    return count


def _gelu(c: Any, op: Any) -> Callable[[_Array, float], _Array]:
    if options_of(op, tflite.GeluOptions).Approximate():
        return lambda x, _: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + _GELU_CUBIC * x**3)))
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return lambda x, _: np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))


def _positive(function: Callable[[_Array], _Array], otherwise: int) -> Callable[[_Array, float], _Array]:
    """Return a function that applies `function` to positive numbers, and gives `otherwise` · scale for others."""
    return lambda x, scale: np.where(x > 0, function(np.where(x > 0, x, 1)), otherwise * scale)


_FUNCTIONS: dict[str, Callable[[Any, Any], Callable[[_Array, float], _Array]]] = {
    "EXP": lambda _c, _op: lambda x, _: np.exp(x),
    "GELU": _gelu,
    "LOG": lambda _c, _op: _positive(np.log, fixed_point.LEAST),
    "RSQRT": lambda _c, _op: _positive(lambda x: 1 / np.sqrt(x), fixed_point.MOST),
}


def _tabulated(c: Any, op: Any) -> relax.Expr:
    x, y = _scales(c, op)
    function = _FUNCTIONS[c.get_op_code_str(op)](c, op)
    low, high = fixed_point.LEAST * x, fixed_point.MOST * x
    # LiteRT computes a range of 65,536 units, but it has 65,535 steps.
    table = fixed_point.table_of(lambda v: function(v, y), low, high, y * (2**16 - 1) / 2**16)
    return _R.astype(interpolated(c, table, _R.astype(c.value(op.Inputs(0)), "int32")), "int16")


SIXTEEN_BITS: dict[str, Convert] = {
    "LOGISTIC": _logistic,
    "SOFTMAX": _softmax,
    "TANH": _tanh,
    **dict.fromkeys(_FUNCTIONS, _tabulated),
}
"""TFLite's operator name → converter to integers, which returns None where LiteRT has no kernel for the scales."""
