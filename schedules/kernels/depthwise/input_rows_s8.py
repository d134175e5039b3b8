# SPDX-License-Identifier: Apache-2.0
"""Input rows of int8 depthwise kernels: bands of output rows, and groups of rows that one instruction sums over."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

GROUP = 4
"""Input rows that one SDOT sums over."""

Taps = tuple[int | None, ...]
"""For each input row of a group, the kernel row that is multiplied with it, or None."""


@dataclass(frozen=True)
class Groups:
    """The groups of input rows that a band of output rows reads.

    Attributes:
        height: Rows of the kernel.
        stride: Distance in input rows between two output rows.
        band: Number of output rows that are computed together.
        size: Number of input rows per group.
    """

    height: int
    stride: int
    band: int
    size: int = GROUP

    @property
    def rows(self) -> int:
        """Number of input rows that the band reads."""
        return (self.band - 1) * self.stride + self.height

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """First input row of each group, relative to the first input row of the band."""
        if self.height > self.size:
            return tuple(range(0, self.rows, self.size))
        starts: list[int] = []
        for first in range(0, self.band * self.stride, self.stride):
            # A group is added only if no group before contains all input rows of the output row.
            if not any(self._holds(start, first) for start in starts):
                starts.append(first)
        return tuple(starts)

    def cover(self, row: int) -> list[tuple[int, Taps]]:
        """Return, for output row `row` of a band, (group, taps): for each row of the group its kernel row, or None."""
        first = row * self.stride
        inside = list(range(len(self.firsts)))
        if self.height <= self.size:
            inside = [next(g for g in inside if self._holds(self.firsts[g], first))]
        found = []
        for g in inside:
            rows = (self.firsts[g] + i - first for i in range(self.size))
            taps: Taps = tuple(y if 0 <= y < self.height else None for y in rows)
            if any(tap is not None for tap in taps):
                found.append((g, taps))
        return found

    def products(self, width: int) -> list[tuple[int, int, int, Taps]]:
        """Return (output row of the band, kernel column, group, taps) of each product, by group; see `cover`."""
        cover = [(row, group, taps) for row in range(self.band) for group, taps in self.cover(row)]
        return [
            (row, column, group, taps)
            for each in range(len(self.firsts))
            for column in range(width)
            for row, group, taps in cover
            if group == each
        ]

    def _holds(self, start: int, first: int) -> bool:
        return start <= first and first + self.height <= start + self.size


@dataclass(frozen=True)
class DepthwiseWindow:
    """A depthwise convolution with one output per channel and no dilation.

    Attributes:
        data: Shape of the data, [N, H, W, C].
        kernel: Numbers of rows and columns of the kernel.
        strides: Strides of rows and columns.
        pads: Widths of the border: top, left, bottom, right.
        rows: Number of output rows that are computed together; None for as many as full groups allow, at least two.
    """

    data: tuple[int, int, int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    rows: int | None = None

    @property
    def output(self) -> tuple[int, int]:
        """Numbers of rows and columns of the output."""
        _, height, width, _ = self.data
        top, left, bottom, right = self.pads
        return (
            (height + top + bottom - self.kernel[0]) // self.strides[0] + 1,
            (width + left + right - self.kernel[1]) // self.strides[1] + 1,
        )

    @property
    def band(self) -> int:
        """Number of output rows that are computed together."""
        spare = -(-self.kernel[0] // GROUP) * GROUP - self.kernel[0]
        return self.rows or max(2, spare // self.strides[0] + 1)

    @cached_property
    def groups(self) -> Groups:
        """The groups of a band's input rows."""
        return Groups(self.kernel[0], self.strides[0], self.band)

    def products(self) -> Iterator[tuple[int, int, int, Taps]]:
        """Yield (output row of the band, kernel column, group, taps) of each product, in the order of the weights."""
        for column in range(self.kernel[1]):
            for row in range(self.band):
                for group, taps in self.groups.cover(row):
                    yield row, column, group, taps

    def valid(self, band: int) -> tuple[int, tuple[bool, ...]]:
        """Return the number of output rows of a band, and which of its input rows are data and not border."""
        rows = min(self.band, self.output[0] - band * self.band)
        first = band * self.band * self.strides[0] - self.pads[0]
        needed = (rows - 1) * self.strides[0] + self.kernel[0]
        return rows, tuple(0 <= first + i < self.data[1] for i in range(needed))

    def runs(self) -> list[tuple[int, int, tuple[int, tuple[bool, ...]]]]:
        """Return runs of consecutive bands with equal `valid`: (first band, number of bands, `valid`)."""
        found: list[tuple[int, int, tuple[int, tuple[bool, ...]]]] = []
        for band in range(-(-self.output[0] // self.band)):
            kind = self.valid(band)
            if found and found[-1][2] == kind:
                first, count, _ = found[-1]
                found[-1] = (first, count + 1, kind)
            else:
                found.append((band, 1, kind))
        return found

    def inner_columns(self) -> tuple[int, int]:
        """Return (first, end) of the output columns that read no border."""
        left, stride, width = self.pads[1], self.strides[1], self.data[2]
        columns = self.output[1]
        first = min(columns, -(-left // stride))
        return first, max(first, min(columns, (width - self.kernel[1] + left) // stride + 1))
