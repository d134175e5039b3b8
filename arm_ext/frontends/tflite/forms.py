# SPDX-License-Identifier: Apache-2.0
"""Helpers of the TFLite converters."""

from collections.abc import Callable
from typing import Any

from tvm import relax

Convert = Callable[[Any, Any], relax.Expr]
"""Function from a `QdqConverter` and an operator to the operator's result."""


def shape_of(tensor: Any) -> tuple[int, ...]:
    """Return the shape that the model declares for a tensor."""
    return tuple(int(size) for size in tensor.tensor.ShapeAsNumpy()) if tensor.tensor.ShapeLength() else ()


def data_of(c: Any, tensor: Any) -> relax.Expr:
    """Return a tensor's value, constant or not."""
    return c.bb.normalize(c.get_tensor_expr(tensor))


def take(x: relax.Expr, places: relax.Expr, axis: int) -> relax.Expr:
    """Return the elements at indices along an axis; run-time indices out of bounds are clamped."""
    return relax.op.take(x, places, axis, "clip")


def parts(c: Any, value: relax.Expr, count: int) -> relax.Expr:
    """Return the result of a split: a tuple, or its only field."""
    value = c.bb.emit(value)
    return value if count > 1 else relax.TupleGetItem(value, 0)
