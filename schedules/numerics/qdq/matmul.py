# SPDX-License-Identifier: Apache-2.0
"""Accumulators of a matrix product of two quantised run-time tensors.

    acc[i, j] = sum over k of (a[i, k] - za) * (b[k, j] - zb)

The sum is exact, as the caller passes a dtype that is wide enough.
"""

from collections.abc import Sequence

import numpy as np
from tvm import ir, te, tirx

from schedules.numerics.qdq.values import Array, Quantization
from schedules.numerics.routine import PRODUCT, Routine, routine


def accumulators(a: Array, b: Array, a_zero: int, b_zero: int) -> Array:
    """Compute the accumulators, int64, of a [..., M, K] by b [..., K, N]."""
    product: Array = (a.astype(np.int64) - a_zero) @ (b.astype(np.int64) - b_zero)
    return product


def matmul_routine(
    shapes: tuple[Sequence[int], Sequence[int]], a: Quantization, b: Quantization, dtype: str
) -> Routine:
    """Return a routine that computes `accumulators` in `dtype`; the leading axes of a and b broadcast."""
    x, y = (
        te.placeholder(shape, of.dtype, name) for shape, of, name in zip(shapes, (a, b), "ab", strict=True)
    )
    acc = _sums((x, y), (tirx.IntImm(dtype, a.zero_point), tirx.IntImm(dtype, b.zero_point)), dtype)
    return routine("qdq.matmul", [x, y, acc], [], pattern=PRODUCT, a_zero=a.zero_point, b_zero=b.zero_point)


def matmul_dynamic_routine(
    shapes: tuple[Sequence[int], Sequence[int]],
    dtypes: tuple[str, str],
    zero_points: tuple[Sequence[int], Sequence[int]],
) -> Routine:
    """Return a routine that computes int32 `accumulators`; the zero points are operands.

    Args:
        shapes: Shapes of the tensors, [..., M, K] and [..., K, N].
        dtypes: Dtypes of the tensors.
        zero_points: Shapes of their int32 zero points, of one element each.
    """
    x, y = (te.placeholder(*each) for each in zip(shapes, dtypes, "ab", strict=True))
    points = [te.placeholder(shape, "int32", "zero_point") for shape in zero_points]
    za, zb = (point(*[0] * len(point.shape)) for point in points)
    return routine(
        "qdq.matmul_dynamic", [x, y, *points, _sums((x, y), (za, zb), "int32")], [], pattern=PRODUCT
    )


def _sums(operands: tuple[te.Tensor, te.Tensor], zeros: tuple[ir.Expr, ir.Expr], dtype: str) -> te.Tensor:
    """Return the TE expression of the sums of products of two tensors minus zero points."""
    x, y = operands
    left, right = ([int(dim) for dim in each.shape] for each in operands)
    lead = np.broadcast_shapes(tuple(left[:-2]), tuple(right[:-2]))
    k = te.reduce_axis((0, left[-1]), "k")

    def at(tensor: te.Tensor, zero: ir.Expr, outer: Sequence[ir.Expr], *inner: ir.Expr) -> ir.Expr:
        own = zip(tensor.shape[:-2], outer[len(outer) - len(tensor.shape) + 2 :], strict=True)
        index = [i if int(dim) > 1 else 0 for dim, i in own]
        return tirx.Cast(dtype, tensor(*index, *inner)) - zero

    def value(*i: ir.Expr) -> ir.Expr:
        *outer, row, column = i
        return te.sum(at(x, zeros[0], outer, row, k) * at(y, zeros[1], outer, k, column), axis=k)

    return te.compute((*lead, left[-2], right[-1]), value, "matmul")
