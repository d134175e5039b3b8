# SPDX-License-Identifier: Apache-2.0
"""RESCALE of TOSA 1.0: an integer multiplication by a 32-bit multiplier, then a rounding right shift.

    rescale(value) = (value * multiplier + 2**(shift - 1)) >> shift

which rounds half up (SINGLE_ROUND in TOSA). Then the output's zero point is added, and the result saturated. Values of
48 bits, such as sums of products of 16-bit data, have a multiplier of 16 bits.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx

MULTIPLIER_BITS = 31
"""A multiplier is a fraction in [0.5, 1) with this many bits."""

WIDE_MULTIPLIER_BITS = 15
"""Bits of a multiplier for values of 48 bits."""

MIN_SHIFT, MAX_SHIFT = 2, 62
"""Range of the shift (TOSA 1.0, apply_scale_32 and apply_scale_16)."""


@dataclass(frozen=True)
class RescaleFactor:
    """A real scale as multiplier / 2**shift.

    Attributes:
        multiplier: Multiplier, at least 0 and below 2**31.
        shift: Shift, from `MIN_SHIFT` to `MAX_SHIFT`.
    """

    multiplier: int
    shift: int

    def __post_init__(self) -> None:
        if not 0 <= self.multiplier < 1 << MULTIPLIER_BITS:
            raise ValueError(f"multiplier {self.multiplier} is not in [0, 2**31)")
        if not MIN_SHIFT <= self.shift <= MAX_SHIFT:
            raise ValueError(f"shift {self.shift} is not from {MIN_SHIFT} to {MAX_SHIFT}")


def scale_of(value: float) -> RescaleFactor:
    """Return the multiplier and shift nearest to a real scale; scales below 2**-31 have fewer multiplier bits.

    Raises:
        ValueError: The value is not positive, or at least 2**29.
    """
    multipliers, shift = scales_of(np.array(value, np.float64))
    return RescaleFactor(int(multipliers), shift)


def scales_of(
    values: npt.NDArray[np.float64], bits: int = MULTIPLIER_BITS
) -> tuple[npt.NDArray[np.int32], int]:
    """Return multipliers for real scales, and their common shift.

    The multiplier of the maximum scale has all bits; that of a scale which is smaller by 2**-n has n bits less, but
    such channels also have smaller outputs.

    Args:
        values: The real scales.
        bits: `MULTIPLIER_BITS` or `WIDE_MULTIPLIER_BITS`.

    Raises:
        ValueError: A scale is negative or not finite, or none is positive, or one is at least 2**(bits - 2).
    """
    if not (np.isfinite(values).all() and (values >= 0).all() and values.max(initial=0) > 0):
        raise ValueError(f"scales must be finite, not negative, and not all 0, but are {values}")
    fraction, exponent = math.frexp(float(values.max()))
    # A multiplier that is rounded up to the next power of two would have one bit more.
    if math.floor(math.ldexp(fraction, bits) + 0.5) == 1 << bits:
        exponent += 1
    shift = min(bits - exponent, MAX_SHIFT)
    if shift < MIN_SHIFT:
        raise ValueError(f"scale {values.max()} is not below 2**{bits - MIN_SHIFT}")
    return np.floor(np.ldexp(values, shift) + 0.5).astype(np.int32), shift


def fits(value: npt.NDArray[np.integer[Any]] | int, shift: int) -> bool:
    """Whether RESCALE is defined for the values: they must have at most `shift` bits, sign included.

    An integer as `value` is a bound of |value|.
    """
    bound = 1 << min(shift - 1, 31)
    least, greatest = (-value, value) if isinstance(value, int) else (int(value.min()), int(value.max()))
    return -bound <= least and greatest < bound


def rescale(value: npt.ArrayLike, multiplier: npt.ArrayLike, shift: int) -> npt.NDArray[np.int64]:
    """Rescale integers by the module's definition; return int64.

    Args:
        value: Integers of 32 bits, or of 48 if multipliers have 15.
        multiplier: One multiplier, or several that broadcast.
        shift: The shift of all elements.
    """
    product = np.asarray(value, np.int64) * np.asarray(multiplier, np.int64)
    return (product + (1 << (shift - 1))) >> shift


def rescale_tir(value: ir.Expr, multiplier: ir.Expr | int, shift: int) -> ir.Expr:
    """Return the int64 TIR expression of `rescale` for one value and one int32 multiplier."""
    factor = wide(multiplier) if isinstance(multiplier, int) else tirx.Cast("int64", multiplier)
    return tirx.shift_right(tirx.Cast("int64", value) * factor + wide(1 << (shift - 1)), wide(shift))


def saturate_tir(value: ir.Expr, zero_point: int, low: int, high: int, dtype: str) -> ir.Expr:
    """Add the zero point to an int64 expression, clamp it to [low, high], and cast it."""
    return tirx.Cast(dtype, tirx.max(tirx.min(value + wide(zero_point), wide(high)), wide(low)))


def wide(value: int) -> ir.Expr:
    """Return an int64 immediate."""
    return tirx.IntImm("int64", value)
