# SPDX-License-Identifier: Apache-2.0
"""Softmax along one axis of an 8-bit tensor, in operators of TOSA: 8-bit tables and no division.

    e[d] = min(rne(2**15 * exp(-d * xs)), 2**15 - 1)          d = max - q; TABLEs of e's upper 8 and lower 7 bits
    S    = sum of e along the axis                            REDUCE_SUM
    z    = leading zeros of S                                 CLZ
    n    = S << (z - 1)                                       from 2**30 to 2**31 - 1
    r    = r[t], t = min((n - 2**30 + 2**21) >> 22, 255)      RESCALE to 8 bits, TABLE: 2**38 / n to 8 bits
    R    = (r * ((2**24 - (n >> 15) * r) >> 2)) >> 14         a Newton step: 2**45 / n to 15 bits
    q    = saturate(rescale((e * R) >> (30 - z), 1 / (2**16 * ys)) + zy)

with r[t] = min(rne(2**8 / (1 + t / 256)), 255). q is within one unit of the real softmax.
"""

from collections.abc import Callable, Sequence

import numpy as np
from tvm import ir, te, tirx

from schedules.numerics.qdq.values import Array, Quantization, every_value, limits
from schedules.numerics.routine import FUSED_ALONE, Routine, routine
from schedules.numerics.tosa.rescale import rescale, rescale_tir, saturate_tir, scale_of

SHARE_BITS = 15
_MOST = (1 << SHARE_BITS) - 1
MAX_LENGTH = (1 << 31) // (1 << SHARE_BITS)
"""Largest length of the axis, so that the sum fits in int32."""


def exponentials(x: Quantization) -> Array:
    """Compute the table e, int32 [256].

    Raises:
        ValueError: x is not of 8 bits.
    """
    distance = np.arange(every_value(x.dtype).size, dtype=np.float64)
    e = np.rint((_MOST + 1) * np.exp(-distance * x.scale))
    return np.asarray(np.minimum(e, _MOST).astype(np.int32))


def reciprocals() -> Array:
    """Compute the table r, int32 [256]."""
    r = np.rint(256 / (1 + np.arange(256) / 256))
    return np.asarray(np.minimum(r, 255).astype(np.int32))


def output_scale(y: Quantization) -> float:
    """Return the scale of (e * R) >> (30 - z) relative to y's scale: 1 / (2**16 * ys)."""
    return 1 / (float(y.scale) * (1 << (SHARE_BITS + 1)))


def softmax(q: Array, axis: int, x: Quantization, y: Quantization) -> Array:
    """Compute the softmax of quantised values by the module's definition."""
    wide = q.astype(np.int64)
    e = exponentials(x)[wide.max(axis, keepdims=True) - wide].astype(np.int64)
    total = e.sum(axis, keepdims=True)
    zeros = 31 - np.floor(np.log2(total)).astype(np.int64)
    n = total << (zeros - 1)
    r = reciprocals().astype(np.int64)[np.minimum((n - (1 << 30) + (1 << 21)) >> 22, 255)]
    inverse = (r * (((1 << 24) - (n >> 15) * r) >> 2)) >> 14
    share = (e * inverse) >> (30 - zeros)
    scale = scale_of(output_scale(y))
    whole = rescale(share, scale.multiplier, scale.shift) + y.zero_point
    return np.asarray(np.clip(whole, *limits(y.dtype)).astype(y.dtype))


def softmax_routine(shape: Sequence[int], axis: int, x: Quantization, y: Quantization) -> Routine:
    """Return a routine that computes `softmax`.

    Its constants are the tables e and r, its attributes axis and the RESCALE and zero point of y.

    Raises:
        ValueError: x is not of 8 bits, or the axis is longer than `MAX_LENGTH`.
    """
    axis %= len(shape)
    if shape[axis] > MAX_LENGTH:
        raise ValueError(f"a softmax of {shape[axis]} elements; sums in 32 bits allow {MAX_LENGTH}")
    q = te.placeholder(shape, x.dtype, "q")
    e = te.placeholder((256,), "int32", "exponentials")
    r = te.placeholder((256,), "int32", "reciprocals")
    rest = [*shape[:axis], *shape[axis + 1 :]]

    def at(i: Sequence[ir.Expr], k: ir.Expr) -> ir.Expr:
        return tirx.Cast("int32", q(*i[:axis], k, *i[axis:]))

    k_max, k_sum = (te.reduce_axis((0, shape[axis]), name) for name in ("k_max", "k_sum"))
    top = te.compute(rest, lambda *i: te.max(at(i, k_max), axis=k_max), "top")
    total = te.compute(rest, lambda *i: te.sum(e(top(*i) - at(i, k_sum)), axis=k_sum), "total")
    zeros = te.compute(rest, lambda *i: tirx.Cast("int32", tirx.clz(total(*i))), "zeros")
    inverse = te.compute(rest, lambda *i: inverse_tir(total(*i), zeros(*i), r), "inverse")
    scale = scale_of(output_scale(y))

    def value(*i: ir.Expr) -> ir.Expr:
        others = (*i[:axis], *i[axis + 1 :])
        product = e(top(*others) - at(others, i[axis])) * inverse(*others)
        share = tirx.shift_right(product, _i32(30) - zeros(*others))
        return saturate_tir(
            rescale_tir(share, scale.multiplier, scale.shift), y.zero_point, *limits(y.dtype), y.dtype
        )

    out = te.compute(shape, value, "softmax")
    return routine(
        "tosa.softmax",
        [q, e, r, out],
        [exponentials(x), reciprocals()],
        pattern=FUSED_ALONE,
        axis=axis,
        y_multiplier=scale.multiplier,
        y_shift=scale.shift,
        y_zero_point=y.zero_point,
    )


def inverse_tir(total: ir.Expr, zeros: ir.Expr, reciprocal: Callable[[ir.Expr], ir.Expr]) -> ir.Expr:
    """Return the TIR expression of R, for S, z and the table r, in int32."""
    n = tirx.shift_left(total, zeros - _i32(1))
    t = tirx.shift_right(n - _i32(1 << 30) + _i32(1 << 21), _i32(22))
    r = reciprocal(tirx.min(t, _i32(255)))
    missing = _i32(1 << 24) - tirx.shift_right(n, _i32(15)) * r
    return tirx.shift_right(r * tirx.shift_right(missing, _i32(2)), _i32(14))


def _i32(value: int) -> ir.Expr:
    return tirx.IntImm("int32", value)
