# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from arm_ext.quantization.mse import mse_ranges


def _found(values: np.ndarray) -> tuple[float, float]:
    threshold = np.abs(values).max()
    counts, edges = np.histogram(values, 2048, range=(-threshold, threshold))
    low, high = mse_ranges({"x": (counts, edges, values.min(), values.max(), threshold)})["x"]
    return float(low), float(high)


def _error(values: np.ndarray, low: float, high: float) -> float:
    step = (high - low) / 255
    return float(np.mean((values - np.clip(np.round(values / step) * step, low, high)) ** 2))


def test_values_spread_evenly_keep_their_range():
    assert _found(np.linspace(-1, 1, 4001, dtype=np.float32)) == pytest.approx((-1, 1))


def test_a_few_outliers_are_cut_off_where_that_errs_less():
    rng = np.random.default_rng(1)
    values = np.append(rng.standard_normal(100_000), [14.0]).astype(np.float32)
    low, high = _found(values)
    assert high < 13
    assert _error(values, low, high) < _error(values, float(values.min()), float(values.max()))


def test_zero_is_in_every_range_and_zeros_have_theirs():
    low, high = _found(np.linspace(2, 3, 1000, dtype=np.float32))
    assert low == 0
    assert high > 2.9
    assert _found(np.zeros(4, np.float32)) == (0, 0)
