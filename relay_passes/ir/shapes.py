# SPDX-License-Identifier: Apache-2.0
"""Shapes and axes, read from Relax expressions."""

import math

from tvm.ir import Call, Expr, TupleType, Type
from tvm.tirx import IntImm


def static_shape(expr: Expr) -> tuple[int, ...] | None:
    """The shape of a tensor; None if a dimension is not known, or `expr` is no tensor."""
    dims = getattr(expr.ty, "shape", None)
    if dims is None or not all(isinstance(dim, IntImm) for dim in dims):
        return None
    return tuple(int(dim) for dim in dims)


def shape_of(expr: Expr) -> tuple[int, ...]:
    """The shape of a tensor that is known to have a static one."""
    return tuple(int(dim) for dim in expr.ty.shape)


def axes_of(transpose: Call) -> list[int]:
    """The axis of the operand that each axis of a `permute_dims` is, counted from 0."""
    ndim, axes = int(transpose.args[0].ty.ndim), transpose.attrs.axes
    return list(range(ndim))[::-1] if axes is None else [int(axis) % ndim for axis in axes]


def element_count(ty: Type) -> int | None:
    """The number of elements in a tensor, or in the tensors of a tuple; None if a dimension is not known."""
    if isinstance(ty, TupleType):
        counts = [element_count(field) for field in ty.fields]
        return None if None in counts else sum(count or 0 for count in counts)
    dims = getattr(ty, "shape", None)
    if dims is None or not all(isinstance(dim, IntImm) for dim in dims):
        return None
    return math.prod(int(dim) for dim in dims)
