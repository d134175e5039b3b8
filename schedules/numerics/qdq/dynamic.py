# SPDX-License-Identifier: Apache-2.0
"""Linear layers of dynamically quantised data (one scale and zero point per row, or per tensor) by constant weights.

    acc[m, n] = sum over k of (q[m, k] - z[m]) * w[k, n]                int32, exact
    y[m, n]   = fl(fl(fl(acc[m, n]) * s[m]) * scale[n] + bias[n])       the outer fl is one rounding, an FMA's

s and z are of run time, one a row or one for all. XNNPACK's products of dynamically quantised data compute the same.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tvm import te, tirx

from schedules.numerics.qdq.values import Array, Floats
from schedules.numerics.routine import PRODUCT, Routine, broadcast, routine

NAME = "qdq.linear_dynamic"

REACH = 255
"""Most that 8-bit data and a zero point of their dtype differ by."""


def accumulators(q: Array, weights: Array, zero_point: Array) -> Array:
    """Compute the int64 sums of [..., M, K] by [K, N]; the zero points broadcast against the data."""
    product: Array = (q.astype(np.int64) - zero_point.astype(np.int64)) @ weights.astype(np.int64)
    return product


def real(acc: Array, row_scale: Floats, scale: Floats, bias: Floats) -> Floats:
    """Dequantise accumulators, as defined above; all arguments broadcast."""
    by_row = acc.astype(np.float32) * row_scale.astype(np.float32)
    return fused(by_row, scale.astype(np.float32), bias.astype(np.float32))


def fused(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return a * b + c, rounded once to binary32.

    The product is exact in binary64. Its sum is rounded to odd there, which keeps what the second rounding needs.
    """
    product, addend = a.astype(np.float64) * b, np.asarray(c, np.float64)
    total = product + addend
    rest = total - product
    lost = (product - (total - rest)) + (addend - rest)
    even = (total.view(np.int64) & 1) == 0
    up, down = lost > 0, lost < 0
    odd = np.nextafter(total, np.where(up, np.inf, -np.inf))
    return np.asarray(np.where((up | down) & even, odd, total), np.float32)


def linear_dynamic_routine(
    shape: Sequence[int], dtype: str, weights: npt.NDArray[np.int8], zero_point: Sequence[int]
) -> Routine:
    """Return the routine of `accumulators`, in int32.

    Args:
        shape: Of the data, [..., M, K].
        dtype: Of the data.
        weights: int8 [K, N].
        zero_point: Shape of the zero points, int32: broadcasts to [..., M, 1].
    """
    x = te.placeholder(shape, dtype, "x")
    zero = te.placeholder(zero_point, "int32", "zero_point")
    w = te.placeholder(weights.shape, "int8", "w")
    k = te.reduce_axis((0, shape[-1]), "k")

    def value(*i: tirx.Var) -> tirx.Expr:
        *rows, column = i
        data = tirx.Cast("int32", x(*rows, k)) - broadcast(zero, shape, (*rows, tirx.IntImm("int64", 0)))
        return te.sum(data * tirx.Cast("int32", w(k, column)), axis=k)

    acc = te.compute((*shape[:-1], weights.shape[1]), value, "linear_dynamic")
    return routine(NAME, [x, zero, w, acc], [weights], pattern=PRODUCT)
