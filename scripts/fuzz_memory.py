#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run random graphs with indices, sizes and offsets of run time between guard pages.

    python scripts/fuzz_memory.py --examples 20000 --seed 7

Writes what was covered to stdout: operators, kinds of indices, and how often there was a result or an error. A graph
that accesses memory outside of its tensors, or gives another result than onnxruntime, is printed. Exit codes: 1 if
there was one.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests is no installed package

from tests.fuzz.memory import GRAPH_OPERATORS, Tally, Worker, guard_library, run_graphs


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option("--examples", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--first", type=click.IntRange(0), default=0, help="Number of the first graph.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--most", type=click.IntRange(1), default=GRAPH_OPERATORS, help="Operators of a graph.")
@click.option("--together", type=click.IntRange(1), default=1, help="Graphs that are one module.")
@click.option("--minutes", type=float, help="Stop after so many.")
@click.option("--every", type=click.IntRange(1), default=200, help="Graphs between two lines of progress.")
def main(
    examples: int, first: int, seed: int, most: int, together: int, minutes: float | None, every: int
) -> None:
    """Run one graph after the other in this process; start several processes for several seeds."""
    os.environ["TVM_NUM_THREADS"] = "1"
    total, told, begun = Tally(), 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(guard_library(Path(folder)))
        for number in range(first, first + examples, together):
            numbers = range(number, min(number + together, first + examples))
            try:
                run_graphs(seed, numbers, worker, total, most)
            except Exception as err:
                total.findings.append(f"graphs {list(numbers)} of seed {seed}: {type(err).__name__}: {err}")
            for finding in total.findings[told:]:
                click.echo(f"FINDING {finding}\n")
            told = len(total.findings)
            seconds = time.monotonic() - begun
            if (number - first) % every < together:
                click.echo(
                    f"{total.graphs} graphs, {total.runs} runs, {told} findings, {seconds:.0f} s", err=True
                )
            if minutes and seconds > 60 * minutes:
                break
        worker.close()
    click.echo(total.table())
    click.echo(f"{total.graphs} graphs, {total.runs} runs, seed {seed}: {told} findings")
    sys.exit(1 if told else 0)


if __name__ == "__main__":
    main()
