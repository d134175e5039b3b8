# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one 16-bit tensor: TABLE, which interpolates between 513 entries, then RESCALE.

    table[k] = saturate(rne(f(fl((128 * k - 2**15 - zx) * xs)) / ys * 2**b))    b = 0, or 7 for a result of 8 bits
    t        = table[k] * 2**7 + (table[k + 1] - table[k]) * (q mod 2**7)       k = (q + 2**15) >> 7
    y        = saturate(rescale(t, 2**-(7 + b)) + zy)

f is computed in binary64. If f is linear between two entries, y is within one unit of f.
"""

from collections.abc import Sequence

import numpy as np
from tvm import ir, te, tirx

from schedules.numerics.qdq.table import Real
from schedules.numerics.qdq.values import Array, Quantization, dequantize, limits
from schedules.numerics.routine import FUSED, Routine, routine

PLACE_BITS = 7
"""Bits of a value's position between two entries."""

_LEAST, _MOST = limits("int16")
_FRACTION_BITS = {"int8": 7, "uint8": 7, "int16": 0}


def entries(function: Real, x: Quantization, y: Quantization) -> Array:
    """Compute the table, int16 [513].

    Raises:
        ValueError: The dtype of y is not supported, or y has 16 bits and a zero point; or `function` is NaN for some
            entry, or changes by more than 16 bits between two entries.
    """
    if y.dtype not in _FRACTION_BITS or (y.dtype == "int16" and y.zero_point):
        raise ValueError(f"a 16-bit table cannot produce {y.dtype} with zero point {y.zero_point}")
    places = np.arange(_LEAST, _MOST + 2, 1 << PLACE_BITS)
    with np.errstate(all="ignore"):  # overflowing values saturate
        real = function(dequantize(places, x).astype(np.float64))
    if np.isnan(real).any():
        raise ValueError("the function is NaN for some of the 513 entries")
    low, high = (np.ldexp(limit - y.zero_point, _FRACTION_BITS[y.dtype]) for limit in limits(y.dtype))
    found = np.clip(np.rint(np.ldexp(real / y.scale, _FRACTION_BITS[y.dtype])), low, high)
    steepest = int(np.abs(np.diff(found)).max())
    if steepest > _MOST:
        raise ValueError(
            f"the function changes by {steepest} between two entries of its table, more than {_MOST}"
        )
    return np.asarray(found.astype(np.int16))


def interpolated(table: Array, q: Array, y: Quantization) -> Array:
    """Compute the function of each value by interpolation between table entries."""
    wide, at = table.astype(np.int64), (q.astype(np.int64) - _LEAST) >> PLACE_BITS
    t = (wide[at] << PLACE_BITS) + (wide[at + 1] - wide[at]) * (q & (1 << PLACE_BITS) - 1)
    shift = PLACE_BITS + _FRACTION_BITS[y.dtype]
    return np.asarray(
        np.clip(((t + (1 << shift - 1)) >> shift) + y.zero_point, *limits(y.dtype)).astype(y.dtype)
    )


def interpolated_routine(shape: Sequence[int], x: Quantization, y: Quantization, function: Real) -> Routine:
    """Return a routine that computes `interpolated`; the table is its constant, attributes are shift, y_zero_point.

    Raises:
        ValueError: See `entries`.
    """
    shift = PLACE_BITS + _FRACTION_BITS.get(y.dtype, 0)
    table = entries(function, x, y)
    q = te.placeholder(shape, x.dtype, "q")
    values = te.placeholder(table.shape, "int16", "table")
    low, high = limits(y.dtype)

    def value(*i: tirx.Var) -> ir.Expr:
        wide = tirx.Cast("int32", q(*i))
        at = tirx.shift_right(wide - _i32(_LEAST), _i32(PLACE_BITS))
        base, after = (tirx.Cast("int32", values(index)) for index in (at, at + _i32(1)))
        place = tirx.bitwise_and(wide, _i32((1 << PLACE_BITS) - 1))
        t = tirx.shift_left(base, _i32(PLACE_BITS)) + (after - base) * place
        rounded = tirx.shift_right(t + _i32(1 << shift - 1), _i32(shift)) + _i32(y.zero_point)
        return tirx.Cast(y.dtype, tirx.max(tirx.min(rounded, _i32(high)), _i32(low)))

    out = te.compute(shape, value, "look_up")
    parameters = {"shift": shift, "y_zero_point": y.zero_point}
    return routine("tosa.table", [q, values, out], [table], pattern=FUSED, **parameters)


def _i32(value: int) -> ir.Expr:
    return tirx.IntImm("int32", value)
