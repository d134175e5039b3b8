# SPDX-License-Identifier: Apache-2.0
"""Requantisation by one fused multiply-add: which channels it is exact for, and with which constants.

The definition is q = saturate(rne(fl(acc * m)) + zp). Accumulators that start from bias + 0x4B000000 + S - 2**23 are,
read as binary32, the numbers S + acc, and with R an integer near S * m

    fma(S + acc, m', C) = rne(acc * m' + error) + A    C = A - R,  A = `addend_of` the zero point,  error = S * m' - R

rounds once, in the low bits of its result. Definition and fused form both increase with acc. They are equal for all
|acc| < bound if and only if, for each output value v, the minimum acc_v for which the definition gives v or more is the
same in both: the fused form must give v or more at acc_v, and less than v at acc_v - 1. For a given m' this bounds the
error from below and above for each v, which leaves one interval (or none) per channel. The interval is computed in
integers, in units of 2**-e for m' = M * 2**-e.

If the multiplier is a power of two, there is an S with an error of 0. For other multipliers the first rounding of the
definition turns values near a tie, on both sides, into ties. If the interval is therefore empty for m' = m, floats next
to m are tried; if their intervals are empty, too, the channel has no fused form.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from schedules.kernels.epilogues.requantize import addend_of

MANTISSA = 24
"""Bits of a binary32 significand."""

LEAST_BASE = 1 << (MANTISSA - 1)
"""Least number from which on, up to its double, the numbers of binary32 are exactly the integers."""

_LEAST_BASE_BITS = 0x4B000000
"""`LEAST_BASE` as the bits of a binary32. Each next integer, up to twice as much, has bits that are one more."""

NEIGHBOURS = (0, 1, -1)
"""Multipliers that are tried, in units of the last place from m; further ones have been of no use."""

LARGEST_EXPONENT = 52
"""The largest e for which (2 * v - 1) * 2**(e - 1) is an int64 for all 8-bit values v."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FusedRequantization:
    """Constants of the fused form, each [channels].

    The arrays are read-only, because calls with equal arguments share them.

    Attributes:
        proven: Whether the channel has a fused form; `m` and `addend` of other channels are 0.
        base: int64; bias + base is the initial accumulator. 0x4B400000, as for the form "biased", if the channel has no
            fused form.
        m: The multipliers m', float32.
        addend: The addends C, float32.
    """

    proven: npt.NDArray[np.bool_]
    base: Ints
    m: npt.NDArray[np.float32]
    addend: npt.NDArray[np.float32]


def fused_constants(
    m: npt.ArrayLike, bound: int, zero_point: int, low: int, high: int
) -> FusedRequantization:
    """Return the constants of each channel for which the fused form is proven equal to the definition.

    Args:
        m: Multipliers, float32 [channels].
        bound: Upper bound of |acc|, at most 2**22. |acc * m| is bounded as for the form "biased".
        zero_point: Zero point of the output.
        low: Minimum output.
        high: Maximum output.

    Raises:
        ValueError: `bound` is above 2**22.
    """
    if bound > LEAST_BASE // 2:
        raise ValueError(
            f"accumulators below {bound} are not integers of binary32 around one base; limit 2**22"
        )
    return _fused_constants(np.asarray(m, np.float32).tobytes(), bound, zero_point, low, high)


# Cached, because constants are needed twice: to prove the form when a kernel is chosen, and for packing.
@lru_cache(256)
def _fused_constants(m: bytes, bound: int, zero_point: int, low: int, high: int) -> FusedRequantization:
    multipliers = np.frombuffer(m, np.float32)
    significand, exponent = decompose(multipliers)
    usable = np.isfinite(multipliers) & (multipliers > 0) & (exponent > 0) & (exponent <= LARGEST_EXPONENT)
    channels = np.flatnonzero(usable)
    values = np.arange(low + 1, max(high, low + 1) + 1, dtype=np.int64) - zero_point
    begins = _first_accumulators(multipliers[channels], values)
    count = multipliers.size
    found = FusedRequantization(
        np.zeros(count, np.bool_),
        np.full(count, _bits(LEAST_BASE * 3 // 2), np.int64),
        np.zeros(count, np.float32),
        np.zeros(count, np.float32),
    )
    for neighbour in NEIGHBOURS:
        scaled = significand[channels] + neighbour
        least, most = _errors(scaled, exponent[channels], begins, values, bound)
        for index in np.flatnonzero(least <= most):
            channel, window = channels[index], (int(least[index]), int(most[index]))
            constants = constants_of(int(scaled[index]), int(exponent[channel]), window, bound, zero_point)
            if constants is not None:
                found.proven[channel] = True
                found.base[channel], found.m[channel], found.addend[channel] = constants
        left = ~found.proven[channels]
        channels, begins = channels[left], begins[left]
    for array in (found.proven, found.base, found.m, found.addend):
        array.flags.writeable = False
    return found


def constants_of(
    significand: int, exponent: int, window: tuple[int, int], bound: int, zero_point: int
) -> tuple[int, float, float] | None:
    """Return (base added to the initial accumulator, m', C) such that the error S * m' - R lies in `window`.

    Args:
        significand: M of m' = M * 2**-e; negative for a falling function.
        exponent: e of m' = M * 2**-e.
        window: Minimum and maximum error in units of 2**-e.
        bound: Upper bound of |acc|.
        zero_point: Zero point of the output.

    Returns:
        None if no base has an error in the window, or if C is no binary32 number.
    """
    base = _base(significand, 1 << exponent, window, bound)
    if base is None:
        return None
    addend = addend_of(zero_point) - ((base * significand - window[0]) >> exponent)
    if not _is_binary32(addend):
        return None
    return _bits(base), math.ldexp(significand, -exponent), float(addend)


def _bits(base: int) -> int:
    """Return the bits of the binary32 number `base`, an integer from 2**23 to 2**24."""
    return _LEAST_BASE_BITS + base - LEAST_BASE


def _is_binary32(number: int) -> bool:
    """Whether an integer, far below the maximum of binary32, is a binary32 number."""
    below = max(number.bit_length() - MANTISSA, 0)
    return not number & ((1 << below) - 1)


def decompose(m: npt.NDArray[np.float32]) -> tuple[Ints, Ints]:
    """Return the 24-bit significands M and the exponents e of multipliers m = M * 2**-e."""
    fraction, exponent = np.frexp(m.astype(np.float64))
    finite = np.where(np.isfinite(fraction), fraction, 0.0)
    return np.ldexp(finite, MANTISSA).astype(np.int64), MANTISSA - exponent.astype(np.int64)


def _first_accumulators(m: npt.NDArray[np.float32], values: Ints) -> Ints:
    """Return the minimum acc with rne(fl(acc * m)) >= v for each channel and value v, int64 [channels, values].

    If the minimum exceeds 2**22, the result is any number above 2**22.
    """
    exact = (values - 0.5) / m.astype(np.float64)[:, None]
    # The relative error of fl(acc * m) is at most 2**-24, which is a quarter of a step of acc below 2**22.
    nearest = np.clip(np.ceil(exact), -LEAST_BASE, LEAST_BASE).astype(np.float32)
    first = np.full_like(nearest, LEAST_BASE)
    for candidate in (nearest + 1, nearest, nearest - 1):
        reached = np.rint(candidate * m[:, None]) >= values.astype(np.float32)
        np.copyto(first, candidate, where=reached)
    return first.astype(np.int64)


def _errors(significand: Ints, exponent: Ints, begins: Ints, values: Ints, bound: int) -> tuple[Ints, Ints]:
    """Return the minimum and maximum error per channel for which each value begins at its accumulator (`begins`).

    Errors are in units of 2**-e. An even value v begins at the tie v - 1/2, an odd value right above this tie.
    """
    unit = np.left_shift(np.int64(1), exponent - 1)
    # A value whose minimum accumulator is outside of the range begins at the range's end, or never occurs.
    begins = np.clip(begins, 1 - bound, bound)
    beyond = unit[:, None] * (2 * values - 1) + (values & 1)
    beyond -= begins * significand[:, None]
    # In any case the absolute error must be less than half a unit of q.
    free = unit - 1
    least = np.where(begins < bound, beyond, -free[:, None]).max(1)
    # The product by the preceding accumulator is smaller by M.
    unreached = free - significand + 1
    most = np.where(begins > 1 - bound, beyond, unreached[:, None]).min(1) + significand - 1
    return np.maximum(least, -free), np.minimum(most, free)


def _base(significand: int, period: int, window: tuple[int, int], bound: int) -> int | None:
    """Return the minimum S for which S * M modulo `period` is in the window; None if there is no such S.

    S - bound and S + bound must be in [2**23, 2**24].
    """
    first, last = LEAST_BASE + bound, 2 * LEAST_BASE - bound
    least = (window[0] - first * significand) % period
    steps = _first_multiple(significand % period, period, least, least + window[1] - window[0])
    return None if steps is None or first + steps > last else first + steps


def _first_multiple(a: int, period: int, least: int, most: int) -> int | None:
    """Return the minimum j >= 0 with a * j modulo `period` in [least, most]; None if there is none (Euclid).

    Args:
        a: The factor, below `period`.
        period: A positive modulus.
        least: Lower bound, from 0 to `period` - 1.
        most: Upper bound, at least `least`; an interval that exceeds `period` - 1 wraps around to 0.
    """
    if least == 0 or most >= period:
        return 0
    if a == 0:
        return None
    if 2 * a > period:
        # With the negated factor, steps are less than half a period, so that the depth of recursion is logarithmic.
        return _first_multiple(period - a, period, period - most, period - least)
    if -(-least // a) * a <= most:
        return -(-least // a)
    # No multiple of a is in [least, most]: find the minimum number k of periods for which one is in the interval plus
    # k * period.
    turns = _first_multiple(-period % a, a, least % a, most % a)
    return None if turns is None else -(-(least + period * turns) // a)
