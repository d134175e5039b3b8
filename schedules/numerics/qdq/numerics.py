# SPDX-License-Identifier: Apache-2.0
"""The numerics `qdq` as an object: the pass `integerize` calls it for the routines of integer operators."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schedules.composites.transposed_convolution import Geometry
from schedules.numerics.qdq.binary import Op, binary, binary_routine
from schedules.numerics.qdq.conv2d_transpose import conv2d_transpose_routine
from schedules.numerics.qdq.matmul import matmul_routine
from schedules.numerics.qdq.norm import Norm, norm_routine
from schedules.numerics.qdq.requantize import multiplier, requantize_routine
from schedules.numerics.qdq.softmax import softmax_routine
from schedules.numerics.qdq.table import Real, table, table_routine
from schedules.numerics.qdq.values import Array, Bounds, Floats, Quantization, dequantize, quantize
from schedules.numerics.routine import Routine


class Qdq:
    """Constructors of the routines of the numerics `qdq`; scales must be exact in binary32."""

    name = "qdq"
    index_dtype = "int64"

    def quantize(self, real: npt.ArrayLike, y: Quantization) -> Array:
        """Quantise real constants, such as a padding value."""
        return quantize(real, y)

    def scale(self, input_scale: float, weight_scale: Floats) -> Floats:
        """Return the scale of accumulators: fl(xs * ws)."""
        return np.asarray(np.float32(input_scale) * weight_scale)

    def bias(
        self, real: npt.NDArray[np.float64], input_scale: float, weight_scale: Floats
    ) -> npt.NDArray[np.int64]:
        """Quantise a real bias by the scale of the accumulators, rounding half to even.

        The result is exact for a bias that was quantised with this scale. A bias that the model stores as float changes
        by up to half a unit.
        """
        return np.asarray(np.rint(real / self.scale(input_scale, weight_scale)), np.int64)

    def requantize(
        self,
        acc: tuple[Sequence[int], str, str],
        scales: tuple[float, Floats, Floats],
        y: Quantization,
        bounds: Bounds,
    ) -> Routine:
        """Return a routine that requantises accumulators.

        Args:
            acc: Shape and dtype of the accumulators, and the dtype of the data in their products.
            scales: xs, ws and n of the definition; arrays have the rank of the accumulators.
            y: Quantisation of the output.
            bounds: Real limits of a clamp that becomes part of the saturation.
        """
        shape, dtype, _ = acc
        input_scale, weight_scale, count = scales
        m = multiplier(input_scale, weight_scale, y.scale, count)
        return requantize_routine(shape, dtype, m, y, bounds)

    def table(self, shape: Sequence[int], x: Quantization, y: Quantization, function: Real) -> Routine:
        """Return a routine that computes an elementwise function of one 8-bit tensor by a table.

        Raises:
            ValueError: x is not of 8 bits, or the function is NaN for some value.
        """
        return table_routine(shape, x.dtype, table(function, x, y))

    def look_up(self, shape: Sequence[int], dtype: str, entries: Array) -> Routine:
        """Return a routine that looks values up in a table of 256 entries."""
        return table_routine(shape, dtype, entries)

    def binary(
        self,
        op: Op,
        shapes: tuple[Sequence[int], Sequence[int]],
        operands: tuple[Any, Any],
        y: Quantization,
        bounds: Bounds,
    ) -> Routine:
        """Return a routine that computes an elementwise function of two operands, quantised or float32 constants."""
        return binary_routine(op, shapes, operands, y, bounds)

    def binary_values(
        self,
        op: Op,
        values: tuple[Array, Array],
        operands: tuple[Quantization, Quantization],
        y: Quantization,
        bounds: Bounds,
    ) -> Array:
        """Compute in numpy the result of the routine `binary` for quantised operands of one shape."""
        a, b = (dequantize(q, per) for q, per in zip(values, operands, strict=True))
        return binary(op, a, b, y, bounds)

    def matmul(
        self, shapes: tuple[Sequence[int], Sequence[int]], a: Quantization, b: Quantization, dtype: str
    ) -> Routine:
        """Return a routine that computes the accumulators of a product of two run-time tensors in `dtype`."""
        return matmul_routine(shapes, a, b, dtype)

    def conv2d_transpose(
        self,
        shape: Sequence[int],
        x: Quantization,
        weights: npt.NDArray[np.integer[Any]],
        window: Mapping[str, Any],
        dtype: str,
    ) -> Routine:
        """Return a routine that computes a transposed convolution's accumulators, for data [N, H, W, C].

        Args:
            shape: Shape of the data.
            x: Quantisation of the data.
            weights: Constants, [output channels of a group, kernel rows, kernel columns, C].
            window: strides, padding, output_padding, dilation and groups, as in `Geometry`.
            dtype: Dtype of the accumulators.
        """
        return conv2d_transpose_routine(Geometry(tuple(shape), weights.shape, **window), x, weights, dtype)

    def softmax(self, shape: Sequence[int], axis: int, x: Quantization, y: Quantization) -> Routine:
        """Return a routine that computes a softmax along one axis of an 8-bit tensor.

        Raises:
            ValueError: x is not of 8 bits.
        """
        return softmax_routine(shape, axis, x, y)

    def resize(
        self, shape: Sequence[int], size: Sequence[int], mode: str, x: Quantization, layout: str
    ) -> Routine:
        """Raise ValueError: a bilinear resize is computed in float.

        Raises:
            ValueError: Always, since onnxruntime interpolates in float, and LiteRT in a different fixed point.
        """
        raise ValueError("a resize that interpolates computes in float")

    def norm(
        self,
        shape: Sequence[int],
        row: tuple[int, float],
        factors: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None],
        x: Quantization,
        y: Quantization,
    ) -> Routine:
        """Return a routine that computes a layer norm or an RMS norm of an 8-bit tensor.

        Args:
            shape: Shape of the tensor.
            row: Number of last axes that are normalised together, and epsilon.
            factors: Real gamma, and beta or None in an RMS norm; they broadcast to a row.
            x: Quantisation of the tensor.
            y: Quantisation of the output.

        Raises:
            ValueError: x is not of 8 bits, a row is too long, epsilon is not positive, or gamma or beta are too large.
        """
        (axes, epsilon), (gamma, beta) = row, factors
        what = Norm(axes, epsilon, centred=beta is not None)
        return norm_routine(shape, what, gamma, np.zeros(()) if beta is None else beta, x, y)


NUMERICS = Qdq()
