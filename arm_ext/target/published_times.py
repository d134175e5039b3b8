# SPDX-License-Identifier: Apache-2.0
"""Times on named boards, as intervals around estimated cycles.

Nothing here was measured on a board by us. Others have published times of one inference on one thread; the same
runtimes and models were counted on our emulated board, and published_times.csv keeps for each the published cycles
(time by clock) beside ours. The interval of a model on a board reaches from the smallest to the largest ratio of that
board, or of its core where there are too few of the board, times the model's own estimate.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pydantic import Field

from arm_ext.common.json_record import ClosedRecord

LEAST_ROWS = 3
"""Smallest number of published times, of the board or of its core, for an interval."""

FORMULA_ERROR = 1.25
"""Largest ratio between a report's cycles, from formulas, and a profile's: 152 of 156 pairs in docs/evidence."""

BOARDS = {
    "raspberry-pi-4": ("Raspberry Pi 4", 1800),
    "raspberry-pi-5": ("Raspberry Pi 5", 2400),
    "graviton2": ("Graviton2", 2500),
    "graviton3": ("Graviton3", 2600),
    "graviton4": ("Graviton4", 2800),
}
"""Profile of a board → its name in the table, and its clock in MHz, by Raspberry Pi's documentation of processors (the
Pi 4 since 2021) and AWS's of instance types."""

_LEAST_MS = 0.1
"""Shorter times are told in microseconds."""

_FILE = "published_times.csv"


@dataclass(frozen=True)
class PublishedTime:
    """A published time of one inference on one thread of a board, beside our estimate of the same runtime and model.

    Attributes:
        core: Core of `schedules.cores.CORES`.
        board: Board that the time was measured on.
        clock_mhz: Its clock.
        runtime: Name and version of the runtime that we counted.
        model: Name of the model in the source.
        published_ms: The published time in milliseconds.
        cycles_with_caches: Our estimate for one inference.
        source: Where the time was published.
    """

    core: str
    board: str
    clock_mhz: int
    runtime: str
    model: str
    published_ms: float
    cycles_with_caches: int
    source: str

    @property
    def ratio(self) -> float:
        """Published time in cycles of the board's clock, divided by the estimated cycles with caches."""
        return self.published_ms * 1e3 * self.clock_mhz / self.cycles_with_caches


class TimeInterval(ClosedRecord):
    """The time of one inference on a board, estimated from cycles and never measured."""

    board: str = Field(description="Profile of the board.")
    clock_mhz: int = Field(description="Clock of the board in MHz.")
    low_ms: float = Field(
        description="Milliseconds by the smallest ratio of a published time to its estimate."
    )
    high_ms: float = Field(description="Milliseconds by the largest ratio.")
    published: int = Field(description="Number of published times that the width comes from.")

    def text(self) -> str:
        """Return the interval with what it is."""
        scale, unit = (1.0, "ms") if self.high_ms >= _LEAST_MS else (1e3, "us")
        low, high = _two_digits(self.low_ms * scale), _two_digits(self.high_ms * scale)
        place = f"on {self.board} at {self.clock_mhz:,} MHz, one core"
        return f"{low} to {high} {unit} {place}: estimated, never measured here"


@cache
def published_times() -> tuple[PublishedTime, ...]:
    """Return all published times."""
    return tuple(_read())


def time_interval(profile: str, core: str, cycles: float, *, by_formula: bool) -> TimeInterval | None:
    """Return the interval of a model's time; None unless the profile is a board's and there are `LEAST_ROWS` times.

    Args:
        profile: Name of the profile.
        core: Name of its core.
        cycles: Estimated cycles with caches of one inference on one thread.
        by_formula: Whether the cycles are of formulas, before anything ran; the interval is wider then.
    """
    if profile not in BOARDS:
        return None
    board, clock = BOARDS[profile]
    of_board = [each.ratio for each in published_times() if each.board == board]
    of_core = [each.ratio for each in published_times() if each.core == core]
    ratios = of_board if len(of_board) >= LEAST_ROWS else of_core
    if len(ratios) < LEAST_ROWS:
        return None
    wider = FORMULA_ERROR if by_formula else 1.0
    ms = cycles / (clock * 1e3)
    return TimeInterval(
        board=profile,
        clock_mhz=clock,
        low_ms=ms * min(ratios) / wider,
        high_ms=ms * max(ratios) * wider,
        published=len(ratios),
    )


def _read() -> Iterator[PublishedTime]:
    lines = (files(__package__) / _FILE).read_text(encoding="utf-8").splitlines()
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        yield PublishedTime(
            core=row["core"],
            board=row["board"],
            clock_mhz=int(row["clock_mhz"]),
            runtime=row["runtime"],
            model=row["model"],
            published_ms=float(row["published_ms"]),
            cycles_with_caches=int(row["cycles_with_caches"]),
            source=row["source"],
        )


def _two_digits(value: float) -> str:
    """Return a number with two significant digits, or as a whole number from 10 on."""
    return f"{value:,.0f}" if value >= 10 else f"{float(f'{value:.2g}'):g}"
