# SPDX-License-Identifier: Apache-2.0
import math
from fractions import Fraction

import numpy as np
import pytest

from arm_ext.ethosu.model import StreamError
from arm_ext.ethosu.model.scaling import Rounding, rescale

VALUES = np.array([0, 1, -1, 2, -2, 3, -3, 5, -5, 6, -6, 127, -128, 32767, -32768, 2**31 - 1, -(2**31)])


def exact(value: int, multiplier: int, shift: int, rounding: Rounding) -> int:
    """The rounded value by rational arithmetic."""
    real = Fraction(int(value) * multiplier, 1 << shift)
    low = math.floor(real)
    if rounding == "lower":
        return low
    if rounding == "truncate":
        return math.trunc(real)
    if rounding == "symmetric" and value < 0:
        return -math.floor(-real + Fraction(1, 2))
    return math.floor(real + Fraction(1, 2))


@pytest.mark.parametrize("rounding", ["natural", "symmetric", "truncate", "lower"])
@pytest.mark.parametrize(
    ("multiplier", "shift"), [(1, 0), (1, 1), (3, 2), (1 << 30, 31), (1_234_567_891, 35), (7, 6)]
)
def test_single_rounding(rounding: Rounding, multiplier: int, shift: int) -> None:
    found = rescale(VALUES, multiplier, shift, rounding)
    assert found.tolist() == [exact(v, multiplier, shift, rounding) for v in VALUES]


def test_double_rounding_adds_the_high_words_half_with_the_sign() -> None:
    # 2^-32 of 2^31 is a half: up alone, and with 2^30 more or less it stays above or falls below.
    values = np.array([1, -1])
    assert rescale(values, 1 << 31, 32, "natural").tolist() == [1, 0]
    assert rescale(values, 1 << 31, 32, "double").tolist() == [1, -1]
    assert rescale(values, 1 << 31, 32, "double_asymmetric").tolist() == [1, 0]
    assert rescale(values, 1 << 30, 31, "double").tolist() == [1, 0], "only shifts beyond 31 round twice"


def test_values_shifted_left_before_round_twice_from_a_lesser_shift_on() -> None:
    assert rescale(np.array([-1]), 1 << 11, 12, "double", 20).tolist() == [-1]
    assert rescale(np.array([-1]), 1 << 11, 12, "double", 0).tolist() == [0]


def test_each_channel_has_its_own_scale() -> None:
    values = np.full((2, 3), 10)
    assert rescale(values, np.array([1, 2, 3]), np.array([0, 1, 2]), "natural").tolist() == [[10, 10, 8]] * 2


def test_what_exceeds_63_bits_raises() -> None:
    with pytest.raises(StreamError, match="exceeds 63 bits"):
        rescale(np.array([1 << 40]), (1 << 31) - 1, 3, "natural")
