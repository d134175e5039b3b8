# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.common.trace import Trace
from arm_ext.measure.threads import thread_report

BY_THREAD = {"conv": (90, 100, 80, 95), "dense": (40, 0, 0, 0), "add": (10, 0, 10, 10)}


def test_shares_of_threads() -> None:
    report = thread_report(Trace((), 0, BY_THREAD, elapsed=160), 4)
    assert report.instructions == 435
    assert report.by_thread == [140, 100, 90, 105]
    assert report.critical_instructions == 100 + 40 + 10
    assert report.parallel_share == pytest.approx(395 / 435)
    spreads = [(row.symbol, row.by_thread, row.spread) for row in report.kernels]
    assert spreads == [
        ("conv", [90, 100, 80, 95], pytest.approx(0.2)),
        ("dense", [40, 0, 0, 0], None),
        ("add", [10, 0, 10, 10], 1.0),
    ]


def test_a_thread_that_ran_nothing_of_the_model_counts() -> None:
    (row,) = thread_report(Trace((), 0, {"conv": (90, 100)}, elapsed=100), 4).kernels
    assert row.spread == 1.0
