#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Import damaged model files: only clean errors may come out, within bounds of time and memory.

    python scripts/fuzz_import.py onnx --files 10000 --seed 7
    python scripts/fuzz_import.py tflite --models ../shared/models --only 4711 -o damaged.tflite

Prints how many files were imported, and how many were refused by which error. Exit codes: 1 if a file had another
effect.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests is no installed package

from tests.fuzz.damage import FORMATS, whole_files
from tests.fuzz.importing import import_damaged, make


@click.command(help=(__doc__ or "").splitlines()[0])
@click.argument("kind", metavar="FORMAT", type=click.Choice(FORMATS))
@click.option("--files", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--first", type=click.IntRange(min=0), default=0, help="Number of the first file.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--models", type=click.Path(path_type=Path, exists=True), help="Folder of TFLite models to damage."
)
@click.option("--only", type=click.IntRange(min=0), help="Write the damaged file of this number instead.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where --only writes it.")
def main(
    kind: str, files: int, first: int, seed: int, models: Path | None, only: int | None, output: Path | None
) -> None:
    """Import a run of damaged files, and list those that had another effect than a clean error."""
    whole = whole_files(kind, models)
    if only is not None:
        (output or Path(f"damaged.{kind}")).write_bytes(make(whole, kind, seed, only))
        return
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = import_damaged(whole, kind, seed, range(first, first + files), Path(folder))
        for outcome in track(outcomes, total=files, console=Console(stderr=True), description=kind):
            counts[outcome.what] += 1
            if outcome.what == "defect":
                click.echo(f"{outcome.number}: {outcome.why}")
    click.echo(f"{counts.total()} damaged {kind} files, seed {seed}: {dict(counts)}")
    sys.exit(counts["defect"] > 0)


if __name__ == "__main__":
    main()
