#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do to the commands what users and environments do, and hold the outcome against what is promised.

    python scripts/hostile.py -j 4
    python scripts/hostile.py --only 'compile/yaml/*' --show

A case is right if its exit code is the one that docs/reference/command-line.md promises, its message names what is
wrong, no traceback or
signal ended it, nothing was lost, changed or left behind, and it kept to its time and memory. Writes a table to stdout.
Exit codes: 1 if a case is wrong.
"""

# ruff: noqa: E402 - what numpy reads at its import stands above it
import fnmatch
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before numpy: cases run in forks
    os.environ[name] = "1"

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests is no installed package

from tests.hostile.runner import Outcome, prepare, run
from tests.hostile.table import CASES, is_fast

_LINES, _COLUMNS = 25, 300  # of a case's output


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option("--only", multiple=True, metavar="PATTERN", help="Cases whose id matches, such as 'run/*'.")
@click.option("--fast", is_flag=True, help="The subset that the tests run.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--assets", type=click.Path(path_type=Path), help="Folder to keep the shared inputs in.")
@click.option("--show", is_flag=True, help="Show the output of right cases, too.")
@click.option("--list", "only_list", is_flag=True, help="List the cases.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def main(
    only: tuple[str, ...],
    fast: bool,
    jobs: int,
    assets: Path | None,
    show: bool,
    only_list: bool,
    as_json: bool,
) -> None:
    """Run the cases and print what came of them."""
    selected = [
        case for case in CASES if not only or any(fnmatch.fnmatchcase(case.id, glob) for glob in only)
    ]
    selected = [case for case in selected if is_fast(case) or not fast]
    if only_list:
        click.echo("\n".join(case.id for case in selected))
        return
    with tempfile.TemporaryDirectory(prefix="hostile-assets-") as made:
        prepare((assets or Path(made)).resolve(), light=fast)
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task("cases", total=len(selected))
            outcomes = []
            for outcome in run(selected, jobs):
                outcomes.append(outcome)
                if not as_json:
                    _tell(outcome, show)
                progress.advance(task)
    outcomes.sort(key=lambda outcome: outcome.case.id)
    if as_json:
        click.echo(
            json.dumps(
                {
                    one.case.id: [*one.wrong, *([f"skipped: {one.skipped}"] if one.skipped else [])]
                    for one in outcomes
                }
            )
        )
    else:
        _count(outcomes)
    sys.exit(any(outcome.wrong for outcome in outcomes))


def _tell(one: Outcome, show: bool) -> None:
    """Print a case that is wrong or skipped, with its output."""
    if one.skipped:
        click.echo(f"skipped {one.case.id}: {one.skipped}")
    elif one.wrong or show:
        state = "WRONG" if one.wrong else "right"
        click.echo(f"\n{state} {one.case.id} ({one.seconds:.1f} s): {'; '.join(one.wrong)}")
        for name, text in (("stdout", one.stdout), ("stderr", one.stderr)):
            for line in text.splitlines()[:_LINES]:
                click.echo(f"    {name}| {line[:_COLUMNS]}".encode(errors="backslashreplace"))


def _count(outcomes: list[Outcome]) -> None:
    """Print the number of cases that were tried, by verb and by kind."""
    console = Console(width=110)
    for title, key in (("verb", "verb"), ("kind", "kind")):
        tried: Counter[str] = Counter(getattr(one.case, key) for one in outcomes if not one.skipped)
        wrong: Counter[str] = Counter(getattr(one.case, key) for one in outcomes if one.wrong)
        table = Table(title, "tried", "right", "wrong")
        for name, count in sorted(tried.items()):
            table.add_row(name, str(count), str(count - wrong[name]), str(wrong[name]))
        table.add_row("all", str(tried.total()), str(tried.total() - wrong.total()), str(wrong.total()))
        console.print(table)


if __name__ == "__main__":
    main()
