# SPDX-License-Identifier: Apache-2.0
"""The report of a package on a real board: times per inference, and the conditions of the measurement."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from arm_ext.common.json_record import ClosedRecord
from arm_ext.common.npu_status import NpuStatus

# With fewer repetitions, p99 would be the maximum.
REPEATS = 100
# Number of warm-up runs, after which caches, branch predictors, the thread pool and an ondemand governor have
# settled.
WARMUP = 10


class TimeReport(ClosedRecord):
    """Wall-clock times of one inference on a real board.

    Attributes:
        repeats: Number of inferences that were measured.
        warmup: Number of inferences before them that were not measured.
        median_ms: Median in milliseconds.
        p90_ms: 90th percentile in milliseconds.
        p99_ms: 99th percentile in milliseconds.
        spread: Interquartile range over the median; a few per cent mean a busy board or a moving clock.
        threads: Threads of the runtime's pool.
        governor: Linux's cpufreq governor of cpu0, or "unknown".
        npu: Where the NPU's regions were computed.
    """

    schema_version: Literal[1] = 1
    kind: Literal["times"] = "times"
    repeats: int
    warmup: int
    median_ms: float
    p90_ms: float
    p99_ms: float
    spread: float
    threads: int
    governor: str
    npu: NpuStatus | None = None


def spread_of(seconds: Sequence[float]) -> float:
    """Return the interquartile range divided by the median; 0 if the median is 0."""
    q1, median, q3 = (float(value) for value in np.percentile(seconds, [25, 50, 75]))
    return (q3 - q1) / median if median else 0.0


def time_report(seconds: Sequence[float], *, warmup: int, threads: int, governor: str) -> TimeReport:
    """Summarise times per inference, in seconds and in any order."""
    median, p90, p99 = (float(value) for value in np.percentile(seconds, [50, 90, 99]) * 1e3)
    return TimeReport(
        repeats=len(seconds),
        warmup=warmup,
        median_ms=median,
        p90_ms=p90,
        p99_ms=p99,
        spread=spread_of(seconds),
        threads=threads,
        governor=governor,
    )
