# SPDX-License-Identifier: Apache-2.0
"""The numerics `tosa` as an object: the pass `integerize` calls it for the routines of integer operators."""

from collections.abc import Sequence
from typing import Any

from schedules.numerics.qdq.numerics import Qdq
from schedules.numerics.qdq.table import Real
from schedules.numerics.qdq.values import Array, Bounds, Floats, Quantization
from schedules.numerics.routine import Routine
from schedules.numerics.tosa.binary import OPS, binary, binary_routine
from schedules.numerics.tosa.requantize import divisors, multipliers, requantize_routine
from schedules.numerics.tosa.rescale import MULTIPLIER_BITS, WIDE_MULTIPLIER_BITS
from schedules.numerics.tosa.resize import resize_routine
from schedules.numerics.tosa.softmax import softmax_routine
from schedules.numerics.tosa.steps import clamp_of, restepped_routine
from schedules.numerics.tosa.table import interpolated_routine

_ACCUMULATOR = "int32"
_WIDE = "int16"


class Tosa(Qdq):
    """Constructors of the routines of the numerics `tosa`.

    They replace the routines of `qdq` that compute in float; 8-bit tables and exact integer sums are inherited.
    """

    name = "tosa"
    index_dtype = "int32"

    def requantize(
        self,
        acc: tuple[Sequence[int], str, str],
        scales: tuple[float, Floats, Floats],
        y: Quantization,
        bounds: Bounds,
    ) -> Routine:
        """Return a routine that requantises accumulators by RESCALE; for the arguments see `Qdq.requantize`.

        Raises:
            ValueError: Accumulators have more than 32 bits and are no sums of products of 16-bit data, or a scale is
                out of RESCALE's range.
        """
        shape, dtype, data = acc
        input_scale, weight_scale, count = scales
        average = bool((count != 1).any() and (weight_scale == 1).all() and input_scale == y.scale)
        wide = data == _WIDE and not average
        if dtype != _ACCUMULATOR and not wide:
            raise ValueError(f"RESCALE takes accumulators of {_ACCUMULATOR}, not {dtype}")
        if average:
            return requantize_routine((shape, dtype), *divisors(count), y, bounds, average=True)
        bits = WIDE_MULTIPLIER_BITS if wide else MULTIPLIER_BITS
        found = multipliers(input_scale, weight_scale, y.scale, count, bits)
        return requantize_routine((shape, dtype), *found, y, bounds)

    def table(self, shape: Sequence[int], x: Quantization, y: Quantization, function: Real) -> Routine:
        """Return a routine that computes an elementwise function of one tensor.

        For an 8-bit tensor it is a table of 256 entries, for a 16-bit tensor an interpolated table. A change of scale
        from or to 16 bits, possibly with a clamp, is a RESCALE.

        Raises:
            ValueError: The function is NaN for some value, too steep for interpolation, or has unsupported dtypes
                or scales.
        """
        if _WIDE not in (x.dtype, y.dtype):
            return super().table(shape, x, y, function)
        if (bounds := clamp_of(function, x)) is not None:
            return restepped_routine(shape, x, y, bounds)
        if x.dtype != _WIDE:
            return super().table(shape, x, y, function)
        return interpolated_routine(shape, x, y, function)

    def binary(
        self,
        op: Any,
        shapes: tuple[Sequence[int], Sequence[int]],
        operands: tuple[Any, Any],
        y: Quantization,
        bounds: Bounds,
    ) -> Routine:
        """Return a routine that computes an elementwise function of two tensors; for the arguments see `Qdq.binary`.

        Raises:
            ValueError: The function is a division, or a scale is out of RESCALE's range.
        """
        if op not in OPS:
            raise ValueError(f"TOSA has no {op} of integers")
        return binary_routine(op, shapes, operands, y, bounds)

    def binary_values(
        self,
        op: Any,
        values: tuple[Array, Array],
        operands: tuple[Quantization, Quantization],
        y: Quantization,
        bounds: Bounds,
    ) -> Array:
        """Compute, in numpy, the result of the routine of `binary` for quantised operands of one shape.

        Raises:
            ValueError: See `binary`.
        """
        if op not in OPS:
            raise ValueError(f"TOSA has no {op} of integers")
        return binary(op, values, operands, y, bounds)

    def softmax(self, shape: Sequence[int], axis: int, x: Quantization, y: Quantization) -> Routine:
        """Return a routine that computes a softmax along one axis of an 8-bit tensor.

        Raises:
            ValueError: x is not of 8 bits, or the axis is too long for sums in 32 bits.
        """
        return softmax_routine(shape, axis, x, y)

    def resize(
        self, shape: Sequence[int], size: Sequence[int], mode: str, x: Quantization, layout: str
    ) -> Routine:
        """Return a routine that computes a bilinear resize of an 8-bit tensor.

        Raises:
            ValueError: See `resize_routine`.
        """
        return resize_routine(shape, size, mode, x, layout)


NUMERICS = Tosa()
