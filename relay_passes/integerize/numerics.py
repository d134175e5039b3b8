# SPDX-License-Identifier: Apache-2.0
"""What the pass asks of a numerics; it knows no formula itself."""

from collections.abc import Callable, Mapping, Sequence
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


class Quantization(Protocol):
    """How a tensor is quantised, the same for all its elements: real = (q - zero_point) * scale."""

    @property
    def scale(self) -> float:
        """Exact in binary32."""

    @property
    def zero_point(self) -> int:
        """Which value stands for 0."""

    @property
    def dtype(self) -> str:
        """Of the values."""


class Routine(Protocol):
    """A PrimFunc for `call_tir`: its arguments are the run-time tensors, then `constants`, then the output."""

    @property
    def func(self) -> PrimFunc:
        """Elementwise ones can be fused behind what computes their input."""

    @property
    def constants(self) -> tuple[Array, ...]:
        """Multipliers, tables."""


class Numerics(Protocol):
    """The definitions of quantised operators."""

    @property
    def name(self) -> str:
        """What a report calls it."""

    @property
    def index_dtype(self) -> str:
        """Of the index of a greatest or least value, before it is widened to what the graph has."""

    def quantize(self, real: npt.ArrayLike, y: Quantization, /) -> Array:
        """Real constants as quantised ones."""

    def scale(self, input_scale: float, weight_scale: Floats, /) -> Floats:
        """What one unit of an accumulator stands for."""

    def bias(
        self, real: npt.NDArray[np.float64], input_scale: float, weight_scale: Floats, /
    ) -> npt.NDArray[np.int64]:
        """A real bias in units of the accumulator."""

    def requantize(
        self,
        acc: tuple[Sequence[int], str, str],
        scales: tuple[float, Floats, Floats],
        y: Quantization,
        bounds: Bounds,
        /,
    ) -> Routine:
        """Accumulators of a shape and dtype, and of data of a dtype, as values.

        `scales` are those of input and weight, and an average's count.

        ValueError if they are too wide, or a scale out of range.
        """

    def table(self, shape: Sequence[int], x: Quantization, y: Quantization, function: Real, /) -> Routine:
        """An elementwise function of one tensor; ValueError if x has no table or the function a hole."""

    def binary(
        self,
        op: BinaryOp,
        shapes: tuple[Sequence[int], Sequence[int]],
        operands: tuple[Quantization | Floats, Quantization | Floats],
        y: Quantization,
        bounds: Bounds,
        /,
    ) -> Routine:
        """An elementwise function of two tensors; an array among the operands is a constant of the routine.

        ValueError if it has no form in integers, or a scale is out of range.
        """

    def matmul(
        self, shapes: tuple[Sequence[int], Sequence[int]], a: Quantization, b: Quantization, dtype: str, /
    ) -> Routine:
        """Accumulators of a matrix product of two tensors of run time, zero points taken off."""

    def conv2d_transpose(
        self, shape: Sequence[int], x: Quantization, weights: Array, window: Mapping[str, Any], dtype: str, /
    ) -> Routine:
        """Accumulators of a transposed convolution of [N, H, W, C] by [O, H, W, I], the zero point taken off inside.

        `window` holds strides, padding, output_padding and dilation, as tuples, and groups.
        """

    def softmax(self, shape: Sequence[int], axis: int, x: Quantization, y: Quantization, /) -> Routine:
        """Softmax along one axis; ValueError if x has no table."""

    def resize(
        self, shape: Sequence[int], size: Sequence[int], mode: str, x: Quantization, layout: str, /
    ) -> Routine:
        """Bilinear resize to `size`, quantised as before, by coordinates that Relax has a name for.

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
        """Layer norm over `row` = (how many of the last axes, epsilon) with real gamma and beta; RMS norm without beta.

        ValueError if it is not defined for x or for a row of that length.
        """
