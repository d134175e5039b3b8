# SPDX-License-Identifier: Apache-2.0
"""Math functions composed from those that TVM generates code for.

Functions of angles have an error of some 2^-22 of the result in binary32.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from tvm import relax
from tvm.ir import Expr, GenericConst

from arm_ext.common.errors import ModelError

R = relax.op

# Cephes, atanf: the polynomial for |x| ≤ tan(pi / 8), from its highest power, in x² and times x³.
ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)


_EXPONENT_BITS = 6
"""Bits of the exponents that are computed: no integer type holds 2 to the 64th."""

_LARGE = 1e9
"""Number from which on x² + 1 rounds to x², in binary64 as well."""


class Emitter(Protocol):
    """Interface that a front end offers to these functions: it binds calls in the function that it builds."""

    def emit(self, expr: Expr) -> Expr:
        """Bind a call to a variable."""

    def number(self, value: float, like: Expr) -> Expr:
        """Return a constant scalar of another value's dtype."""


@dataclass(frozen=True)
class BlockEmitter:
    """Emitter that binds calls in the function which a block builder has open."""

    builder: relax.BlockBuilder

    def emit(self, expr: Expr) -> Expr:
        """Bind a call to a variable."""
        return self.builder.emit(expr)

    def number(self, value: float, like: Expr) -> Expr:
        """Return a constant scalar of another value's dtype."""
        return relax.const(value, str(like.ty.dtype))


def in_float32(function: Callable[..., Expr]) -> Callable[..., Expr]:
    """Return a function that computes another one in float32 for float16 and bfloat16, and casts its result back."""

    def wide(t: Emitter, *operands: Expr) -> Expr:
        dtype = str(operands[0].ty.dtype)
        if dtype not in ("float16", "bfloat16"):
            return function(t, *operands)
        singles = [t.emit(R.astype(x, "float32")) for x in operands]
        return R.astype(t.emit(function(t, *singles)), dtype)

    return wide


def expm1(t: Emitter, x: Expr) -> Expr:
    """Emit exp(x) - 1 as (u - 1) (x / log(u)), u = exp(x).

    This is accurate in spite of the rounding of u (Higham, Accuracy and Stability, 1.14.1).
    """
    one = t.number(1, x)
    u = t.emit(R.exp(x))
    less = t.emit(R.subtract(u, one))
    # In this order nothing overflows but u.
    ratio = t.emit(R.multiply(less, t.emit(R.divide(x, t.emit(R.log(u))))))
    rounded = t.emit(
        R.logical_or(t.emit(R.equal(less, t.number(-1, x))), t.emit(R.equal(u, t.number(math.inf, x))))
    )
    return R.where(t.emit(R.equal(u, one)), x, t.emit(R.where(rounded, less, ratio)))


def log1p(t: Emitter, x: Expr) -> Expr:
    """Emit log(1 + x) as log(u) (x / (u - 1)), u = 1 + x."""
    one = t.number(1, x)
    u = t.emit(R.add(one, x))
    less = t.emit(R.subtract(u, one))
    ratio = t.emit(R.multiply(t.emit(R.log(u)), t.emit(R.divide(x, less))))
    exact = t.emit(R.logical_or(t.emit(R.equal(u, one)), t.emit(R.equal(x, t.number(math.inf, x)))))
    return R.where(exact, x, ratio)


def half_away(t: Emitter, x: Expr) -> Expr:
    """Round half away from zero."""
    cut = t.emit(R.trunc(x))
    rest = t.emit(R.abs(t.emit(R.subtract(x, cut))))
    step = t.emit(R.where(t.emit(R.less(rest, t.number(0.5, x))), t.number(0, x), t.emit(R.sign(x))))
    return R.add(cut, step)


def cube_root(t: Emitter, x: Expr) -> Expr:
    """Return the cube root, with the sign of x."""
    root = t.emit(R.power(t.emit(R.abs(x)), t.number(1 / 3, x)))
    return R.multiply(t.emit(R.sign(x)), root)


def power(t: Emitter, x: Expr, y: Expr) -> Expr:
    """Return x**y; one of integers is exact where its type holds it, by squaring, and wraps around elsewhere.

    A negative exponent gives 0, and so does one of 64 and more, unless x² is 1.
    """
    if not str(x.ty.dtype).startswith(("int", "uint")):
        return R.power(x, y)
    count = _known_exponent(x, y)
    if 0 < count < 1 << _EXPONENT_BITS:
        return _multiplied(t, x, count)
    one, zero = t.number(1, x), t.number(0, x)
    result, factor = one, x
    for k in range(_EXPONENT_BITS):
        bit = t.emit(R.bitwise_and(t.emit(R.right_shift(y, t.number(k, y))), one))
        result = t.emit(R.where(t.emit(R.equal(bit, one)), t.emit(R.multiply(result, factor)), result))
        factor = t.emit(R.multiply(factor, factor))
    fits = t.emit(R.equal(t.emit(R.right_shift(y, t.number(_EXPONENT_BITS, y))), zero))
    is_unit = t.emit(R.equal(t.emit(R.multiply(x, x)), one))
    return R.where(t.emit(R.logical_or(fits, is_unit)), result, zero)


def _known_exponent(x: Expr, y: Expr) -> int:
    """Return the only number of a constant y that does not enlarge x by broadcasting; 0 for any other."""
    values = y.value.numpy() if isinstance(y, GenericConst) else np.zeros(0)
    sizes = list(x.ty.shape)[len(x.ty.shape) - values.ndim :]
    fits = values.ndim <= len(x.ty.shape) and all(
        n == 1 or n == m for n, m in zip(values.shape, sizes, strict=True)
    )
    return int(values.flat[0]) if fits and len(np.unique(values)) == 1 else 0


def _multiplied(t: Emitter, x: Expr, count: int) -> Expr:
    """Return the power of x by a known exponent of 1 and more."""
    factor, result = x, None
    while count:
        if count % 2:
            result = factor if result is None else t.emit(R.multiply(result, factor))
        count //= 2
        factor = t.emit(R.multiply(factor, factor)) if count else factor
    assert result is not None  # the highest bit of the exponent is 1
    return result


def atan2(t: Emitter, y: Expr, x: Expr) -> Expr:
    """Emit the angle of (x, y).

    It is the angle from the nearer axis, by the polynomial for |x| ≤ tan(pi / 8) after one more rotation.
    """
    zero, one = t.number(0, x), t.number(1, x)
    sizes = [t.emit(R.abs(v)) for v in (x, y)]
    low, high = t.emit(R.minimum(*sizes)), t.emit(R.maximum(*sizes))
    safe = t.emit(R.where(t.emit(R.equal(high, zero)), one, high))
    ratio = t.emit(
        R.where(t.emit(R.equal(low, high)), t.emit(R.divide(safe, safe)), t.emit(R.divide(low, safe)))
    )
    ratio = t.emit(R.where(t.emit(R.equal(high, zero)), zero, ratio))
    turn = t.emit(R.greater(ratio, t.number(math.tan(math.pi / 8), x)))
    turned = t.emit(R.divide(t.emit(R.subtract(ratio, one)), t.emit(R.add(ratio, one))))
    z = t.emit(R.where(turn, turned, ratio))
    square = t.emit(R.multiply(z, z))
    total: Expr = t.number(ATAN[0], x)
    for number in ATAN[1:]:
        total = t.emit(R.add(t.emit(R.multiply(total, square)), t.number(number, x)))
    angle = t.emit(R.add(z, t.emit(R.multiply(z, t.emit(R.multiply(square, total))))))
    angle = t.emit(R.add(angle, t.emit(R.where(turn, t.number(math.pi / 4, x), zero))))
    steep = t.emit(R.greater(sizes[1], sizes[0]))
    angle = t.emit(R.where(steep, t.emit(R.subtract(t.number(math.pi / 2, x), angle)), angle))
    back = t.emit(R.less(x, zero))
    angle = t.emit(R.where(back, t.emit(R.subtract(t.number(math.pi, x), angle)), angle))
    return R.where(t.emit(R.less(y, zero)), t.emit(R.negative(angle)), angle)


def atan(t: Emitter, x: Expr) -> Expr:
    """Emit the arc tangent of x: the angle of (1, x)."""
    return atan2(t, x, t.number(1, x))


def asin(t: Emitter, x: Expr) -> Expr:
    """Emit the arc sine of x: the angle of (sqrt(1 - x²), x)."""
    one = t.number(1, x)
    squared = t.emit(R.multiply(t.emit(R.subtract(one, x)), t.emit(R.add(one, x))))
    return atan2(t, x, t.emit(R.sqrt(squared)))


def acos(t: Emitter, x: Expr) -> Expr:
    """Emit the arc cosine of x: the angle of (x, sqrt(1 - x²))."""
    one = t.number(1, x)
    squared = t.emit(R.multiply(t.emit(R.subtract(one, x)), t.emit(R.add(one, x))))
    return atan2(t, t.emit(R.sqrt(squared)), x)


def hyperbolic(sign: int) -> Callable[[Emitter, Expr], Expr]:
    """Return an emitter of sinh (sign -1) or of cosh - 1 (sign 1).

    Both are (expm1(|x|) ± expm1(-|x|)) / 2, which loses no precision near 0.
    """

    def function(t: Emitter, x: Expr) -> Expr:
        size = t.emit(R.abs(x))
        parts = [t.emit(expm1(t, v)) for v in (size, t.emit(R.negative(size)))]
        total = t.emit((R.add if sign > 0 else R.subtract)(*parts))
        half = t.emit(R.multiply(t.number(0.5, x), total))
        return R.add(half, t.number(1, x)) if sign > 0 else R.multiply(t.emit(R.sign(x)), half)

    return function


def _bits(t: Emitter, x: Expr) -> int:
    dtype = np.dtype(str(x.ty.dtype))
    if dtype.kind not in "iu":
        raise ModelError(f"it counts the bits of {dtype}; only those of integers can be counted")
    return dtype.itemsize * 8


def shift_right_logical(t: Emitter, x: Expr, count: Expr) -> Expr:
    """Emit a right shift that fills with zeros, as that of unsigned integers."""
    dtype = str(x.ty.dtype)
    if dtype.startswith("u"):
        return R.right_shift(x, count)
    bits, shift = (t.emit(R.astype(value, f"u{dtype}")) for value in (x, count))
    return R.astype(t.emit(R.right_shift(bits, shift)), dtype)


def asinh(t: Emitter, x: Expr) -> Expr:
    """Emit the inverse hyperbolic sine: log1p(|x| + x² / (1 + sqrt(x² + 1))), log(2 |x|) for large x; sign of x."""
    one, size = t.number(1, x), t.emit(R.abs(x))
    small = t.emit(R.minimum(size, t.number(_LARGE, x)))
    square = t.emit(R.multiply(small, small))
    root = t.emit(R.add(one, t.emit(R.sqrt(t.emit(R.add(square, one))))))
    rest = t.emit(R.add(small, t.emit(R.divide(square, root))))
    far = t.emit(R.add(t.emit(R.log(size)), t.number(math.log(2), x)))
    is_large = t.emit(R.greater(size, t.number(_LARGE, x)))
    return R.multiply(t.emit(R.sign(x)), t.emit(R.where(is_large, far, t.emit(log1p(t, rest)))))


def acosh(t: Emitter, x: Expr) -> Expr:
    """Emit the inverse hyperbolic cosine: log1p(d + sqrt(d) sqrt(x + 1)), d = x - 1; log(2 x) for large x."""
    one = t.number(1, x)
    above = t.emit(R.subtract(x, one))
    roots = [t.emit(R.sqrt(each)) for each in (above, t.emit(R.add(x, one)))]
    near = t.emit(log1p(t, t.emit(R.add(above, t.emit(R.multiply(*roots))))))
    far = t.emit(R.add(t.emit(R.log(x)), t.number(math.log(2), x)))
    return R.where(t.emit(R.greater(x, t.number(_LARGE, x))), far, near)


def atanh(t: Emitter, x: Expr) -> Expr:
    """Emit the inverse hyperbolic tangent of x: (log1p(x) - log1p(-x)) / 2."""
    parts = [t.emit(log1p(t, v)) for v in (x, t.emit(R.negative(x)))]
    return R.multiply(t.number(0.5, x), t.emit(R.subtract(*parts)))


def count_ones(t: Emitter, x: Expr) -> Expr:
    """Return the number of set bits."""
    total, one = t.emit(R.bitwise_and(x, t.number(1, x))), t.number(1, x)
    for k in range(1, _bits(t, x)):
        bit = t.emit(R.bitwise_and(t.emit(R.right_shift(x, t.number(k, x))), one))
        total = t.emit(R.add(total, bit))
    return total


def count_leading_zeros(t: Emitter, x: Expr) -> Expr:
    """Return the number of leading zero bits."""
    width, shift = _bits(t, x), 1
    while shift < width:
        x = t.emit(R.bitwise_or(x, t.emit(R.right_shift(x, t.number(shift, x)))))
        shift *= 2
    return R.subtract(t.number(width, x), t.emit(count_ones(t, x)))


FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atan2": atan2,
    "atanh": atanh,
    "cosh": hyperbolic(1),
    "expm1": expm1,
    "log1p": log1p,
    "sinh": hyperbolic(-1),
}
"""Functions for which TVM generates no code, or code that is not exact near 0."""
