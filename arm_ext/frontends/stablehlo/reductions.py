# SPDX-License-Identifier: Apache-2.0
"""StableHLO's reductions along complete axes.

A region combines two elements: one operator, or the choice of the greater or the lesser with its index.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import Expr

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Value
from arm_ext.frontends.stablehlo.attributes import ints
from arm_ext.frontends.stablehlo.scalars import behaves, reducer_of
from arm_ext.frontends.stablehlo.translator import Convert, Translator

R = relax.op


@dataclass(frozen=True)
class Reducer:
    """A reduction's operator in two forms: along axes of a tensor, and elementwise for two tensors.

    Attributes:
        whole: Reduces a tensor along axes.
        join: Combines two tensors element by element.
        neutral: Given a dtype, returns the value that leaves any other unchanged.
    """

    whole: Callable[..., Expr]
    join: Callable[..., Expr]
    neutral: Callable[[np.dtype[Any]], float]


def _lowest(dtype: np.dtype[Any]) -> float:
    if dtype.kind == "b":
        return 0
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else -math.inf


def _highest(dtype: np.dtype[Any]) -> float:
    if dtype.kind == "b":
        return 1
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else math.inf


SUM = Reducer(R.sum, R.add, lambda _: 0)
PRODUCT = Reducer(R.prod, R.multiply, lambda _: 1)
MAXIMUM = Reducer(R.max, R.maximum, _lowest)
MINIMUM = Reducer(R.min, R.minimum, _highest)
_REDUCERS = {
    "stablehlo.add": SUM,
    "stablehlo.maximum": MAXIMUM,
    "stablehlo.minimum": MINIMUM,
    "stablehlo.multiply": PRODUCT,
}
# Reducers of Booleans; TVM reduces Booleans as integers.
_LOGICAL = {
    "stablehlo.add": MAXIMUM,
    "stablehlo.and": MINIMUM,
    "stablehlo.maximum": MAXIMUM,
    "stablehlo.minimum": MINIMUM,
    "stablehlo.multiply": MINIMUM,
    "stablehlo.or": MAXIMUM,
}


def reducer_for(op: Any, dtype: str) -> Reducer:
    """Return the reducer that the block of a reduction computes.

    Raises:
        ModelError: The reduction is not supported.
    """
    name = reducer_of(op.regions[0].blocks[0])
    table = _LOGICAL if dtype == "bool" else _REDUCERS
    if name not in table:
        raise ModelError(
            f"it combines elements of {dtype} by {name or 'a custom function'}, which is not supported"
        )
    return table[name]


def is_neutral(initial: Value, reducer: Reducer) -> bool:
    """Whether a reduction's initial value is the reducer's neutral element."""
    dtype = np.dtype(initial.dtype)
    return initial.scalar() == reducer.neutral(dtype)


def _reduce(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    axes, count = list(ints(op, "dimensions")), len(operands) // 2
    if count > 1:
        return _indexed(t, op, operands, axes)
    x, initial = operands
    reducer = reducer_for(op, x.dtype)
    left = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    shape = tuple(x.shape[axis] for axis in left)
    if all(x.shape[axis] == 1 for axis in axes):
        y = Value(t, x.full, shape, left)
    else:
        y = Value(t, joined(t, x.full, lambda data: reducer.whole(data, axes, keepdims=True)), shape, left)
    if not is_neutral(initial, reducer):
        y = Value(t, joined(t, y.expr, lambda data: reducer.join(data, initial.expr)), shape, left)
    return [y]


def joined(t: Translator, x: Expr, join: Callable[[Expr], Expr]) -> Expr:
    """Apply a reduction; booleans are reduced as int8."""
    if str(x.ty.dtype) != "bool":
        return t.emit(join(x))
    return t.emit(R.astype(t.emit(join(t.emit(R.astype(x, "int8")))), "bool"))


def _greatest(a: Any, i: Any, b: Any, j: Any) -> tuple[Any, Any]:
    return (a, i) if (-a, i) < (-b, j) else (b, j)


def _least(a: Any, i: Any, b: Any, j: Any) -> tuple[Any, Any]:
    return (a, i) if (a, i) < (b, j) else (b, j)


def _indexed(t: Translator, op: Any, operands: list[Value], axes: list[int]) -> list[Value]:
    """Emit the maximum or minimum along an axis, and the first index that has it."""
    block = op.regions[0].blocks[0]
    if len(operands) != 4 or len(axes) != 1:
        raise ModelError(
            f"it reduces {len(operands) // 2} tensors along {len(axes)} axes at once; a tensor and "
            "its indices along one axis are supported"
        )
    x, indices, initial, _ = operands
    dtypes = [x.dtype, indices.dtype] * 2
    kinds = ((_greatest, MAXIMUM, R.argmax), (_least, MINIMUM, R.argmin))
    found = [kind for kind in kinds if behaves(block, dtypes, kind[0])]
    if not found:
        raise ModelError(
            "it combines elements with indices by a custom function; only maximum and minimum are supported"
        )
    _, reducer, places = found[0]
    if not is_neutral(initial, reducer) or not counts(indices, axes[0]):
        raise ModelError("it does not search for the maximum or minimum along an axis")
    left = tuple(axis for axis in range(len(x.shape)) if axis != axes[0])
    shape = tuple(x.shape[axis] for axis in left)
    data = x.full
    if x.dtype == "bool":  # TVM has no least Boolean
        data = t.emit(R.astype(data, "int8"))
    at = t.emit(R.astype(t.emit(places(data, axes[0], keepdims=True)), indices.dtype))
    most = t.emit(reducer.whole(data, axes, keepdims=True))
    if x.dtype == "bool":
        most = t.emit(R.astype(most, "bool"))
    return [Value(t, most, shape, left), Value(t, at, shape, left)]


def counts(indices: Value, axis: int) -> bool:
    """Whether a value is 0, 1, 2, … along an axis."""
    value, size = indices.constant(), indices.shape[axis]
    if value is None:
        return False
    counted = np.arange(size).reshape([-1 if a == axis else 1 for a in range(len(indices.shape))])
    aligned = value.reshape([1] * (len(indices.shape) - value.ndim) + list(value.shape))
    return bool(
        np.array_equal(np.broadcast_to(aligned, indices.shape), np.broadcast_to(counted, indices.shape))
    )


# Operator → its converter.
CONVERTERS: dict[str, Convert] = {"stablehlo.reduce": _reduce}
