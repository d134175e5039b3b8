# SPDX-License-Identifier: Apache-2.0
"""Multipliers and tables of LiteRT's 16-bit kernels, computed when a model is imported.

    multiplier_of(0.3)       0.3 = m / 2^31 * 2^shift, m of 31 bits
    fixed_logistic()         gemmlowp's fixed-point logistic of the 65,536 values of 3 integer bits
    table_of(f, low, high)   513 values of f, between which LiteRT interpolates

Formulas and constants are those of TensorFlow Lite's kernels/internal and of gemmlowp's fixedpoint.h.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

LEAST, MOST = -(2**15), 2**15 - 1
STEPS = 512
"""Intervals of a table between whose values LiteRT interpolates."""
SIGMOID_STEPS_A_UNIT = 24
"""Steps per unit in the table of 256 values that logistic and tanh share."""

ALMOST = 1e-3
"""Largest difference from an integer at which LiteRT takes the binary logarithm of a scale for an integer."""

_ONE_QUARTER_BITS = 2
_SMALLEST = 32
_NEWTON_STEPS = 3
# exp(-2^k) with 31 fractional bits, k = -2 ... 4.
_EXPONENTIALS = {-2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401, 4: 242}
# With 31 fractional bits: exp(-1/8) and 1/3; with 29: 48/17 and 32/17, for the first estimate of Newton's division.
_EXP_OF_EIGHTH, _THIRD, _48_OVER_17, _32_OVER_17 = 1895147668, 715827883, 1515870810, 1010580540


def multiplier_of(real: float) -> tuple[int, int]:
    """Return a scale as a 31-bit multiplier and an exponent of 2."""
    if real == 0:
        return 0, 0
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier, shift = multiplier // 2, shift + 1
    if shift < -31:
        return 0, 0
    return (2**31 - 1, 30) if shift > 30 else (multiplier, shift)


def scale_of(first: float, second: float, by: float) -> float:
    """Return first · second / by, rounded to float32 after each step."""
    return float(np.float32(first) * np.float32(second) / np.float32(by))


def every_value() -> Integers:
    """Return the 65,536 values of int16 in ascending order."""
    return np.arange(LEAST, MOST + 1)


@cache
def fixed_logistic() -> npt.NDArray[np.int16]:
    """Return the logistic function of each int16 value with 3 integer bits; the results have no integer bits."""
    x = every_value()
    reciprocal = _saturated(_reciprocal(_exp(-np.abs(x), 3)) << 1)
    result = np.where(x > 0, reciprocal, MOST - reciprocal)
    return np.where(x == 0, 2**14, result).astype(np.int16)


@cache
def fixed_tanh(integer_bits: int) -> npt.NDArray[np.int16]:
    """Return the tanh of each int16 value with `integer_bits` integer bits; the results have no integer bits."""
    x = every_value()
    # tanh(x) = (1 - e) / (1 + e), e = exp(-2x): 2x has one more integer bit than x.
    reciprocal = _reciprocal(_exp(-np.abs(x), integer_bits + 1))
    result = _saturated((reciprocal - 2**13) << 2)
    return np.where(x == 0, 0, np.where(x < 0, -result, result)).astype(np.int16)


def sigmoid_table() -> Integers:
    """Return the logistic function of k / 24 for k from 0 to 255, with 16 fractional bits, and a final 1.

    The entries minimise the error of linear interpolation.
    """
    x = np.arange(257) / SIGMOID_STEPS_A_UNIT
    exact, middle = (2**16 / (1 + np.exp(-at)) for at in (x, x + 0.5 / SIGMOID_STEPS_A_UNIT))
    line = (exact[:-1] + exact[1:]) / 2
    values = np.round(exact[:-1] - (line - middle[:-1]) / 2)
    values[-1] = 2**16 - 1
    return np.asarray(values, np.int64)


def table_of(
    function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    low: float,
    high: float,
    scale: float,
) -> npt.NDArray[np.int16]:
    """Return 513 values of a function from `low` to `high`, in units of a scale, for linear interpolation.

    Each is moved by half of what a straight line to the next is off in the middle.
    """
    step = (high - low) / STEPS
    x: npt.NDArray[Any] = low + step * np.arange(STEPS + 1)
    exact = function(x) / scale
    middle = _away(function(x[:-1] + step / 2) / scale)
    line = _away((exact[1:] + _away(exact[:-1])) / 2)
    values = _away(exact)
    values[:-1] -= _away((line - middle) / 2)
    return np.clip(values, LEAST, MOST).astype(np.int16)


def _away(x: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Round half away from zero."""
    return np.asarray(np.copysign(np.floor(np.abs(x) + 0.5), x))


def _saturated(x: Integers) -> Integers:
    return np.clip(x, LEAST, MOST)


def _narrow(constant: int) -> int:
    """Convert a 32-bit fixed-point constant to 16 bits."""
    return (constant + 2**15) >> 16


def _times(a: Integers | int, b: Integers | int) -> Integers:
    """Return the high half of twice a product, rounded half up."""
    return _saturated((np.asarray(a, np.int64) * b + 2**14) >> 15)


def _shifted(x: Integers, bits: int) -> Integers:
    """Divide by 2^bits, rounding half away from zero."""
    return np.asarray((x + (1 << (bits - 1)) + (x >> 63)) >> bits)


def _exp(x: Integers, integer_bits: int) -> Integers:
    """Return exp(x) for x <= 0, without integer bits in the result."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - _ONE_QUARTER_BITS)
    near = (x & (quarter - 1)) - quarter
    result = _exp_within_quarter(near << integer_bits)
    for exponent, multiplier in _EXPONENTIALS.items():
        bit = fraction + exponent
        if integer_bits > exponent and bit >= 0:
            result = np.where((near - x) >> bit & 1, _times(result, _narrow(multiplier)), result)
    # For smaller x, the table has no entries; the result is 0.
    result = np.where(x < -(_SMALLEST << fraction), 0, result)
    return np.where(x == 0, MOST, result)


def _exp_within_quarter(x: Integers) -> Integers:
    """Return exp(x) for x in [-1/4, 0), by a Taylor polynomial of degree 4 around -1/8."""
    x = x + (1 << 12)
    square = _times(x, x)
    cube, fourth = _times(square, x), _times(square, square)
    tail = _shifted(_times(_shifted(fourth, 2) + cube, _narrow(_THIRD)) + square, 1)
    factor = _narrow(_EXP_OF_EIGHTH)
    return _saturated(factor + _times(factor, x + tail))


def _reciprocal(x: Integers) -> Integers:
    """Return 2 / (1 + x) for x from 0 to 1, with 2 integer bits, by Newton's division."""
    half = (x + MOST + 1) >> 1
    y = _narrow(_48_OVER_17) + _times(half, _narrow(-_32_OVER_17))
    for _ in range(_NEWTON_STEPS):
        rest = 2**13 - _times(half, y)
        y = _saturated(y + _saturated(_times(y, rest) << 2))
    return y
