#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print how far the estimated cycles of reports lie from the profile's, as Markdown: by model, and by kernel.

    python scripts/zoo.py build/zoo
    python scripts/estimate_table.py build/zoo/*.onnx --target cortex-a76
    python scripts/estimate_table.py model.tflite --target cortex-a76 --calls 20

Both are cycles of one core with caches; the estimate is made without running the code. A ratio above 1 says that the
profile has more.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tables import markdown, measured

import arm_ext
from arm_ext.report.calls import CallRow
from arm_ext.report.profile.record import ProfiledCall

MODELS = ("model", "target", "estimate, k cycles", "profile, k cycles", "ratio")
KERNELS = ("kernel", "calls", "estimate, k cycles", "profile, k cycles", "ratio")
CALLS = ("model", "call", "kernel", "output", "estimate, k cycles", "profile, k cycles", "ratio")


@dataclass(frozen=True)
class Row:
    """A call of a model: its estimate and its profile."""

    model: str
    target: str
    estimated: CallRow
    profiled: ProfiledCall

    @property
    def cycles(self) -> int:
        """Cycles with caches of the profile."""
        assert self.profiled.counts is not None
        return self.profiled.counts.cycles_with_caches


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--target", default="cortex-a76")
    parser.add_argument(
        "--calls", type=int, default=10, metavar="N", help="list the N calls that are furthest off"
    )
    args = parser.parse_args(argv)
    rows, failed = measured(args.models, lambda path: compared(path, args.target))
    models = [(name, args.target, *figures(group)) for name, group in by(rows, lambda row: row.model)]
    kernels = [
        (name, str(len(group)), *figures(group)) for name, group in by(rows, lambda row: row.estimated.kernel)
    ]
    furthest = sorted(rows, key=lambda row: -abs(row.cycles - row.estimated.cycles_with_caches))[: args.calls]
    calls = [
        (row.model, row.estimated.anchor, row.estimated.kernel, row.estimated.output, *figures([row]))
        for row in furthest
    ]
    sys.stdout.write(
        "\n".join((markdown(MODELS, models), markdown(KERNELS, kernels), markdown(CALLS, calls)))
    )
    return failed


def compared(path: Path, target: str) -> list[Row]:
    """Return a row for each call of the model, in the order of execution."""
    with TemporaryDirectory() as folder:
        result = arm_ext.compile(path, target, Path(folder) / "model.armpkg")
        calls = {(row.symbol, row.sources): row for row in result.report.calls}
        profile = arm_ext.profile(result.package, f"virtual:{target}")
        return [Row(path.stem, target, calls[call.symbol, call.sources], call) for call in profile.calls]


def by(rows: Iterable[Row], key: Callable[[Row], str]) -> list[tuple[str, list[Row]]]:
    """Return the rows with each key, those with the most cycles first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return sorted(groups.items(), key=lambda group: -sum(row.cycles for row in group[1]))


def figures(rows: Sequence[Row]) -> tuple[str, str, str]:
    """Return the cells of the estimate and of the profile, in thousands of cycles, and of their ratio."""
    estimated, cycles = sum(row.estimated.cycles_with_caches for row in rows), sum(row.cycles for row in rows)
    return (
        f"{estimated / 1e3:,.1f}",
        f"{cycles / 1e3:,.1f}",
        f"{cycles / estimated:.2f}" if estimated else "-",
    )


if __name__ == "__main__":
    sys.exit(main())
