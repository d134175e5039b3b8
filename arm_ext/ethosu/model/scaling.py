# SPDX-License-Identifier: Apache-2.0
"""Multiplication by a fixed-point number, with each rounding mode of an Ethos-U.

Source of the formulas: Vela 5.2, which folds constants by them (regor/compiler/graphir_optimiser.cpp, Scale).
"""

from typing import Literal

import numpy as np

from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.memory import Integers

Rounding = Literal["double", "natural", "double_asymmetric", "symmetric", "truncate", "lower"]

# Rounding modes, indexed by the value of the register field that selects the mode.
U55_ROUNDING: tuple[Rounding, ...] = ("double", "truncate", "natural")
U85_OFM_ROUNDING: tuple[Rounding, ...] = (
    "double",
    "natural",
    "double_asymmetric",
    "symmetric",
    "truncate",
    "lower",
)
U85_IFM_ROUNDING: tuple[Rounding, ...] = ("double", "natural")

_HIGH_WORD = 31  # double rounding first rounds the bits that a 32-bit high multiplication drops
_LIMIT = 2.0**63


def rescale(
    values: Integers,
    multiplier: Integers | int,
    shift: Integers | int,
    rounding: Rounding,
    double_shift: int = 0,
) -> Integers:
    """Return values x multiplier / 2^shift, rounded.

    "natural" rounds halves up, "symmetric" away from zero, "lower" never up, "truncate" towards zero. The two
    double ones add half of the 31st dropped bit too, with the sign of the value or without.

    Args:
        values: Integers of any shape.
        multiplier: Multipliers that are not negative: one, or one per element of the last axis.
        shift: Shifts from 0 to 63: one, or one per element of the last axis.
        rounding: How to round.
        double_shift: Number of bits that the values were shifted left before, for double rounding.
    """
    multiplier, shift = np.asarray(multiplier, np.int64), np.asarray(shift, np.int64)
    extent = float(np.abs(values).max(initial=0)) * float(multiplier.max(initial=0))
    if extent >= _LIMIT:
        raise StreamError("an accumulator times its multiplier exceeds 63 bits")
    half = (np.int64(1) << shift) >> 1
    once = np.where(shift > _HIGH_WORD - double_shift, np.int64(1) << (_HIGH_WORD - 1 - double_shift), 0)
    negative = values < 0
    addend: Integers
    if rounding == "double":
        addend = half + np.where(negative, -once, once)
    elif rounding == "double_asymmetric":
        addend = half + once
    elif rounding == "symmetric":
        addend = half - (negative & (half > 0))
    elif rounding == "truncate":
        addend = np.where(negative, (np.int64(1) << shift) - 1, 0)
    else:
        addend = half if rounding == "natural" else np.zeros_like(half)
    out: Integers = (values * multiplier + addend) >> shift
    return out
