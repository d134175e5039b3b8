# SPDX-License-Identifier: Apache-2.0
"""The numerics `tosa`: RESCALE of TOSA 1.0 by a 32-bit multiplier and a shift, in integers throughout.

    q = saturate(((acc - input_zp) * multiplier + round >> shift) + zp)

with round = 2**(shift - 1), which rounds half up ("single"). With "double" rounding and a shift above 31, 2**30 more is
added for acc >= input_zp and subtracted below it, which is TFLite's two-step rounding.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx

Rounding = Literal["single", "double"]

MULTIPLIER_BITS = 31
"""A multiplier is a fraction in [0.5, 1) with this many bits."""

MIN_SHIFT, MAX_SHIFT = 2, 62
"""Range of the shift (TOSA 1.0, apply_scale_32)."""

DOUBLE_ROUND_SHIFT = 31
"""Double rounding differs from single above this shift (TOSA 1.0, apply_scale_32)."""

DOUBLE_ROUND = 1 << 30
"""What double rounding adds away from zero (TOSA 1.0, apply_scale_32)."""


@dataclass(frozen=True)
class Scale:
    """A real scale as multiplier / 2**shift.

    Attributes:
        multiplier: At least 0 and below 2**31.
        shift: From `MIN_SHIFT` to `MAX_SHIFT`.
    """

    multiplier: int
    shift: int

    def __post_init__(self) -> None:
        if not 0 <= self.multiplier < 1 << MULTIPLIER_BITS:
            raise ValueError(f"multiplier {self.multiplier} is not in [0, 2**31)")
        if not MIN_SHIFT <= self.shift <= MAX_SHIFT:
            raise ValueError(f"shift {self.shift} is not from {MIN_SHIFT} to {MAX_SHIFT}")


def scale_of(value: float) -> Scale:
    """The scale nearest to a real number; one below 2**-31 loses low bits of its multiplier.

    Raises:
        ValueError: The value is not positive, or 2**29 and above.
    """
    if not value > 0 or not math.isfinite(value):
        raise ValueError(f"a scale is positive and finite, not {value}")
    fraction, exponent = math.frexp(value)
    whole = math.floor(fraction * (1 << MULTIPLIER_BITS) + 0.5)
    if whole == 1 << MULTIPLIER_BITS:
        whole, exponent = whole >> 1, exponent + 1
    shift = MULTIPLIER_BITS - exponent
    excess = max(0, shift - MAX_SHIFT)
    return Scale(whole >> excess, shift - excess)


def rescale(
    acc: npt.NDArray[np.int32], scale: Scale, input_zp: int, zero_point: int, dtype: str, rounding: Rounding
) -> npt.NDArray[Any]:
    """Rescales accumulators, as defined above.

    Args:
        acc: int32.
        scale: One scale for all.
        input_zp: Subtracted before.
        zero_point: Added after.
        dtype: Integer dtype of the result, 32 bits at most.
        rounding: "single" or "double".

    Raises:
        ValueError: acc - input_zp does not fit in `shift` bits, where TOSA leaves the result undefined.
    """
    value = acc.astype(np.int64) - input_zp
    bound = 1 << min(scale.shift - 1, 31)
    if value.size and (value.min() < -bound or value.max() >= bound):
        raise ValueError(
            f"accumulators from {value.min()} to {value.max()} exceed shift {scale.shift}: +-{bound}"
        )
    half = np.full(value.shape, 1 << (scale.shift - 1), np.int64)
    if rounding == "double" and scale.shift > DOUBLE_ROUND_SHIFT:
        half += np.where(value >= 0, DOUBLE_ROUND, -DOUBLE_ROUND)
    info = np.iinfo(dtype)
    whole = ((value * scale.multiplier + half) >> scale.shift) + zero_point
    rescaled: npt.NDArray[Any] = np.clip(whole, info.min, info.max).astype(dtype)
    return rescaled


def rescale_tir(
    acc: ir.Expr, scale: Scale, input_zp: int, zero_point: int, dtype: str, rounding: Rounding
) -> ir.Expr:
    """`rescale` of one int32 accumulator, as an expression; it does not check that the accumulator fits."""

    def wide(value: int) -> ir.Expr:
        return tirx.IntImm("int64", value)

    value = tirx.Cast("int64", acc) - wide(input_zp)
    half = wide(1 << (scale.shift - 1))
    if rounding == "double" and scale.shift > DOUBLE_ROUND_SHIFT:
        half = half + tirx.Select(value >= wide(0), wide(DOUBLE_ROUND), wide(-DOUBLE_ROUND))
    info = np.iinfo(dtype)
    scaled = tirx.shift_right(value * wide(scale.multiplier) + half, wide(scale.shift)) + wide(zero_point)
    return tirx.Cast(dtype, tirx.max(tirx.min(scaled, wide(int(info.max))), wide(int(info.min))))
