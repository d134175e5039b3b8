# SPDX-License-Identifier: Apache-2.0
"""Helpers for the operands of TFLite operators: options, shapes, values and fields of results."""

from collections.abc import Callable
from typing import Any

import tflite
from tvm import relax

from arm_ext.common.errors import ModelError

Convert = Callable[[Any, Any], relax.Expr]
"""Function from a `QdqConverter` and an operator to the operator's result."""


def options_of(op: Any, table: Any) -> Any:
    """Return an operator's options.

    Args:
        op: The operator.
        table: Type of its options, such as `tflite.Pool2DOptions`.

    Raises:
        ModelError: It has none, or those of another operator.
    """
    found = op.BuiltinOptions()
    if found is None or op.BuiltinOptionsType() != getattr(tflite.BuiltinOptions, table.__name__):
        raise ModelError(f"it has no {table.__name__}, which the operator requires")
    options = table()
    options.Init(found.Bytes, found.Pos)
    return options


def shape_of(tensor: Any) -> tuple[int, ...]:
    """Return the shape that the model declares for a tensor."""
    return tuple(int(size) for size in tensor.tensor.ShapeAsNumpy()) if tensor.tensor.ShapeLength() else ()


def data_of(c: Any, tensor: Any) -> relax.Expr:
    """Return a tensor's value as a Relax expression; constants are allowed."""
    return c.bb.normalize(c.get_tensor_expr(tensor))


def take(x: relax.Expr, places: relax.Expr, axis: int) -> relax.Expr:
    """Return the elements at indices along an axis; run-time indices out of bounds are clamped."""
    return relax.op.take(x, places, axis, "clip")


def parts(c: Any, value: relax.Expr, count: int) -> relax.Expr:
    """Return the result of a split: a tuple, or the only field of a tuple of one."""
    value = c.bb.emit(value)
    return value if count > 1 else relax.TupleGetItem(value, 0)
