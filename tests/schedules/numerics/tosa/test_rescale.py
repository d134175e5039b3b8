# SPDX-License-Identifier: Apache-2.0
import math
from fractions import Fraction

import numpy as np
import pytest
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.numerics.tosa.rescale import (
    WIDE_MULTIPLIER_BITS,
    RescaleFactor,
    fits,
    rescale,
    rescale_tir,
    saturate_tir,
    scale_of,
    scales_of,
)
from schedules.tir.emit import i64, kernel_function
from tests.schedules.programs import run_on_host

SCALES = [2.0**-1, 2.0**-4, 2.0**-9, 0.1, 0.05, 0.003921569, 0.7, 1.3, 0.00031717264]

# What the TOSA reference model 2026.8.0 (PyPI: tosa-tools) gives for RESCALE with scale32, single rounding and no input
# zero point: multiplier, shift, output zero point, dtype, accumulators, results.
REFERENCE_MODEL: list[tuple[int, int, int, str, list[int], list[int]]] = [
    (
        1073741824,
        34,
        -3,
        "int8",
        [-40, -24, -8, 8, 24, 40, -40, -24, -8, 8, 24, 40, -24, -8, 8, 24, 100000, -100000],
        [-5, -4, -3, -2, -1, 0, -5, -4, -3, -2, -1, 0, -4, -3, -2, -1, 127, -128],
    ),
    (
        1717986918,
        34,
        7,
        "int8",
        [-25, -15, -5, 5, 15, 25, -25, -15, -5, 5, 15, 25, -24, -8, 8, 24, 100000, -100000],
        [5, 6, 7, 7, 8, 9, 5, 6, 7, 7, 8, 9, 5, 6, 8, 9, 127, -128],
    ),
    (
        1077952640,
        38,
        -128,
        "int8",
        [-638, -383, -128, 127, 382, 637, -637, -382, -127, 128, 383, 638, -24, -8, 8, 24, 100000, -100000],
        [
            -128,
            -128,
            -128,
            -128,
            -127,
            -126,
            -128,
            -128,
            -128,
            -127,
            -126,
            -125,
            -128,
            -128,
            -128,
            -128,
            127,
            -128,
        ],
    ),
    (
        1610612736,
        30,
        0,
        "int16",
        [-2, -1, -1, 0, 1, 1, -1, -1, 0, 1, 1, 2, -24, -8, 8, 24, 100000, -100000],
        [-3, -1, -1, 0, 2, 2, -1, -1, 0, 2, 2, 3, -36, -12, 12, 36, 32767, -32768],
    ),
    (
        1073741824,
        39,
        5,
        "int8",
        [
            -1280,
            -768,
            -256,
            256,
            768,
            1280,
            -1280,
            -768,
            -256,
            256,
            768,
            1280,
            -24,
            -8,
            8,
            24,
            100000,
            -100000,
        ],
        [3, 4, 5, 6, 7, 8, 3, 4, 5, 6, 7, 8, 5, 5, 5, 5, 127, -128],
    ),
]


def accumulators(scale: float) -> np.ndarray:
    """Ties and their neighbours, and values over the whole range that the shift allows."""
    ties = np.array([math.floor((half + 0.5) / scale) for half in range(-200, 200)])
    bound = 1 << min(scale_of(scale).shift - 1, 31)
    spread = np.linspace(-bound, bound - 1, 101, dtype=np.int64)
    return np.clip(np.concatenate([ties - 1, ties, ties + 1, spread]), -bound, bound - 1)


def by_integers(value: int, scale: RescaleFactor, zero_point: int, dtype: str) -> int:
    """TOSA 1.0, apply_scale_32 and RESCALE, in Python's integers."""
    info = np.iinfo(dtype)
    rounded = value * scale.multiplier + (1 << (scale.shift - 1)) >> scale.shift
    return min(max(rounded + zero_point, info.min), info.max)


@pytest.mark.parametrize("case", REFERENCE_MODEL, ids=lambda case: f"{case[0]}-{case[3]}")
def test_reference_model(case: tuple[int, int, int, str, list[int], list[int]]):
    multiplier, shift, zero_point, dtype, acc, expected = case
    info = np.iinfo(dtype)
    actual = np.clip(rescale(np.array(acc), multiplier, shift) + zero_point, info.min, info.max)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.each_once
@pytest.mark.parametrize("value", SCALES)
@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", 7), ("int8", -128), ("uint8", 131), ("int16", 0)])
def test_numpy_and_tir_equal_the_integers(value: float, dtype: str, zero_point: int):
    scale, info = scale_of(value), np.iinfo(dtype)
    acc = accumulators(value).astype(np.int32)
    expected = [by_integers(int(a), scale, zero_point, dtype) for a in acc]
    assert len(set(expected)) > 2
    whole = rescale(acc, scale.multiplier, scale.shift) + zero_point
    np.testing.assert_array_equal(np.clip(whole, info.min, info.max), expected)
    with kernel_function("rescale", [((acc.size,), "int32"), ((acc.size,), dtype)]) as function:
        source, output = function.buffers
        with T.serial(i64(0), i64(acc.size)) as i:
            scaled = rescale_tir(source[i], scale.multiplier, scale.shift)
            T.buffer_store(output, saturate_tir(scaled, zero_point, info.min, info.max, dtype), [i])
    actual = run_on_host(function.prim_func, [acc], [acc.size], dtype)
    np.testing.assert_array_equal(actual, np.array(expected, dtype))


@pytest.mark.parametrize("value", [*SCALES, 1.0, 1 - 2.0**-40, 2.0**28])
def test_scale_is_the_nearest_of_31_bits(value: float):
    scale = scale_of(value)
    error = abs(Fraction(scale.multiplier, 1 << scale.shift) - Fraction(value)) / Fraction(value)
    assert error <= Fraction(1, 1 << 31)
    assert scale.multiplier >= 1 << 30


@pytest.mark.parametrize("value", [*SCALES, 1.0, 1 - 2.0**-20, 2.0**12])
def test_scale_of_48_bits_is_the_nearest_of_15(value: float):
    multipliers, shift = scales_of(np.array([value]), WIDE_MULTIPLIER_BITS)
    assert 1 << 14 <= multipliers[0] < 1 << 15
    error = abs(Fraction(int(multipliers[0]), 1 << shift) - Fraction(value)) / Fraction(value)
    assert error <= Fraction(1, 1 << 15)
    with pytest.raises(ValueError, match=r"not below 2\*\*13"):
        scales_of(np.array([2.0**13]), WIDE_MULTIPLIER_BITS)


def test_scales_share_the_shift_of_the_greatest():
    values = np.array([0.7, 0.0, 0.7 / 1024])
    multipliers, shift = scales_of(values)
    assert shift == scale_of(0.7).shift
    assert multipliers.tolist() == [round(value * 2**shift) for value in values]


def test_tiny_scale_keeps_the_largest_shift():
    assert scale_of(2.0**-34) == RescaleFactor(1 << 28, 62)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_scales_that_are_none(value: float):
    with pytest.raises(ValueError, match="finite, not negative"):
        scale_of(value)


def test_scale_beyond_the_range():
    with pytest.raises(ValueError, match=r"not below 2\*\*29"):
        scale_of(2.0**29)
    with pytest.raises(ValueError, match="shift 1 is not from 2 to 62"):
        RescaleFactor(1, 1)
    with pytest.raises(ValueError, match="multiplier"):
        RescaleFactor(1 << 31, 40)


def test_which_values_the_shift_allows():
    assert fits(511, 10)
    assert not fits(512, 10)
    assert fits(np.array([-512, 511]), 10)
    assert not fits(np.array([-513, 0]), 10)
    assert fits(np.array([-(2**31), 2**31 - 1]), 40)
