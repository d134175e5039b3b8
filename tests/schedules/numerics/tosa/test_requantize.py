# SPDX-License-Identifier: Apache-2.0
from fractions import Fraction

import numpy as np
import pytest

from schedules.numerics.tosa import NUMERICS
from schedules.numerics.tosa.requantize import divisors, multipliers, requantize, requantize_routine
from tests.schedules.numerics.routines import DECIMAL, ODD_POWER, POWER, UNSIGNED, WIDE, Array, Per, run

WEIGHTS = np.array([0.5, 0.1, 0.003921569, 2.0**-9, 0.0, 0.031, 0.7], np.float32)
ONE = np.ones((1, 1), np.float32)


def accumulators(channels: int) -> Array:
    rng = np.random.default_rng(1)
    return np.concatenate([rng.integers(-4000, 4000, (200, channels)), np.full((1, channels), -(2**28))])


@pytest.mark.parametrize("y", [POWER, ODD_POWER, DECIMAL, UNSIGNED, WIDE], ids=str)
def test_definition_rounds_the_real_number_half_up(y: Per):
    m, shift = multipliers(0.05, WEIGHTS.reshape(1, -1), y.scale, ONE)
    acc, info = accumulators(WEIGHTS.size), np.iinfo(y.dtype)
    real = [[Fraction(int(c), 1 << shift) for c in row] for row in m]
    expected = [
        [
            min(max((a * factor + Fraction(1, 2)).__floor__() + y.zero_point, info.min), info.max)
            for a, factor in zip(map(int, row), real[0], strict=True)
        ]
        for row in acc
    ]
    np.testing.assert_array_equal(requantize(acc, m, shift, y.zero_point, info.min, info.max), expected)
    for factor, weight in zip(real[0], WEIGHTS, strict=True):
        exact = Fraction(0.05) * Fraction(float(weight)) / Fraction(y.scale)
        assert abs(factor - exact) <= Fraction(1, 1 << shift)


@pytest.mark.parametrize("y", [POWER, UNSIGNED, WIDE], ids=str)
@pytest.mark.parametrize("bounds", [(None, None), (0.0, None), (0.0, 6.0)], ids=str)
def test_routine_equals_numpy(y: Per, bounds: tuple[float | None, float | None]):
    m, shift = multipliers(0.05, WEIGHTS.reshape(1, -1), y.scale, ONE)
    acc = accumulators(WEIGHTS.size).astype(np.int32)
    routine = requantize_routine((acc.shape, "int32"), m, shift, y, bounds)
    low, high = (int(routine.func.attrs[name]) for name in ("low", "high"))
    if bounds[0] is not None:
        assert low == y.zero_point
    expected = requantize(acc, m, shift, y.zero_point, low, high)
    assert len(np.unique(expected)) > 9
    np.testing.assert_array_equal(run(routine, [acc], acc.shape, y.dtype), expected)


def test_an_average_divides_by_its_count():
    m, shift = multipliers(0.05, ONE, 0.05, np.full((1, 1), 49, np.float32))
    assert abs(int(m.item()) / 2**shift - 1 / 49) < 2**-36


@pytest.mark.parametrize("data", ["int8", "int32"])
def test_accumulators_of_other_data_than_16_bits_have_32_bits(data: str):
    for count in (1, 9):
        scales = (POWER.scale, ONE, np.full((1, 1), count, np.float32))
        with pytest.raises(ValueError, match="int32, not int64"):
            NUMERICS.requantize(((1, 1), "int64", data), scales, DECIMAL, (None, None))


def test_an_average_of_16_bits_that_keeps_its_scale_has_32_bits():
    scales = (WIDE.scale, ONE, np.full((1, 1), 9, np.float32))
    with pytest.raises(ValueError, match="int32, not int64"):
        NUMERICS.requantize(((1, 1), "int64", "int16"), scales, WIDE, (None, None))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("y", [POWER, UNSIGNED, WIDE], ids=str)
def test_sums_of_16_bits_have_multipliers_of_16_bits(dtype: str, y: Per):
    """TOSA 1.0, apply_scale_16, in Python's integers, on accumulators of up to 48 bits."""
    channels, info = WEIGHTS.size, np.iinfo(y.dtype)
    scales = (0.05 / (1 << 10), WEIGHTS.reshape(1, -1), ONE)
    most = 46 if dtype == "int64" else 31
    acc = (
        np.random.default_rng(2).integers(-(2**most), 2**most, (100, channels))
        >> np.arange(100)[:, None] % most
    )
    routine = NUMERICS.requantize((acc.shape, dtype, "int16"), scales, y, (None, None))
    (m,), shift = routine.constants, int(routine.func.attrs["shift"])
    assert 1 << 14 <= m.max() < 1 << 15
    for multiplier, weight in zip(m.reshape(-1), WEIGHTS, strict=True):
        exact = Fraction(scales[0]) * Fraction(float(weight)) / Fraction(y.scale)
        assert abs(Fraction(int(multiplier), 1 << shift) - exact) <= Fraction(1, 1 << shift + 1)
    expected = [
        [
            min(max((int(a) * int(c) + (1 << shift - 1) >> shift) + y.zero_point, info.min), info.max)
            for a, c in zip(row, m.reshape(-1), strict=True)
        ]
        for row in acc
    ]
    actual = run(routine, [acc.astype(dtype)], acc.shape, y.dtype)
    assert len(np.unique(actual)) > 9
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 9, 49, 64, 100, 4096])
def test_an_average_that_keeps_its_scale_divides_as_avg_pool2d(count: int):
    """TOSA 1.0, reciprocal_scale and apply_scale_32, in Python's integers; 64 and 1 share a shift here."""
    k = (count - 1).bit_length()
    multiplier, shift = (((1 << 30) + 1) << k) // count, 30 + k
    acc = np.arange(-130 * count, 130 * count, max(1, count // 9))
    expected = [(int(a) * multiplier + (1 << (shift - 1))) >> shift for a in acc]
    m, common = divisors(np.array([count, 1, 4096], np.float32))
    np.testing.assert_array_equal(requantize(acc, m[0], common, 0, -(2**15), 2**15 - 1), expected)


def test_an_average_in_other_steps_is_a_sum():
    y = Per(DECIMAL.scale, 7, "int8")
    scales = (DECIMAL.scale, ONE, np.full((1, 1), 9, np.float32))
    same = NUMERICS.requantize(((2, 3), "int32", "int8"), scales, y, (None, None))
    other = NUMERICS.requantize(((2, 3), "int32", "int8"), scales, POWER, (None, None))
    assert [int(routine.func.attrs["average"]) for routine in (same, other)] == [1, 0]
    acc = np.array([[-40, -5, -4], [4, 5, 1100]], np.int32)
    np.testing.assert_array_equal(
        run(same, [acc], acc.shape, "int8"), np.clip(np.round(acc / 9) + 7, -128, 127)
    )
