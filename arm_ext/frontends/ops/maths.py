# SPDX-License-Identifier: Apache-2.0
"""Functions of real numbers: TVM's own, and functions composed of them.

Errors are relative to the result, in binary32; each function takes float16 and bfloat16 by way of it. Functions of
angles have an error of 6 units of 2^-24, those of exponentials and logarithms of 12. exp overflows at 88.376, a third
of a percent below the logarithm of the greatest number.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from arm_ext.frontends.graph import Value
from arm_ext.frontends.ops.arithmetic import (
    absolute,
    cast,
    elementwise,
    equal,
    is_float,
    maximum,
    minimum,
    opposite_of,
    sign_bit,
    sign_or_zero,
    where,
)

R = relax.op
Function = Callable[..., Value]

# Cephes, atanf: coefficients of a polynomial in x², multiplied by x³, for |x| ≤ tan(pi / 8); highest power first.
ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)

_EXPONENT_BITS = 6
"""Bits of the exponents that are computed: no integer type holds 2 to the 64th."""

_LARGE = 1e9
"""Number from which on x² + 1 rounds to x², in binary64 as well."""

_NARROW = ("float16", "bfloat16")

cos, erf, exp, log, rsqrt, sin, sqrt, tan, tanh = map(
    elementwise, (R.cos, R.erf, R.exp, R.log, R.rsqrt, R.sin, R.sqrt, R.tan, R.tanh)
)
sigmoid = elementwise(R.sigmoid)


def in_float32(function: Function) -> Function:
    """Return a function that computes float16 and bfloat16 in float32, and casts the result back."""

    @functools.wraps(function)
    def wide(*operands: Any) -> Value:
        dtype = operands[0].dtype
        if dtype not in _NARROW:
            return function(*operands)
        return cast(function(*(cast(x, "float32") if isinstance(x, Value) else x for x in operands)), dtype)

    return wide


@in_float32
def expm1(x: Value) -> Value:
    """Return exp(x) - 1 as (u - 1) (x / log(u)), u = exp(x).

    This is accurate in spite of the rounding of u (Higham, Accuracy and Stability, 1.14.1).
    """
    u = exp(x)
    less = u - 1
    # In this order, only u can overflow.
    ratio = less * (x / log(u))
    rounded = equal(less, -1) | equal(u, math.inf)
    return where(equal(u, 1), x, where(rounded, less, ratio))


@in_float32
def log1p(x: Value) -> Value:
    """Return log(1 + x) as log(u) (x / (u - 1)), u = 1 + x."""
    u = 1 + x
    ratio = log(u) * (x / (u - 1))
    return where(equal(u, 1) | equal(x, math.inf), x, ratio)


@in_float32
def cube_root(x: Value) -> Value:
    """Return the cube root, with the sign of x."""
    return sign_or_zero(x) * x.graph.apply(R.power, absolute(x), 1 / 3)


def exp2(x: Value) -> Value:
    """Return 2 to the power of x."""
    return x.graph.apply(R.power, 2, x)


def erfc(x: Value) -> Value:
    """Return 1 - erf(x), or 1 + erf(-x) if x is a negation, with an absolute error of about 2^-23."""
    opposite = opposite_of(x)
    return 1 - erf(x) if opposite is None else 1 + erf(opposite)


def power(x: Value, y: Value) -> Value:
    """Return x**y; for integers it is computed by squaring, and wraps around on overflow.

    A negative exponent gives 0, and so does one of 64 and more, unless x² is 1.
    """
    if is_float(x):
        return x.graph.apply(R.power, x, y)
    count = _known_exponent(x, y)
    if 0 < count < 1 << _EXPONENT_BITS:
        return _multiplied(x, count)
    result, factor = x.number(1), x
    for k in range(_EXPONENT_BITS):
        result = where(equal((y >> k) & 1, 1), result * factor, result)
        factor = factor * factor
    return where(equal(y >> _EXPONENT_BITS, 0) | equal(x * x, 1), result, 0)


def _known_exponent(x: Value, y: Value) -> int:
    """Return the number that all elements of y equal, if y is constant and does not broadcast x; else 0."""
    values = y.constant()
    if values is None or len(np.unique(values)) != 1:
        return 0
    fits = values.ndim <= len(x.small) and all(
        n in (1, m) for n, m in zip(values.shape, x.small[len(x.small) - values.ndim :], strict=True)
    )
    return int(values.flat[0]) if fits else 0


def _multiplied(x: Value, count: int) -> Value:
    """Return x to the power of a known exponent of at least 1, by squaring."""
    factor, result = x, None
    while count:
        if count % 2:
            result = factor if result is None else result * factor
        count //= 2
        factor = factor * factor if count else factor
    assert result is not None  # the highest bit of the exponent is 1
    return result


@in_float32
def hypot(x: Value, y: Value) -> Value:
    """Return m · sqrt(1 + (n / m)²), with m and n the larger and smaller magnitude, because squares would overflow.

    An infinity and a NaN give infinity.
    """
    x, y = absolute(x), absolute(y)
    greater = maximum(x, y)
    ratio = where(equal(greater, 0), 0, minimum(x, y) / greater)
    root = sqrt(ratio * ratio + 1)
    return where(equal(x, math.inf) | equal(y, math.inf), math.inf, greater * root)


@in_float32
def atan2(y: Value, x: Value) -> Value:
    """Return the angle of (x, y), with the signs that IEEE 754 gives it for zeros and infinities."""
    angle = _angle(absolute(y), absolute(x))
    angle = where(sign_bit(x), math.pi - angle, angle)
    return where(sign_bit(y), -angle, angle)


def _angle(height: Value, width: Value) -> Value:
    """Return the angle of (width, height), both of which are at least 0.

    It is the angle from the nearer axis, by the polynomial for |x| ≤ tan(pi / 8) after one more rotation.
    """
    low, high = minimum(width, height), maximum(width, height)
    ratio = where(equal(high, 0), 0, where(equal(low, high), 1, low / high))
    is_turned = ratio > math.tan(math.pi / 8)
    z = where(is_turned, (ratio - 1) / (ratio + 1), ratio)
    square = z * z
    total = square * ATAN[0] + ATAN[1]
    for number in ATAN[2:]:
        total = total * square + number
    angle = z + z * (square * total)
    angle = angle + where(is_turned, angle.number(math.pi / 4), 0)
    return where(height > width, math.pi / 2 - angle, angle)


@in_float32
def atan(x: Value) -> Value:
    """Return the arc tangent of x: the angle of (1, x)."""
    angle = _angle(absolute(x), x.number(1))
    return where(x < 0, -angle, angle)


@in_float32
def asin(x: Value) -> Value:
    """Return the arc sine of x: the angle of (sqrt(1 - x²), x)."""
    angle = _angle(absolute(x), sqrt((1 - x) * (1 + x)))
    return where(x < 0, -angle, angle)


@in_float32
def acos(x: Value) -> Value:
    """Return the arc cosine of x: the angle of (x, sqrt(1 - x²))."""
    angle = _angle(sqrt((1 - x) * (1 + x)), absolute(x))
    return where(x < 0, math.pi - angle, angle)


@in_float32
def sinh(x: Value) -> Value:
    """Return (expm1(|x|) - expm1(-|x|)) / 2 with the sign of x, which loses no precision near 0."""
    size = absolute(x)
    return sign_or_zero(x) * (0.5 * (expm1(size) - expm1(-size)))


@in_float32
def cosh(x: Value) -> Value:
    """Return (expm1(|x|) + expm1(-|x|)) / 2 + 1."""
    size = absolute(x)
    return 0.5 * (expm1(size) + expm1(-size)) + 1


@in_float32
def asinh(x: Value) -> Value:
    """Return log1p(|x| + x² / (1 + sqrt(x² + 1))), or log(2 |x|) for large x, with the sign of x."""
    size = absolute(x)
    small = minimum(size, _LARGE)
    square = small * small
    near = log1p(small + square / (1 + sqrt(square + 1)))
    return sign_or_zero(x) * where(size > _LARGE, log(size) + math.log(2), near)


@in_float32
def acosh(x: Value) -> Value:
    """Return log1p(d + sqrt(d) sqrt(x + 1)) with d = x - 1, or log(2 x) for large x."""
    above = x - 1
    near = log1p(above + sqrt(above) * sqrt(x + 1))
    return where(x > _LARGE, log(x) + math.log(2), near)


@in_float32
def atanh(x: Value) -> Value:
    """Return (log1p(x) - log1p(-x)) / 2."""
    return 0.5 * (log1p(x) - log1p(-x))
