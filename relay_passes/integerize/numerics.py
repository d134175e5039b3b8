# SPDX-License-Identifier: Apache-2.0
"""The interface of a numerics for `integerize`; the pass itself defines no quantised operator."""

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
    """A per-tensor quantisation: real = (q - zero_point) * scale.

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
        """The maximum of |value - zero_point|."""
        info = np.iinfo(self.dtype)
        return max(self.zero_point - int(info.min), int(info.max) - self.zero_point)


class Routine(Protocol):
    """A PrimFunc for `call_tir`: its arguments are the run-time tensors, then `constants`, then the output."""

    @property
    def func(self) -> PrimFunc:
        """The PrimFunc; FuseOps can fuse an elementwise PrimFunc into the call that computes its input."""

    @property
    def constants(self) -> tuple[Array, ...]:
        """Values of the constant arguments, such as multipliers and tables."""


class Numerics(Protocol):
    """Interface of a numerics: it returns the routines of quantised operators for given shapes."""

    @property
    def name(self) -> str:
        """Name in reports, such as "qdq"."""

    @property
    def index_dtype(self) -> str:
        """Dtype of the routine's argmax and argmin, before the cast to the dtype in the graph."""

    def quantize(self, real: npt.ArrayLike, y: Quantization, /) -> Array:
        """Quantise real constants."""

    def scale(self, input_scale: float, weight_scale: Floats, /) -> Floats:
        """Return the scale of accumulators."""

    def bias(
        self, real: npt.NDArray[np.float64], input_scale: float, weight_scale: Floats, /
    ) -> npt.NDArray[np.int64]:
        """Quantise a real bias by the scale of accumulators."""

    def requantize(
        self,
        acc: tuple[Sequence[int], str, str],
        scales: tuple[float, Floats, Floats],
        y: Quantization,
        bounds: Bounds,
        /,
    ) -> Routine:
        """Return a routine that requantises accumulators; `acc` is (shape, dtype, dtype of the data).

        `scales` are the scales of input and weight, and the count of an average.

        Raises ValueError if the accumulators are too wide, or a scale is out of range.
        """

    def table(self, shape: Sequence[int], x: Quantization, y: Quantization, function: Real, /) -> Routine:
        """Return a routine that computes an elementwise function of one tensor; ValueError if there is none.

        From 8 bits to 8 bits it is a `look_up` of the function's values.
        """

    def look_up(self, shape: Sequence[int], dtype: str, entries: Array, /) -> Routine:
        """Return a routine that looks an 8-bit tensor up in a table of 256 entries, its only constant."""

    def binary(
        self,
        op: BinaryOp,
        shapes: tuple[Sequence[int], Sequence[int]],
        operands: tuple[Quantization | Floats, Quantization | Floats],
        y: Quantization,
        bounds: Bounds,
        /,
    ) -> Routine:
        """Return a routine that computes an elementwise function of two operands; an array becomes its constant.

        Raises ValueError if there is no integer form, or a scale is out of range.
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
        """Compute in numpy the result of the routine `binary`; raise ValueError in the same cases."""

    def matmul(
        self, shapes: tuple[Sequence[int], Sequence[int]], a: Quantization, b: Quantization, dtype: str, /
    ) -> Routine:
        """Return a routine that computes the accumulators of a product of two run-time tensors minus zero points."""

    def conv2d_transpose(
        self, shape: Sequence[int], x: Quantization, weights: Array, window: Mapping[str, Any], dtype: str, /
    ) -> Routine:
        """Return a routine that computes a transposed convolution's accumulators, for [N, H, W, C] by [O, H, W, I].

        `window` has strides, padding, output_padding and dilation, as tuples, and groups.
        """

    def softmax(self, shape: Sequence[int], axis: int, x: Quantization, y: Quantization, /) -> Routine:
        """Return a routine that computes a softmax along one axis; ValueError if the dtype of x is not supported."""

    def resize(
        self, shape: Sequence[int], size: Sequence[int], mode: str, x: Quantization, layout: str, /
    ) -> Routine:
        """Return a routine that computes a bilinear resize to `size`; `mode` is Relax's name of the coordinates.

        Raises ValueError if the mode or x is not supported, or if the numerics has no integer resize.
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
        """Return a routine that computes a layer norm, or an RMS norm if there is no beta.

        `row` is (number of last axes, epsilon). Raises ValueError if x or the length of a row is not supported.
        """
