# SPDX-License-Identifier: Apache-2.0
"""Routines run on this machine; quantisations, with scales that a wrong formula does not get right."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from schedules.numerics.routine import Routine
from tests.schedules.programs import run_on_host

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Per:
    """How a tensor is quantised."""

    scale: float
    zero_point: int
    dtype: str

    @property
    def every(self) -> Array:
        """All values of 8 bits, or those of 16 at the ends, around the zero point and some between."""
        info = np.iinfo(self.dtype)
        return np.unique(
            np.concatenate(
                [
                    np.arange(info.min, info.min + 64),
                    np.linspace(info.min, info.max, 256).astype(int),
                    np.arange(info.max - 63, info.max + 1),
                ]
            )
        ).astype(self.dtype)


# Powers of two end in ties, their neighbours next to one; the others are what quantisers write.
POWER = Per(2.0**-4, 0, "int8")
ODD_POWER = Per(2.0**-3, 7, "int8")
BELOW_POWER = Per(float(np.nextafter(np.float32(0.125), np.float32(0))), -101, "int8")
DECIMAL = Per(float(np.float32(0.05)), -3, "int8")
UNSIGNED = Per(float(np.float32(0.1)), 131, "uint8")
ANY = Per(float(np.float32(0.0118281)), 255, "uint8")
EIGHT_BITS = (POWER, ODD_POWER, BELOW_POWER, DECIMAL, UNSIGNED, ANY)
WIDE = Per(float(np.float32(0.003)), -77, "int16")
# Of probabilities: in s8, and what quantisers write in u8, not a power of two.
PROBABILITIES = Per(1 / 256, -128, "int8")
SHARES = Per(float(np.float32(1 / 255)), 0, "uint8")


def run(routine: Routine, tensors: Sequence[Array], shape: Sequence[int], dtype: str) -> Array:
    """Run a routine on its tensors and constants."""
    func = routine.func.with_attr("global_symbol", "routine")
    return run_on_host(func, [*tensors, *routine.constants], shape, dtype)


def binary32(value: Fraction) -> Fraction:
    """Rounded to binary32, half to even, from first principles: no float arithmetic takes part."""
    if value == 0:
        return value
    exponent = 0
    while abs(value) >= Fraction(2) ** (exponent + 24):
        exponent += 1
    while abs(value) < Fraction(2) ** (exponent + 23):
        exponent -= 1
    return round(value / Fraction(2) ** exponent) * Fraction(2) ** exponent


def real(q: int, per: Per) -> Fraction:
    """fl((q - zp) * s), from first principles."""
    return binary32((q - per.zero_point) * Fraction(per.scale))


def quantized(value: Fraction, per: Per) -> int:
    """A binary32 number quantised, from first principles."""
    info = np.iinfo(per.dtype)
    whole = round(binary32(value / Fraction(per.scale))) + per.zero_point
    return min(max(whole, int(info.min)), int(info.max))


SOFTMAX_SHAPES = [((1,), 0), ((7, 9), -1), ((2, 31, 8), 1), ((3, 1), 1), ((4, 2, 5), 0)]


def values(x: Per, shape: tuple[int, ...]) -> Array:
    """Any values of a quantised tensor."""
    info = np.iinfo(x.dtype)
    return np.random.default_rng(3).integers(info.min, info.max + 1, shape).astype(x.dtype)


def softmax_in_binary64(q: Array, axis: int, x: Per) -> Array:
    """The real softmax of quantised values."""
    real = (q.astype(np.float64) - x.zero_point) * x.scale
    e = np.exp(real - real.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))
