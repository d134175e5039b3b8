# SPDX-License-Identifier: Apache-2.0
"""Histograms of values that are added in parts, with a bounded number of bins and exact counts.

A bin holds index * width <= value < (index + 1) * width; its width is a power of two, the least with which all values
so far lie in BINS bins. Where the range grows, two, four or more neighbours become one: the bins and counts are the
same in whatever order the values arrive.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

BINS = 32
"""Most bins of a histogram; with widths that are powers of two, more than a half of them is between both ends."""

_PRECISION = 24
"""Bits of the significand of float32: bins that are narrower than its spacing would lie empty between others."""


@dataclass
class Histogram:
    """Histograms of several series with the same bins; values that are not finite are ignored.

    Attributes:
        series: Counts of each series by the index of the bin.
        exponent: The width of a bin is two to this power; None while all values are 0.
        least: The least value so far.
        greatest: The greatest value so far.
    """

    series: tuple[Counter[int], ...]
    exponent: int | None = None
    least: float = field(default=math.inf)
    greatest: float = field(default=-math.inf)

    @classmethod
    def of(cls, count: int) -> "Histogram":
        """Return empty histograms of several series."""
        return cls(tuple(Counter() for _ in range(count)))

    def add(self, *values: Array) -> None:
        """Add values, one array of any shape for each series."""
        finite = [value[np.isfinite(value)].astype(np.float64) for value in values]
        for value in finite:
            if value.size:
                self.least = min(self.least, float(value.min()))
                self.greatest = max(self.greatest, float(value.max()))
        self._widen()
        for counts, value in zip(self.series, finite, strict=True):
            if value.size:
                index = np.floor(np.ldexp(value, -(self.exponent or 0))).astype(np.int64)
                first = int(index.min())
                found = np.bincount(index - first)
                counts.update({first + int(at): int(found[at]) for at in np.flatnonzero(found)})

    @property
    def width(self) -> float:
        """Width of a bin; 1 if all values are 0."""
        return math.ldexp(1.0, self.exponent or 0)

    @property
    def start(self) -> float:
        """Lower bound of the first bin."""
        return self._first * self.width

    def counts(self) -> tuple[tuple[int, ...], ...]:
        """Return the counts of each series, in the bins from the first to the last that has values of any series."""
        last = max((index for counts in self.series for index in counts), default=self._first - 1)
        return tuple(tuple(counts[index] for index in range(self._first, last + 1)) for counts in self.series)

    @property
    def _first(self) -> int:
        return min((index for counts in self.series for index in counts), default=0)

    def _widen(self) -> None:
        """Widen the bins if that is necessary to cover all values that were added."""
        largest = max(abs(self.least), abs(self.greatest)) if self.least <= self.greatest else 0.0
        if largest == 0.0:
            return
        # The minimum width of a bin: BINS bins must cover the range of the values.
        exponent = math.frexp(largest)[1] - _PRECISION
        span = self.greatest - self.least
        if span:
            exponent = max(exponent, math.frexp(span / BINS)[1] - 1)
        while self._bin(self.greatest, exponent) - self._bin(self.least, exponent) >= BINS:
            exponent += 1
        if self.exponent is not None and exponent > self.exponent:
            merged = exponent - self.exponent
            for counts in self.series:
                before = dict(counts)
                counts.clear()
                for index, count in before.items():
                    counts[index >> merged] += count
        self.exponent = exponent

    @staticmethod
    def _bin(value: float, exponent: int) -> int:
        return math.floor(math.ldexp(value, -exponent))
