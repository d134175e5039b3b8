# SPDX-License-Identifier: Apache-2.0
"""Operations of pre- and post-processing, each as Relax and, for the reference, in numpy."""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

Array = npt.NDArray[Any]


class Operation(Protocol):
    """An operation on one tensor: the interface of all classes below."""

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""


@dataclass(frozen=True)
class Reshape:
    """Reshape to a shape with the same number of elements."""

    shape: tuple[int, ...]

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        return R.reshape(x, self.shape)

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        return x.reshape(self.shape)


@dataclass(frozen=True)
class Permute:
    """Transpose: axis i of the result is axis `axes[i]` of the operand."""

    axes: tuple[int, ...]

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        return R.permute_dims(x, self.axes)

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        return x.transpose(self.axes)


@dataclass(frozen=True)
class SliceAxis:
    """A slice of `size` elements of an axis, starting at `begin`."""

    axis: int
    begin: int
    size: int

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        return R.strided_slice(x, [self.axis], [self.begin], [self.begin + self.size])

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        return x.take(range(self.begin, self.begin + self.size), self.axis)


@dataclass(frozen=True)
class Gather:
    """A gather of elements of an axis at constant indices."""

    axis: int
    index: tuple[int, ...]

    @classmethod
    def nearest(cls, axis: int, size: int, outputs: int) -> Self:
        """Return the nearest-neighbour resize of an axis, as ONNX's Resize with half_pixel and round_prefer_floor."""
        at = np.ceil(_half_pixel(size, outputs) - 0.5)
        return cls(axis, tuple(int(place) for place in np.clip(at, 0, size - 1)))

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        # In "fast" mode TVM warns the user that indices may be out of bounds; these indices are in bounds.
        return R.take(x, relax.const(np.array(self.index, np.int64)), self.axis, mode="clip")

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        return x.take(self.index, self.axis)


@dataclass(frozen=True)
class Interpolate:
    """Linear resize of an axis in float32, as ONNX's Resize with half_pixel and no antialias.

    The weights are constants, for coordinates computed at run time in binary32 are off by 1e-4 of a pixel in a row of
    a thousand.
    """

    axis: int
    size: int
    outputs: int

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        low, high, share = self._taps(len(x.ty.shape.values))
        first, second = (R.astype(taps.emit(x), "float32") for taps in (low, high))
        return R.add(R.multiply(first, relax.const(1 - share)), R.multiply(second, relax.const(share)))

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        low, high, share = self._taps(x.ndim)
        first, second = (taps.compute(x).astype(np.float32) for taps in (low, high))
        value: Array = first * (1 - share) + second * share
        return value

    def _taps(self, rank: int) -> tuple[Gather, Gather, Array]:
        """Return the gathers of the neighbours on each side, and the weights of the second neighbour."""
        at = np.clip(_half_pixel(self.size, self.outputs), 0, self.size - 1)
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, self.size - 1)
        share = (at - low).astype(np.float32)
        shape = [-1 if axis == self.axis else 1 for axis in range(rank)]
        return Gather(self.axis, tuple(low)), Gather(self.axis, tuple(high)), share.reshape(shape)


def _half_pixel(size: int, outputs: int) -> npt.NDArray[np.float64]:
    """Return the position of each output on the input's axis."""
    return (np.arange(outputs, dtype=np.float64) + 0.5) * (size / outputs) - 0.5


@dataclass(frozen=True)
class Cast:
    """Cast to a dtype."""

    dtype: str

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        return R.astype(x, self.dtype)

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        return x.astype(self.dtype)


@dataclass(frozen=True)
class Affine:
    """(x - shift) * factor in float32; shift and factor broadcast to x."""

    shift: Array
    factor: Array

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        return R.multiply(R.subtract(x, relax.const(self.shift)), relax.const(self.factor))

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        value: Array = (x - self.shift) * self.factor
        return value


@dataclass(frozen=True)
class Quantize:
    """q = round(x / scale) + zero_point, rounded half to even and saturated."""

    scale: float
    zero_point: int
    dtype: str

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        zero_point = relax.const(np.array(self.zero_point, self.dtype))
        return R.quantize(x, relax.const(np.float32(self.scale)), zero_point, -1, self.dtype)

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        limits = np.iinfo(self.dtype)
        rounded: Array = np.rint(x / np.float32(self.scale)) + self.zero_point
        return np.clip(rounded, limits.min, limits.max).astype(self.dtype)


@dataclass(frozen=True)
class Dequantize:
    """x = (q - zero_point) * scale."""

    scale: float
    zero_point: int

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        zero_point = relax.const(np.array(self.zero_point, str(x.ty.dtype)))
        return R.dequantize(x, relax.const(np.float32(self.scale)), zero_point, -1)

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        return (x.astype(np.int32) - self.zero_point).astype(np.float32) * np.float32(self.scale)


@dataclass(frozen=True)
class Softmax:
    """Softmax along an axis."""

    axis: int

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        return R.nn.softmax(x, self.axis)

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        powers = np.exp(x - x.max(self.axis, keepdims=True))
        value: Array = powers / powers.sum(self.axis, keepdims=True)
        return value


@dataclass(frozen=True)
class ArgMax:
    """Index of the maximum along an axis; of equal elements, the first."""

    axis: int

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        return R.argmax(x, self.axis)

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        return np.asarray(x.argmax(self.axis), np.int64)


@dataclass(frozen=True)
class TopK:
    """Values or indices of the `k` largest elements along an axis, sorted; equal elements stay in order."""

    axis: int
    k: int
    what: str  # "values" or "indices", as for `relax.op.topk`

    def emit(self, x: Expr) -> Expr:
        """Return the operation on `x` as a Relax expression."""
        return R.topk(x, self.k, self.axis, self.what, True, "int64")

    def compute(self, x: Array) -> Array:
        """Compute the operation in numpy."""
        places = np.argsort(-x, self.axis, kind="stable").take(range(self.k), self.axis)
        return places if self.what == "indices" else np.take_along_axis(x, places, self.axis)
