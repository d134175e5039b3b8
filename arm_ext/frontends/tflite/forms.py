# SPDX-License-Identifier: Apache-2.0
"""What converters of TFLite operators share."""

from collections.abc import Callable
from typing import Any

from tvm import relax

Convert = Callable[[Any, Any], relax.Expr]
"""From a `QdqConverter` and an operator to its result."""


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape that the model declares for a tensor."""
    return tuple(int(size) for size in tensor.tensor.ShapeAsNumpy()) if tensor.tensor.ShapeLength() else ()


def data_of(c: Any, tensor: Any) -> relax.Expr:
    """The value of a tensor, constant or not."""
    return c.bb.normalize(c.get_tensor_expr(tensor))


def take(x: relax.Expr, places: relax.Expr, axis: int) -> relax.Expr:
    """Elements along an axis; places of run time that lie beyond an end are those at that end."""
    return relax.op.take(x, places, axis, "clip")


def parts(c: Any, value: relax.Expr, count: int) -> relax.Expr:
    """What a split gives, as an operator's result: a tuple, or its only field."""
    value = c.bb.emit(value)
    return value if count > 1 else relax.TupleGetItem(value, 0)
