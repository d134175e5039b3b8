# SPDX-License-Identifier: Apache-2.0
"""The values that `integerize` tracks: quantised tensors, table look-ups, and sums."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.ir import Expr, GenericConst
from tvm.tirx import IntImm

from relay_passes.integerize.numerics import Array, Bounds, Floats, Quantization
from relay_passes.ir.sources import Names

UNBOUNDED: Bounds = (None, None)


@dataclass(frozen=True)
class Quantized:
    """A float tensor represented by integers: (value - zero_point) * scale.

    Attributes:
        value: The integer tensor: a variable or a constant.
        scale: float32; broadcasts to the value's shape.
        zero_point: int64; broadcasts to the value's shape.
        names: Source nodes that are not yet attached to a call of the new module.
    """

    value: Expr
    scale: Floats
    zero_point: npt.NDArray[np.int64]
    names: Names

    @property
    def dtype(self) -> str:
        """Dtype of the integers."""
        return str(self.value.ty.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape of the tensor."""
        return static_shape(self.value)

    @property
    def per_tensor(self) -> Quantization | None:
        """The per-tensor quantisation; None if there are several scales or zero points."""
        if self.scale.size != 1 or self.zero_point.size != 1:
            return None
        return Quantization(float(self.scale.item()), int(self.zero_point.item()), self.dtype)

    @property
    def constant(self) -> Array | None:
        """The integers if they are known at compile time; else None."""
        return self.value.value.numpy() if isinstance(self.value, GenericConst) else None

    @property
    def magnitude(self) -> int:
        """The maximum |value| of the integers' dtype."""
        info = np.iinfo(self.dtype)
        return max(-int(info.min), int(info.max))


@dataclass(frozen=True)
class TableLookup:
    """A quantised tensor as a function, given by a table, of an 8-bit tensor.

    Attributes:
        leaf: The tensor by which the table is indexed.
        entries: Result for each value of the leaf, in ascending order.
        names: Source nodes of the function.
    """

    leaf: Quantized
    entries: Array
    names: Names


@dataclass(frozen=True)
class Sum:
    """A float tensor represented by accumulators: clamp((value + offset) * input_scale * weight_scale / count).

    Attributes:
        value: Accumulators, int32 or int64.
        offset: int64 sum of bias and zero points; broadcasts to the value's shape.
        magnitude: Upper bound of |value|.
        input_scale: Scale of the data, exact in binary32.
        weight_scale: Scales of the weights, float32, of the value's rank; 1 for a sum or an average.
        count: Divisor, float32, of the value's rank; 1 unless it is an average.
        bounds: Bounds of the clamp, as real numbers.
        names: Source nodes of all calls in the sum.
        data_dtype: Dtype of the data in the products; int32 for values that were widened before the addition.
    """

    value: Expr
    offset: npt.NDArray[np.int64]
    magnitude: int
    input_scale: float
    weight_scale: Floats
    count: Floats
    bounds: Bounds
    names: Names
    data_dtype: str


def static_shape(expr: Expr) -> tuple[int, ...]:
    """Return the shape of a tensor with static dimensions.

    Raises:
        ValueError: A dimension is not static.
    """
    dims = expr.ty.shape
    if dims is None or not all(isinstance(dim, IntImm) for dim in dims):
        raise ValueError(f"{expr} has no static shape")
    return tuple(int(dim) for dim in dims)


def narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array with each axis along which it does not vary reduced to one element."""
    for axis in range(array.ndim):
        first = array.take([0], axis)
        if array.shape[axis] > 1 and (array == first).all():
            array = first
    return array


def clamped(bounds: Bounds, low: float | None, high: float | None) -> Bounds:
    """Return the bounds of a value that is clamped to `bounds` and then to [low, high]."""

    def clamp(value: float) -> float:
        value = value if low is None else max(value, low)
        return value if high is None else min(value, high)

    least, most = bounds
    return low if least is None else clamp(least), high if most is None else clamp(most)
