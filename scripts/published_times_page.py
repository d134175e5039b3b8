#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference/published-times.md from arm_ext/target/published_times.csv.

python scripts/published_times_page.py
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import median

from arm_ext.target.published_times import PublishedTime, published_times

ROOT = Path(__file__).parents[1]

PAGE = ROOT / "docs" / "reference" / "published-times.md"

HEAD = """\
# Published times

Nothing in this project was measured on a board. What `report.txt`, `bench` and `profile` tell of a time is an interval:
the estimated cycles of the model at the clock of the board, from the smallest to the largest ratio of the board's rows
below, or of its core's where the board has none. A ratio is the published time in cycles of the board's clock over the
cycles with caches that we estimate for the same runtime and network, one warm inference on one thread. So it holds what
the estimate leaves out or has wrong, and what the board did while it was measured: prefetching, other programs, a clock
that sank.

Boards of one core differ by 15 % to either side, and networks on one board by 5 to 10 %: what a line from L2 or memory
costs is a matter of the board, and the estimate has one figure for all. Large weights read in a row are charged in
full, though a board fetches them ahead, and have the smallest ratios.

The networks are those of ncnn's own benchmark, counted with a wheel of ncnn near in date, in the emulator as
`bench --against` counts other runtimes; weights are random there and zeros here. `scripts/published_times_page.py`
writes this page.

| Core | Board | MHz | Rows | Median | Smallest | Largest |
|---|---|---|---|---|---|---|
"""

COLUMNS = """\

| Core | Model | Published, ms | Estimate, M cycles | Ratio | Runtime | Source |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    rows = published_times()
    groups = [list(group) for _, group in groupby(rows, lambda row: (row.core, row.board, row.clock_mhz))]
    return HEAD + "".join(map(_summary, groups)) + COLUMNS + "".join(map(_line, rows))


def _summary(group: Sequence[PublishedTime]) -> str:
    first, ratios = group[0], [row.ratio for row in group]
    figures = " | ".join(f"{each:.2f}" for each in (median(ratios), min(ratios), max(ratios)))
    return f"| {first.core} | {first.board} | {first.clock_mhz:,} | {len(group)} | {figures} |\n"


def _line(row: PublishedTime) -> str:
    return (
        f"| {row.core} | {row.model} | {row.published_ms:g} | {row.cycles_with_caches / 1e6:.2f} | {row.ratio:.2f} | "
        f"{row.runtime} | {row.source} |\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
