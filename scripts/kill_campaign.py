#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kill every command that writes, at random moments: nothing may be lost or torn, and the next run tidies up.

    python scripts/kill_campaign.py --moments 200 --seed 7

Prints a table: how often a signal met each command at work, and what was wrong. Exit code: 1 if something was.
"""

import sys
import tempfile
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests is no installed package

from tests.kills.campaign import CASES, SIGNALS, Campaign


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option(
    "--moments", type=click.IntRange(min=1), default=200, show_default=True, help="Of all together."
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--only", metavar="TEXT", default="", help="Those whose name has this.")
def main(moments: int, seed: int, only: str) -> None:
    """Kill the commands, and print what became of each."""
    cases = [case for case in CASES if only in case.name]
    names = [number.name for number in SIGNALS]
    click.echo(" | ".join(["command", "seconds", *names, "had ended", "wrong"]))
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder), seed)
        for number, case in enumerate(cases):
            share = moments // len(cases) + (number < moments % len(cases))
            outcome = campaign.run(case, share, click.echo)
            met = [str(outcome.kills[name]) for name in names]
            cells = [
                case.name,
                f"{outcome.seconds:.1f}",
                *met,
                str(outcome.finished),
                str(len(outcome.faults)),
            ]
            click.echo(" | ".join(cells))
            faults += len(outcome.faults)
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
