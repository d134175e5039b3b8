# SPDX-License-Identifier: Apache-2.0
"""Tensors of a TFLite file and their elements.

A tensor can be presented to TVM's converters with another dtype or shape.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax
from tvm.ir import Constant

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.operands import shape_of


class ShownTensor:
    """A tensor of the file with another type or shape for TVM's converters.

    All other attributes are those of the file's tensor.
    """

    def __init__(self, tensor: Any, kind: int | None = None, shape: tuple[int, ...] | None = None) -> None:
        self._tensor = tensor
        self._kind = kind
        self._shape = shape

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor, name)

    def Type(self) -> int:  # noqa: N802 (the name in TFLite's schema)
        """Return the element type that replaces the file's."""
        return int(self._tensor.Type() if self._kind is None else self._kind)

    def ShapeLength(self) -> int:  # noqa: N802
        """Return the number of axes."""
        return int(self._tensor.ShapeLength() if self._shape is None else len(self._shape))

    def ShapeAsNumpy(self) -> npt.NDArray[np.int32]:  # noqa: N802
        """Return the tensor's sizes, or those that replace them."""
        found = self._tensor.ShapeAsNumpy() if self._shape is None else self._shape
        return np.asarray(found, np.int32)


def constant(value: npt.NDArray[Any]) -> Constant:
    """Return an array as a constant of the same dtype; `relax.const` would narrow int64 and float64."""
    return relax.const(value, str(value.dtype))


def static_shape(value: relax.Expr) -> tuple[int, ...] | None:
    """Return the shape of a Relax value; None if it is not a tensor with a static shape."""
    ty = getattr(value, "ty", None)
    return tuple(int(size) for size in ty.shape) if isinstance(ty, relax.TensorType) else None


def signature_of(tensor: Any) -> tuple[int, ...]:
    """Return the declared shape, with -1 for each size that the file leaves open."""
    if tensor.ShapeSignatureLength() and tensor.ShapeSignatureLength() == tensor.ShapeLength():
        return tuple(int(size) for size in tensor.ShapeSignatureAsNumpy())
    return tuple(int(size) for size in tensor.ShapeAsNumpy()) if tensor.ShapeLength() else ()


def resolved(tensor: Any, count: int, wanted: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the static shape of an output with `count` elements.

    Args:
        tensor: The output tensor of the file.
        count: How many elements it has.
        wanted: Sizes that its operator gives, possibly with -1, if the file leaves more than one size open.

    Raises:
        ModelError: The elements fit neither shape.
    """
    for shape in (signature_of(tensor.tensor), wanted):
        if shape is None or list(shape).count(-1) > 1:
            continue
        known = math.prod(size for size in shape if size != -1)
        if -1 in shape and known and count % known == 0:
            return tuple(count // known if size == -1 else int(size) for size in shape)
        if -1 not in shape and known == count:
            return tuple(int(size) for size in shape)
    raise ModelError(f"{count} elements do not fit the model's shape {list(signature_of(tensor.tensor))}")


def unpacked(tensor: Any) -> npt.NDArray[np.int8]:
    """Return a 4-bit constant as int8; the file stores two elements per byte, the first in the low bits."""
    pairs = np.asarray(tensor.buffer.DataAsNumpy()).view(np.int8)
    both = np.stack([pairs << 4 >> 4, pairs >> 4], axis=-1).reshape(-1)
    return np.asarray(both[: math.prod(shape_of(tensor))].reshape(shape_of(tensor)), np.int8)


def is_complex(tensor: Any) -> bool:
    """Whether a tensor has complex elements, which are stored as pairs of floats along an extra last axis."""
    return bool(tensor.tensor_idx >= 0 and tensor.tensor.Type() == tflite.TensorType.COMPLEX64)
