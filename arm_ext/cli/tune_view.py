# SPDX-License-Identifier: Apache-2.0
"""Display of a tuning run: a live table on a terminal, plain lines elsewhere, and a table at the end."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from arm_ext.cli.console import columns, stderr

if TYPE_CHECKING:
    from arm_ext.tune.progress import OnProgress, Progress, TaskProgress
    from arm_ext.tune.record import Unit
    from arm_ext.tune.report import TuneReport

_LINE_SECONDS = 10
_REFRESHES = 2  # a second
_MINUTE = 60
# Number of terminal lines for headings, totals and the prompt.
_OTHER_LINES = 9
_HEAD = ("task", "calls", "share", "trials", "default", "best", "less", "bound", "failed")
BOUND = (
    "bound: the share of the best's cycles that no order of its instructions goes below, as they fill the vector pipes "
    "or dispatch,\nand its data comes from beyond L1 once. At 100 % only fewer instructions would be faster."
)


@contextmanager
def view() -> "Iterator[tuple[OnProgress, OnProgress]]":
    """Open the display; yield the callbacks for the start and for each trial."""
    if stderr.is_terminal and "NO_COLOR" not in os.environ and "CI" not in os.environ:
        with Live(
            console=stderr,
            refresh_per_second=_REFRESHES,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as live:

            def show(progress: "Progress") -> None:
                live.update(_screen(progress))

            yield show, show
    else:
        lines = _Lines()
        yield lines.start, lines.add


def table_of_tasks(report: "TuneReport") -> str:
    """Return the table of the report's tasks, the largest share first."""
    rows = [_HEAD]
    for task in report.tasks:
        gain = None if task.default is None or task.best is None else 1 - task.best / task.default
        costs = (amount(task.default, report.unit), amount(task.best, report.unit))
        failed = sum(task.failures.values())
        cells = (str(task.times), percent(task.share), str(task.trials), *costs)
        bound = "" if task.bound is None else percent(task.bound)
        rows.append((task.task, *cells, "" if gain is None else percent(gain), bound, str(failed or "")))
    return aligned(rows)


def amount(cost: float | None, unit: "Unit") -> str:
    """Format a cost for people, with its unit."""
    if cost is None:
        return "-"
    return f"{cost:,.0f} cycles" if unit == "cycles" else f"{cost * 1e6:,.1f} us"


def percent(share: float) -> str:
    """Format a share as a percentage."""
    return f"{100 * share:.1f} %"


def aligned(rows: Sequence[Sequence[str]], *, last: bool = False) -> str:
    """Return rows as lines: the first column and, if it is text, the last are left-aligned, numbers right-aligned."""
    numbers = len(rows[0]) - 1 - last
    return columns(rows, "<" + ">" * numbers + "<" * last)


class _Lines:
    """Plain lines on stderr: the tasks, then the progress every few seconds."""

    def __init__(self) -> None:
        self._last = monotonic()

    def start(self, progress: "Progress") -> None:
        rows = [(row.task.name, str(row.task.times), percent(row.share)) for row in progress.rows]
        click.echo(aligned([("task", "calls", "share"), *rows]), err=True)

    def add(self, progress: "Progress") -> None:
        if monotonic() - self._last >= _LINE_SECONDS:
            self._last = monotonic()
            click.echo(_status(progress), err=True)


def _status(progress: "Progress") -> str:
    parts = [f"{progress.tried}{f' of {progress.trials}' if progress.trials else ''} trials"]
    if (totals := progress.totals()) is not None:
        before, after = totals
        parts.append(f"tasks measured so far {percent(1 - after / before)} below the default")
    if progress.failures:
        parts.append("failed: " + ", ".join(f"{count} {kind}" for kind, count in progress.failures.items()))
    if (left := progress.seconds_left()) is not None:
        parts.append(f"{int(left) // _MINUTE}:{int(left) % _MINUTE:02d} left")
    return "; ".join(parts)


def _screen(progress: "Progress") -> Group:
    table = Table(*_HEAD, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    shown = progress.rows[: max(1, stderr.size.height - _OTHER_LINES)]
    for row in shown:
        table.add_row(*_cells(row, progress.unit))
    hidden = len(progress.rows) - len(shown)
    lines = [Text(f"… {hidden} smaller tasks")] if hidden else []
    complaint = [Text(f"last failure: {progress.complaint}", overflow="ellipsis", no_wrap=True)]
    return Group(table, *lines, Text(_status(progress)), *(complaint if progress.complaint else []))


def _cells(row: "TaskProgress", unit: "Unit") -> tuple[str, ...]:
    gain = "" if row.gain is None else percent(row.gain)
    failed = ", ".join(f"{count} {kind}" for kind, count in row.failures.items())
    costs = amount(row.default, unit), amount(None if row.best is None else row.cost, unit)
    bound = "" if row.bound is None else percent(row.bound)
    return (
        row.task.name,
        str(row.task.times),
        percent(row.share),
        str(row.trials),
        *costs,
        gain,
        bound,
        failed,
    )
