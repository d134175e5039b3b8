# SPDX-License-Identifier: Apache-2.0
"""The fixed-point arithmetic of LiteRT's kernels, as Relax calls in int32 and int64."""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax

from arm_ext.frontends.tflite import fixed_point
from arm_ext.frontends.tflite.operands import take

_R = relax.op

_FRACTION = 31
"""Fractional bits of a multiplier."""
_INTERPOLATED = 7
"""Bits of a 16-bit value by which LiteRT interpolates between two entries of a table."""


def whole(value: int | npt.NDArray[Any], dtype: str = "int32") -> relax.Expr:
    """Return an integer or an array of integers as a constant."""
    return relax.const(np.asarray(value, dtype), dtype)


def saturated(x: relax.Expr, dtype: str) -> relax.Expr:
    """Clip values to the range of a narrower dtype, and convert them to it."""
    limits = np.iinfo(dtype)
    wide = str(x.ty.dtype) if x.ty is not None else "int32"
    held = _R.minimum(_R.maximum(x, whole(limits.min, wide)), whole(limits.max, wide))
    return _R.astype(held, dtype)


def product(
    x: relax.Expr, zero_point: int, weights: npt.NDArray[Any], bias: npt.NDArray[Any] | None = None
) -> relax.Expr:
    """Return (x - zero_point) · weightsᵀ + bias as int32, for int8 data x."""
    matrix = np.ascontiguousarray(weights.T).astype(np.int32)
    # Kernel patterns match these casts to the accumulators' dtype, which all front ends emit for integer products.
    total = _R.matmul(_R.astype(x, "int32"), relax.const(matrix), out_dtype="int32")
    shift = (0 if bias is None else bias) - zero_point * weights.sum(-1, dtype=np.int64)
    return _R.add(total, whole(shift)) if shift.any() else total


def scaled(x: relax.Expr, scale: float | npt.NDArray[np.float64]) -> relax.Expr:
    """Multiply int32 values by a scale, or by one scale per element of the last axis, rounded as in LiteRT.

    The multiplication by 31 bits rounds half up, a further shift half away from 0.
    """
    found = np.array([fixed_point.multiplier_of(float(one)) for one in np.atleast_1d(scale)])
    multiplier, shift = found.T
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    wide = _R.multiply(_R.astype(x, "int64"), whole(multiplier << left, "int64"))
    y = _R.right_shift(_R.add(wide, whole(1 << (_FRACTION - 1), "int64")), whole(_FRACTION, "int64"))
    if right.any():
        # Elements with shift 0 are not rounded.
        sign = _R.bitwise_and(
            _R.right_shift(y, whole(63, "int64")), whole(-(right > 0).astype(np.int64), "int64")
        )
        half = whole(np.where(right > 0, 1 << np.maximum(right - 1, 0), 0), "int64")
        y = _R.right_shift(_R.add(_R.add(y, half), sign), whole(right, "int64"))
    return _R.astype(y, "int32")


def shifted(x: relax.Expr, bits: int, dtype: str = "int32") -> relax.Expr:
    """Divide values by 2^bits, rounding half away from zero."""
    sign = _R.right_shift(x, whole(np.iinfo(dtype).bits - 1, dtype))
    return _R.right_shift(_R.add(_R.add(x, whole(1 << (bits - 1), dtype)), sign), whole(bits, dtype))


def look_up(table: npt.NDArray[Any], places: relax.Expr) -> relax.Expr:
    """Return table entries at indices as int32; indices must be in bounds."""
    return _R.astype(take(relax.const(table), places, 0), "int32")


def of_each(table: npt.NDArray[np.int16], x: relax.Expr) -> relax.Expr:
    """Return the entry of each int16 value in a table of 65,536 entries."""
    places = _R.subtract(_R.astype(x, "int32"), whole(fixed_point.LEAST))
    return take(relax.const(table), places, 0)


def interpolated(c: Any, table: npt.NDArray[np.int16], x: relax.Expr) -> relax.Expr:
    """Interpolate in a table of 513 entries at 16-bit values, given as int32."""
    x = c.bb.emit(x)
    place = c.bb.emit(_R.add(_R.right_shift(x, whole(_INTERPOLATED)), whole(fixed_point.STEPS // 2)))
    slope = look_up(np.diff(table.astype(np.int32)), place)
    rest = _R.bitwise_and(x, whole((1 << _INTERPOLATED) - 1))
    half = whole(1 << (_INTERPOLATED - 1))
    rise = _R.right_shift(_R.add(_R.multiply(slope, rest), half), whole(_INTERPOLATED))
    return _R.add(look_up(table[:-1], place), rise)
