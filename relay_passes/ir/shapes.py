# SPDX-License-Identifier: Apache-2.0
"""Shapes and axes, read from Relax expressions."""

import math

from tvm.ir import Call, Expr, TupleType, Type
from tvm.relax import ShapeExpr
from tvm.tirx import IntImm


def static_shape(expr: Expr) -> tuple[int, ...] | None:
    """Return the shape of a tensor; None if a dimension is not static, or `expr` is no tensor."""
    return _known(getattr(expr.ty, "shape", None))


def shape_of(expr: Expr) -> tuple[int, ...]:
    """Return the shape of a tensor with static dimensions."""
    return tuple(int(dim) for dim in expr.ty.shape)


def axes_of(transpose: Call) -> list[int]:
    """Return, for each axis of a `permute_dims`, the corresponding axis of the operand, counted from 0."""
    ndim, axes = int(transpose.args[0].ty.ndim), transpose.attrs.axes
    return list(range(ndim))[::-1] if axes is None else [int(axis) % ndim for axis in axes]


def element_count(ty: Type) -> int | None:
    """Return the number of elements of a tensor or of a tuple's tensors; None if a dimension is not static."""
    if isinstance(ty, TupleType):
        counts = [element_count(field) for field in ty.fields]
        return None if None in counts else sum(count or 0 for count in counts)
    dims = _known(getattr(ty, "shape", None))
    return None if dims is None else math.prod(dims)


def _known(shape: Expr | None) -> tuple[int, ...] | None:
    if not isinstance(shape, ShapeExpr):
        return None
    dims = shape.values[:]  # one call into TVM per dimension; iterating over the shape takes seven
    return tuple(int(dim) for dim in dims) if all(isinstance(dim, IntImm) for dim in dims) else None
