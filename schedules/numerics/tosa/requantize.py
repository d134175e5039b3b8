# SPDX-License-Identifier: Apache-2.0
"""Requantisation of integer accumulators: RESCALE, then the clamp of an absorbed relu or clip.

    m[c] / 2**shift ~ xs * ws[c] / (ys * n)         in binary64; 31 bits for the maximum over channels
    q               = saturate(rescale(acc) + zp)

xs and ws are the scales of data and weights, n is the divisor of an average, as in the numerics `qdq`. Sums of products
of 16-bit data have 48 bits in TOSA, and multipliers of 15 bits; on a CPU these sums are int32 if they fit. An average
whose output has the scale of its input divides like AVG_POOL2D, by a separate multiplier for each n:

    m / 2**shift = (2**30 + 1) * 2**k // n / 2**(30 + k)        k = bits of n - 1
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import te

from schedules.numerics.qdq.values import Array, Bounds, Floats, Quantization, integer_bounds
from schedules.numerics.routine import Routine, broadcast, routine
from schedules.numerics.tosa.rescale import (
    MULTIPLIER_BITS,
    rescale,
    rescale_tir,
    saturate_tir,
    scales_of,
)


def multipliers(
    input_scale: float,
    weight_scale: Floats,
    output_scale: float,
    count: Floats,
    bits: int = MULTIPLIER_BITS,
) -> tuple[npt.NDArray[np.int32], int]:
    """Return the multipliers (at most `bits` bits, of the arguments' rank) and their common shift.

    Raises:
        ValueError: A scale is out of RESCALE's range.
    """
    factor = np.float64(input_scale) * weight_scale.astype(np.float64)
    return scales_of(np.asarray(factor / (np.float64(output_scale) * count.astype(np.float64))), bits)


def divisors(count: Floats) -> tuple[npt.NDArray[np.int64], int]:
    """Return AVG_POOL2D's multipliers (TOSA 1.0, reciprocal_scale), in the shape of `count`, and their common shift.

    With the common shift, multipliers of small counts exceed 32 bits; with separate shifts they would not.
    """
    n = count.astype(np.int64)
    bits = np.ceil(np.log2(n)).astype(np.int64)
    most = int(bits.max(initial=0))
    return (((1 << 30) + 1 << bits) // n) << (most - bits), 30 + most


def requantize(
    acc: npt.NDArray[np.integer[Any]], m: npt.ArrayLike, shift: int, zero_point: int, low: int, high: int
) -> npt.NDArray[np.int64]:
    """Requantise accumulators to [low, high] by the module's definition; `m` broadcasts against `acc`."""
    return np.asarray(np.clip(rescale(acc, m, shift) + zero_point, low, high))


def requantize_routine(
    acc: tuple[Sequence[int], str],
    m: Array,
    shift: int,
    y: Quantization,
    bounds: Bounds,
    *,
    average: bool = False,
) -> Routine:
    """Return a routine that computes `requantize`; the multipliers, of the accumulators' rank, are its constant.

    Its attribute "average" is 1 if the multipliers are from `divisors`.
    """
    shape, dtype = acc
    low, high = integer_bounds(y, bounds)
    total = te.placeholder(shape, dtype, "acc")
    factor = te.placeholder(m.shape, str(m.dtype), "multiplier")
    out = te.compute(
        shape,
        lambda *i: saturate_tir(
            rescale_tir(total(*i), broadcast(factor, shape, i), shift), y.zero_point, low, high, y.dtype
        ),
        "requantize",
    )
    return routine(
        "tosa.requantize",
        [total, factor, out],
        [m],
        shift=shift,
        zero_point=y.zero_point,
        low=low,
        high=high,
        output_dtype=y.dtype,
        average=int(average),
    )
