# SPDX-License-Identifier: Apache-2.0
"""The interface of a numerics, as `integerize` uses it; the pass contains no formula of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from tvm.tirx import PrimFunc

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Bounds = tuple[float | None, float | None]
"""Real limits of an absorbed relu or clip; None where there is none."""
Real = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
"""An elementwise function in binary64."""
BinaryOp = Literal["add", "subtract", "multiply", "divide", "maximum", "minimum"]


@dataclass(frozen=True)
class Quantization:
    """The quantisation of a tensor, the same for all its elements: real = (q - zero_point) * scale.

    Attributes:
        scale: Positive scale, exact in binary32.
        zero_point: Zero point, a value of `dtype`.
        dtype: Dtype of the values.
    """

    scale: float
    zero_point: int
    dtype: str

    @property
    def reach(self) -> int:
        """The largest |value - zero_point|."""
        info = np.iinfo(self.dtype)
        return max(self.zero_point - int(info.min), int(info.max) - self.zero_point)


class Routine(Protocol):
    """A PrimFunc for `call_tir`: its arguments are the run-time tensors, then `constants`, then the output."""

    @property
    def func(self) -> PrimFunc:
        """The PrimFunc; FuseOps can fuse an elementwise one behind the call that computes its input."""

    @property
    def constants(self) -> tuple[Array, ...]:
        """Values of the constant arguments, such as multipliers and tables."""


class Numerics(Protocol):
    """The definitions of quantised operators, as routines for the shapes of a call."""

    @property
    def name(self) -> str:
        """Name in reports, such as "qdq"."""

    @property
    def index_dtype(self) -> str:
        """Dtype of argmax and argmin, before the cast to the dtype of the graph."""

    def quantize(self, real: npt.ArrayLike, y: Quantization, /) -> Array:
        """Quantise real constants."""

    def scale(self, input_scale: float, weight_scale: Floats, /) -> Floats:
        """Return the real value of one accumulator unit."""

    def bias(
        self, real: npt.NDArray[np.float64], input_scale: float, weight_scale: Floats, /
    ) -> npt.NDArray[np.int64]:
        """Quantise a real bias in accumulator units."""

    def requantize(
        self,
        acc: tuple[Sequence[int], str, str],
        scales: tuple[float, Floats, Floats],
        y: Quantization,
        bounds: Bounds,
        /,
    ) -> Routine:
        """Return the routine that requantises accumulators; `acc` is their shape and dtype, and the data's dtype.

        `scales` are those of input and weight, and an average's count.

        ValueError if they are too wide, or a scale out of range.
        """

    def table(self, shape: Sequence[int], x: Quantization, y: Quantization, function: Real, /) -> Routine:
        """Return the routine of an elementwise function of one tensor; ValueError if it has none.

        From 8 bits to 8 bits it is `look_up`, of the function's values.
        """

    def look_up(self, shape: Sequence[int], dtype: str, entries: Array, /) -> Routine:
        """Return the routine of a table of 256 entries, its only constant, for a tensor of 8 bits."""

    def binary(
        self,
        op: BinaryOp,
        shapes: tuple[Sequence[int], Sequence[int]],
        operands: tuple[Quantization | Floats, Quantization | Floats],
        y: Quantization,
        bounds: Bounds,
        /,
    ) -> Routine:
        """Return the routine of an elementwise function of two operands; an array is a constant of the routine.

        ValueError if it has no form in integers, or a scale is out of range.
        """

    def binary_values(
        self,
        op: BinaryOp,
        values: tuple[Array, Array],
        operands: tuple[Quantization, Quantization],
        y: Quantization,
        bounds: Bounds,
        /,
    ) -> Array:
        """Compute the values that the routine of `binary` computes; raises ValueError as it does."""

    def matmul(
        self, shapes: tuple[Sequence[int], Sequence[int]], a: Quantization, b: Quantization, dtype: str, /
    ) -> Routine:
        """Return the routine of the accumulators of two run-time tensors' product, zero points subtracted."""

    def conv2d_transpose(
        self, shape: Sequence[int], x: Quantization, weights: Array, window: Mapping[str, Any], dtype: str, /
    ) -> Routine:
        """Return the routine of the accumulators of a transposed convolution of [N, H, W, C] by [O, H, W, I].

        `window` holds strides, padding, output_padding and dilation, as tuples, and groups.
        """

    def softmax(self, shape: Sequence[int], axis: int, x: Quantization, y: Quantization, /) -> Routine:
        """Return the routine of a softmax along one axis; ValueError if x's dtype has no table."""

    def resize(
        self, shape: Sequence[int], size: Sequence[int], mode: str, x: Quantization, layout: str, /
    ) -> Routine:
        """Return the routine of a bilinear resize to `size`; `mode` is Relax's name for the coordinates.

        ValueError if it is not defined for them, for x, or in integers at all.
        """

    def norm(
        self,
        shape: Sequence[int],
        row: tuple[int, float],
        factors: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None],
        x: Quantization,
        y: Quantization,
        /,
    ) -> Routine:
        """Return the routine of a layer norm, or of an RMS norm without beta; `row` is (number of last axes, epsilon).

        ValueError if it is not defined for x or for a row of that length.
        """
