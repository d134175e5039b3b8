# SPDX-License-Identifier: Apache-2.0
"""The numerics `tosa` as one object, for the pass that turns QDQ groups into integer calls."""

from collections.abc import Sequence
from typing import Any

from schedules.numerics.qdq.numerics import Qdq
from schedules.numerics.qdq.values import Bounds, Floats, Quantization
from schedules.numerics.routine import Routine
from schedules.numerics.tosa.binary import OPS, binary_routine
from schedules.numerics.tosa.requantize import divisors, multipliers, requantize_routine
from schedules.numerics.tosa.softmax import softmax_routine


class Tosa(Qdq):
    """Differs from `qdq` where that computes in float; tables and exact integer sums are the same in both."""

    name = "tosa"

    def requantize(
        self,
        acc: tuple[Sequence[int], str],
        scales: tuple[float, Floats, Floats],
        y: Quantization,
        bounds: Bounds,
    ) -> Routine:
        """As of `qdq`.

        Raises:
            ValueError: Accumulators of more than 32 bits, or a scale beyond RESCALE's.
        """
        input_scale, weight_scale, count = scales
        if (count != 1).any() and (weight_scale == 1).all() and input_scale == y.scale:
            return requantize_routine(acc, *divisors(count), y, bounds, average=True)
        return requantize_routine(acc, *multipliers(input_scale, weight_scale, y.scale, count), y, bounds)

    def binary(
        self,
        op: Any,
        shapes: tuple[Sequence[int], Sequence[int]],
        operands: tuple[Any, Any],
        y: Quantization,
        bounds: Bounds,
    ) -> Routine:
        """As of `qdq`.

        Raises:
            ValueError: A division, or scales beyond RESCALE's.
        """
        if op not in OPS:
            raise ValueError(f"TOSA has no {op} of integers")
        return binary_routine(op, shapes, operands, y, bounds)

    def softmax(self, shape: Sequence[int], axis: int, x: Quantization, y: Quantization) -> Routine:
        """Softmax along one axis of an 8-bit tensor.

        Raises:
            ValueError: x is not of 8 bits, or the axis too long for a sum of 32.
        """
        return softmax_routine(shape, axis, x, y)


NUMERICS = Tosa()
