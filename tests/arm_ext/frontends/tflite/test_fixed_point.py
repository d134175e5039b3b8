# SPDX-License-Identifier: Apache-2.0
"""Multipliers and tables against the numbers and functions that they stand for."""

import numpy as np
import pytest

from arm_ext.frontends.tflite.fixed_point import (
    every_value,
    fixed_logistic,
    fixed_tanh,
    multiplier_of,
    scale_of,
    sigmoid_table,
    table_of,
)

# What gemmlowp's arithmetic of 16 bits is off the functions, at most.
WORST = 12


@pytest.mark.parametrize("real", [2.0**-9, 0.3, 1.0, 5.7, 1 - 2.0**-40])
def test_multiplier(real: float):
    multiplier, shift = multiplier_of(real)
    assert 2**30 <= multiplier < 2**31
    assert multiplier / 2**31 * 2.0**shift == pytest.approx(real, rel=2.0**-31)


def test_scales_are_multiplied_in_binary32():
    # The product in binary64 is another multiplier.
    assert scale_of(0.059, 0.0092, 0.0044) == np.float32(np.float32(0.059) * np.float32(0.0092)) / np.float32(
        0.0044
    )
    assert scale_of(0.059, 0.0092, 0.0044) != 0.059 * 0.0092 / 0.0044


@pytest.mark.parametrize("bits", [0, 3, 4, 6])
def test_fixed_point_functions(bits: int):
    x = every_value() * 2.0 ** (bits - 15)
    assert np.abs(fixed_tanh(bits) - 2**15 * np.tanh(x)).max() < WORST
    if bits == 3:
        assert np.abs(fixed_logistic() - 2**15 / (1 + np.exp(-x))).max() < WORST


def test_table_between_whose_values_lines_err_least():
    # Of a line, the line; a curve's is moved by half of what a chord is off in the middle.
    np.testing.assert_array_equal(table_of(lambda x: x, -256.0, 256.0, 1.0), np.arange(-256, 257))
    assert table_of(lambda x: x**2, 0.0, 512 * 8.0, 1.0)[:3].tolist() == [-8, 56, 248]


def test_table_of_logistic():
    table = sigmoid_table()
    assert (table.size, table[0], table[-1]) == (256, 2**15, 2**16 - 1)
    assert (np.diff(table) >= 0).all()
