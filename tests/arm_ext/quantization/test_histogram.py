# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from arm_ext.quantization.histogram import BINS, Histogram


def _read(histogram: Histogram) -> tuple[float, float, tuple[tuple[int, ...], ...]]:
    return histogram.start, histogram.width, histogram.counts()


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 7.5, 1e30])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 31, 1000])
def test_counts_are_numpys_over_the_same_bins(scale: float, count: int) -> None:
    rng = np.random.default_rng(count)
    one, other = ((rng.normal(loc=loc, size=count) * scale).astype(np.float32) for loc in (0.0, 3.0))
    histogram = Histogram.of(2)
    histogram.add(one, other)
    start, width, counts = _read(histogram)
    assert math.frexp(width)[0] == 0.5  # a power of two
    assert len(counts[0]) == len(counts[1]) <= BINS
    edges = start + width * np.arange(len(counts[0]) + 1)
    for values, found in zip((one, other), counts, strict=True):
        places = np.searchsorted(edges, values.astype(np.float64), side="right") - 1
        assert list(found) == list(np.bincount(places, minlength=len(found)))
    if count > 1:
        # Bins of half the width would be too many.
        least, greatest = min(one.min(), other.min()), max(one.max(), other.max())
        assert np.floor(2 * greatest / width) - np.floor(2 * least / width) >= BINS


def test_samples_in_any_order_give_the_same_bins() -> None:
    rng = np.random.default_rng(1)
    parts = [(rng.normal(size=9) * 10.0**power).astype(np.float32) for power in range(-4, 5)]
    found = []
    for order in (parts, parts[::-1], [np.concatenate(parts)], [np.zeros(0, np.float32), *parts]):
        histogram = Histogram.of(2)
        for part in order:
            histogram.add(part, -part)
        found.append(_read(histogram))
    assert all(each == found[0] for each in found)
    assert sum(found[0][2][0]) == sum(found[0][2][1]) == 81


def test_zeros_before_the_first_value_are_counted() -> None:
    histogram = Histogram.of(1)
    histogram.add(np.zeros((2, 3), np.float32))
    assert _read(histogram) == (0.0, 1.0, ((6,),))
    histogram.add(np.array([0.75, -1.0], np.float32))
    start, _, counts = _read(histogram)
    assert start == -1.0
    assert sum(counts[0]) == 8
    assert max(counts[0]) == 6


def test_a_constant_is_one_bin_and_nothing_is_none() -> None:
    histogram = Histogram.of(2)
    assert _read(histogram) == (0.0, 1.0, ((), ()))
    histogram.add(np.full(5, 1e6, np.float32), np.array([np.nan, np.inf, -np.inf], np.float32))
    assert histogram.counts() == ((5,), (0,))
    assert histogram.start <= 1e6 < histogram.start + histogram.width


def test_the_range_of_float32_is_held() -> None:
    largest = np.finfo(np.float32).max
    histogram = Histogram.of(1)
    histogram.add(np.array([-largest, 1e-45, largest], np.float32))
    (counts,) = histogram.counts()
    assert len(counts) <= BINS
    assert sum(counts) == 3
