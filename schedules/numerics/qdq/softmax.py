# SPDX-License-Identifier: Apache-2.0
"""Softmax along one axis of an 8-bit tensor, by integer exponentials and sums, and one float division.

    e[d] = rne(2**30 * exp(-d * xs))           d = max - q, from 0 to 255; a table, in binary64
    S    = sum of e[d] along the axis          int64: the order of summation does not matter
    q    = saturate(rne(fl(fl(e[d]) / fl(fl(S) * ys))) + zy)

A float32 softmax depends on the machine, by the last bit of exp and the order of its sum. This definition does not, and
is within one unit of a float32 softmax.
"""

from collections.abc import Sequence

import numpy as np
from tvm import ir, te, tirx

from schedules.numerics.qdq.values import (
    Array,
    Quantization,
    every_value,
    f32,
    limits,
    saturate,
    saturate_tir,
)
from schedules.numerics.routine import FUSED_ALONE, Routine, routine

_ONE = 2.0**30  # the largest power of two that int32 holds


def exponentials(x: Quantization) -> Array:
    """Compute the table e, int32 [256].

    Raises:
        ValueError: x is not of 8 bits.
    """
    distance = np.arange(every_value(x.dtype).size, dtype=np.float64)
    return np.asarray(np.rint(_ONE * np.exp(-distance * x.scale)), np.int32)


def softmax(q: Array, axis: int, x: Quantization, y: Quantization) -> Array:
    """Compute the softmax of quantised values by the module's definition."""
    wide = q.astype(np.int32)
    e = exponentials(x)[wide.max(axis, keepdims=True) - wide]
    total = e.sum(axis, keepdims=True, dtype=np.int64).astype(np.float32)
    scaled = e.astype(np.float32) / (total * np.float32(y.scale))
    return saturate(scaled, y.zero_point, *limits(y.dtype), y.dtype)


def softmax_routine(shape: Sequence[int], axis: int, x: Quantization, y: Quantization) -> Routine:
    """Return a routine that computes `softmax`.

    The table e is its constant; its attributes are axis, x_scale, and the quantisation of y.
    """
    axis %= len(shape)
    q = te.placeholder(shape, x.dtype, "q")
    e = te.placeholder((256,), "int32", "exponentials")
    rest = [*shape[:axis], *shape[axis + 1 :]]

    def at(i: Sequence[ir.Expr], k: ir.Expr) -> ir.Expr:
        return tirx.Cast("int32", q(*i[:axis], k, *i[axis:]))

    k_max, k_sum = (te.reduce_axis((0, shape[axis]), name) for name in ("k_max", "k_sum"))
    top = te.compute(rest, lambda *i: te.max(at(i, k_max), axis=k_max), "top")
    total = te.compute(
        rest, lambda *i: te.sum(tirx.Cast("int64", e(top(*i) - at(i, k_sum))), axis=k_sum), "total"
    )

    def value(*i: ir.Expr) -> ir.Expr:
        others = (*i[:axis], *i[axis + 1 :])
        share = tirx.Cast("float32", e(top(*others) - at(others, i[axis])))
        whole = tirx.Cast("float32", total(*others)) * f32(y.scale)
        return saturate_tir(tirx.Div(share, whole), y.zero_point, *limits(y.dtype), y.dtype)

    out = te.compute(shape, value, "softmax")
    return routine(
        "qdq.softmax",
        [q, e, out],
        [exponentials(x)],
        pattern=FUSED_ALONE,
        axis=axis,
        x_scale=float(np.float32(x.scale)),
        y_scale=float(np.float32(y.scale)),
        y_zero_point=y.zero_point,
    )
