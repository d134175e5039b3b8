# SPDX-License-Identifier: Apache-2.0
"""Accumulators of a matrix product of two quantised run-time tensors.

    acc[i, j] = sum over k of (a[i, k] - za) * (b[k, j] - zb)

The sum is exact: whoever asks for it brings a dtype that is wide enough.
"""

from collections.abc import Sequence

import numpy as np
from tvm import ir, te, tirx

from schedules.numerics.qdq.values import Array, Quantization
from schedules.numerics.routine import PRODUCT, Routine, routine


def accumulators(a: Array, b: Array, a_zero: int, b_zero: int) -> Array:
    """Compute the int64 sums."""
    product: Array = (a.astype(np.int64) - a_zero) @ (b.astype(np.int64) - b_zero)
    return product


def matmul_routine(
    shapes: tuple[Sequence[int], Sequence[int]], a: Quantization, b: Quantization, dtype: str
) -> Routine:
    """Return the routine of `accumulators` for [..., M, K] by [..., K, N], whose leading axes broadcast."""
    left, right = shapes
    x, y = te.placeholder(left, a.dtype, "a"), te.placeholder(right, b.dtype, "b")
    lead = np.broadcast_shapes(tuple(left[:-2]), tuple(right[:-2]))
    k = te.reduce_axis((0, left[-1]), "k")

    def at(tensor: te.Tensor, zero: int, outer: Sequence[ir.Expr], *inner: ir.Expr) -> ir.Expr:
        own = zip(tensor.shape[:-2], outer[len(outer) - len(tensor.shape) + 2 :], strict=True)
        index = [i if int(dim) > 1 else 0 for dim, i in own]
        return tirx.Cast(dtype, tensor(*index, *inner)) - tirx.IntImm(dtype, zero)

    def value(*i: ir.Expr) -> ir.Expr:
        *outer, row, column = i
        product = at(x, a.zero_point, outer, row, k) * at(y, b.zero_point, outer, k, column)
        return te.sum(product, axis=k)

    acc = te.compute((*lead, left[-2], right[-1]), value, "matmul")
    return routine("qdq.matmul", [x, y, acc], [], pattern=PRODUCT, a_zero=a.zero_point, b_zero=b.zero_point)
