#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print what tokens of a language model take, emulated on one thread, as Markdown.

    python scripts/llm_table.py smol.gguf --targets cortex-a76 neoverse-n2 --weights file int4 int8

Decode is one token at the end of a context; prefill is a token of a prompt of 32, from the first on. Cycles are
llvm-mca's, with every load in L1: no figure includes memory.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tables import markdown

import arm_ext
from arm_ext.frontends.decoder.build import IDS, POSITION
from arm_ext.frontends.decoder.importer import open_decoder
from arm_ext.measure.profile import CountReport

COLUMNS = ("weights", "core", "what", "instructions, M", "cycles, M")
PROMPT = 32


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--targets", nargs="+", default=["cortex-a76"], metavar="CORE")
    parser.add_argument("--weights", nargs="+", default=["file"], choices=["file", "int4", "int8"])
    parser.add_argument("--contexts", nargs="+", type=int, default=[PROMPT], metavar="N", help="of decode")
    parser.add_argument(
        "--capacity", type=int, help="positions of the caches of decode; by default the context's"
    )
    args = parser.parse_args(argv)
    rows = [
        row
        for weights in args.weights
        for target in args.targets
        for row in rows_of(args.model, target, weights, args.contexts, args.capacity)
    ]
    sys.stdout.write(markdown(COLUMNS, rows))
    return 0


def rows_of(
    model: Path, target: str, weights: str, contexts: Sequence[int], capacity: int | None
) -> Iterator[tuple[str, ...]]:
    """Yield a row for a prompt, and one for each context of decode."""
    kind = None if weights == "file" else weights
    yield (
        weights,
        target,
        f"prefill of {PROMPT}",
        *_cells(_counted(model, target, kind, PROMPT, PROMPT, 0), PROMPT),
    )
    for context in contexts:
        report = _counted(model, target, kind, capacity or context, 1, context - 1)
        yield (weights, target, f"decode at {context}", *_cells(report, 1))


def _cells(report: CountReport, tokens: int) -> tuple[str, str]:
    return f"{report.instructions / tokens / 1e6:.2f}", f"{report.estimated_cycles / tokens / 1e6:.2f}"


def _counted(
    model: Path, target: str, weights: str | None, capacity: int, rows: int, position: int
) -> CountReport:
    """Count a call that appends `rows` tokens; positions beyond the cache count as its last ones."""
    source = open_decoder(model, capacity, weights=weights)
    begun = {POSITION: np.array([position], np.int32)}
    with TemporaryDirectory() as folder:
        package = arm_ext.compile(
            source, target, Path(folder) / "model", shapes={IDS: (rows,)}, state_init=begun
        )
        report = arm_ext.bench(package)
    assert isinstance(report, CountReport)
    return report


if __name__ == "__main__":
    sys.exit(main())
