# SPDX-License-Identifier: Apache-2.0
"""RESCALE of the numerics `tosa` in vector registers, exact, without 64-bit products.

    rescale(acc) = (acc * m + 2**(shift - 1)) >> shift

SQDMULH gives t = floor(acc * m / 2**31). Floors nest: with n = shift - 31 >= 1,

    rescale(acc) = floor((acc * m / 2**31 + 2**(n - 1)) / 2**n) = floor((t + 2**(n - 1)) / 2**n)

since 2**(n - 1) is an integer. This is a rounding right shift of t; SQRSHRN shifts and narrows in one instruction. It
holds for every accumulator, since m is not negative, so that SQDMULH never saturates. For scales of at least 1/2, shift
is at most 31. SQRDMULH of the accumulator, shifted left by k = 31 - shift, then gives

    floor((acc * 2**k * m + 2**30) / 2**31) = floor((acc * m + 2**(shift - 1)) / 2**shift)

which requires |acc| <= 2**shift; `exact` checks this.
"""

from collections.abc import Sequence

from tvm import ir, tirx

from schedules.intrinsics.narrow import sqdmulh, sqrdmulh, sqrshrn16, sqxtn16, srshr
from schedules.intrinsics.vector import combine

PRODUCT_SHIFT = 31
"""Right shift of SQDMULH and SQRDMULH."""

NARROWING = range(1, 17)
"""Shifts of SQRSHRN from 32 bits to 16."""


def exact(shift: int, accumulator: int | None) -> bool:
    """Whether `rescale16` is exact for |acc| < 2**accumulator (None: for any 32-bit accumulator)."""
    return shift > PRODUCT_SHIFT or (accumulator is not None and accumulator <= shift)


def rescale16(acc: Sequence[ir.Expr], m: Sequence[ir.Expr], shift: int) -> list[ir.Expr]:
    """Emit RESCALE of 16 accumulators to two saturated int16x8.

    Args:
        acc: Four int32x4.
        m: Four int32x4: the multipliers, not negative.
        shift: The shift of all elements.
    """
    narrow = [_rescaled(a, factor, shift) for a, factor in zip(acc, m, strict=True)]
    return [combine(narrow[0], narrow[1]), combine(narrow[2], narrow[3])]


def rescale32(x: ir.Expr, m: ir.Expr, shift: int) -> ir.Expr:
    """Emit RESCALE of an int32x4 to int32x4; a result beyond 32 bits is undefined."""
    rest = shift - PRODUCT_SHIFT
    if rest > 0:
        return srshr(sqdmulh(x, m), rest)
    return sqrdmulh(x << tirx.Broadcast(tirx.IntImm("int32", -rest), 4) if rest else x, m)


def _rescaled(acc: ir.Expr, m: ir.Expr, shift: int) -> ir.Expr:
    rest = shift - PRODUCT_SHIFT
    return sqrshrn16(sqdmulh(acc, m), rest) if rest in NARROWING else sqxtn16(rescale32(acc, m, shift))
