# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.measure.times import time_report


def test_percentiles_in_milliseconds() -> None:
    seconds = [value * 1e-3 for value in range(101)]
    report = time_report(seconds[::-1], warmup=7, threads=4, governor="performance")
    assert (report.median_ms, report.p90_ms, report.p99_ms) == pytest.approx((50, 90, 99))
    assert report.spread == pytest.approx((75 - 25) / 50)
    assert (report.repeats, report.warmup, report.threads, report.governor) == (101, 7, 4, "performance")


def test_one_slow_inference_moves_neither_median_nor_spread() -> None:
    report = time_report([1e-3] * 99 + [1.0], warmup=1, threads=1, governor="unknown")
    assert (report.median_ms, report.spread) == (1, 0)
    assert report.p99_ms > 1
