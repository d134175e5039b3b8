#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile random graphs for this machine and hold what they compute against its definition.

    python scripts/fuzz.py --examples 20000 --seed 7
    python scripts/fuzz.py --npu --examples 20000 --seed 7

With --cover 2 it prints which few of the graphs provoke each rule twice and hold each operator against its definition,
as far as all graphs together do: QUICK of tests/fuzz/test_fuzz.py is what it prints of the first 160.

With --npu, what regions of quantised graphs compute on six Ethos-U is held against the CPU's values. Writes to stdout
how often each operator, each attribute's value and each rule or constraint occurred. At the first failure it prints
the smallest graph that fails, and the command that draws it again. Exit codes: 1 if a graph failed.
"""

import os
import sys
from collections import Counter
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests is no installed package

from arm_ext.ethosu.ops.constraints import CONSTRAINTS
from tests.fuzz.campaign import MOST_GRAPHS, SHARD, Failure, Tally, covering, rejections, shards


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option("--examples", type=click.IntRange(1, MOST_GRAPHS), default=1000, show_default=True)
@click.option(
    "--first", type=click.IntRange(0, MOST_GRAPHS - 1), default=0, help="Number of the first graph."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=len(os.sched_getaffinity(0)), help="[default: processors]"
)
@click.option("--npu", is_flag=True, help="Divide quantised graphs for six Ethos-U.")
@click.option(
    "--cover", type=click.IntRange(min=1), help="Print few graphs that provoke each rule so many times."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for a failing graph.")
def main(
    examples: int, first: int, seed: int, jobs: int, npu: bool, cover: int | None, output: Path | None
) -> None:
    """Run shards as they get ready; stop at the first failure."""
    log = Console(stderr=True)
    total, tallies, size = Tally(), list[Tally](), 1 if cover else SHARD
    with Progress(console=log) as progress:
        task = progress.add_task("graphs", total=examples)
        for result in shards(range(first, first + examples), seed, jobs, npu=npu, size=size):
            if isinstance(result, Failure):
                if output is not None:
                    _save(result, output)
                progress.stop()
                click.echo(str(result))
                sys.exit(1)
            total.add(result)
            tallies.append(result)
            progress.advance(task, result.graphs)
    console = Console()
    for title, counts in (
        ("operator or attribute", total.features),
        ("on NPUs" if npu else "outputs held against", total.definitions),
        ("constraint" if npu else "rule", total.rules),
    ):
        console.print(_table(title, counts))
    if npu:
        rejected = rejections(total)
        reasons = dict.fromkeys(constraint.reason for constraint in CONSTRAINTS)
        console.print(_table("constraint, on all", Counter({name: rejected[name] for name in reasons})))
    if cover:
        console.print(f"these cover as much: {', '.join(map(str, covering(tallies, cover)))}")
    console.print(f"{total.graphs} graphs, seed {seed}: all as defined")


def _save(failure: Failure, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(failure.model)
    np.savez(folder / "inputs.npz", *failure.inputs)


def _table(title: str, counts: Counter[str]) -> Table:
    table = Table(title, "times")
    for name, times in sorted(counts.items()):
        table.add_row(name, str(times))
    return table


if __name__ == "__main__":
    main()
