#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print how quantised models are divided for Ethos-U, as Markdown: regions, MACs there, and why there are no more.

    python scripts/zoo.py build/zoo
    python scripts/npu_table.py build/zoo/*_int8.onnx
    python scripts/npu_table.py --npu ethos-u65-256 model.tflite
    python scripts/npu_table.py --cpu-mhz 1 build/zoo/*_int8.onnx    # so slow that all goes to the NPU that can

A border is a tensor that a region reads from outside, or that is read outside of it. Seconds are the processor's for
the division of a model that is imported and lowered: the passes over its regions, and Vela.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tables import markdown, measured

from arm_ext.ethosu.options import NpuOptions
from arm_ext.ethosu.partition.divider import Divider, check_divisible
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, run_phases
from arm_ext.report.npu import NpuBorder, NpuReport
from arm_ext.target.profiles import resolve
from schedules.numerics import tosa

NPUS = ("ethos-u55-128", "ethos-u85-512")
COLUMNS = (
    "model",
    "NPU",
    "regions",
    "operators there",
    "on the CPU",
    "MACs there",
    "%",
    "borders",
    "seconds",
)


@dataclass(frozen=True)
class Row:
    """A model on one accelerator.

    Attributes:
        model: Name of the model.
        report: NPU part of the compile report.
        macs: Multiply-accumulates of the whole model.
        seconds: Seconds of processor time that the division took.
    """

    model: str
    report: NpuReport
    macs: int
    seconds: float

    @property
    def borders(self) -> list[NpuBorder]:
        """Borders of all regions."""
        return [border for region in self.report.regions for border in region.borders]

    def cells(self) -> tuple[str, ...]:
        """Return the cells in the order of COLUMNS."""
        regions = self.report.regions
        there = sum(region.macs for region in regions)
        counts = (
            len(regions),
            sum(len(region.operators) for region in regions),
            sum(not rejection.unfit for rejection in self.report.rejections),
        )
        return (
            self.model,
            self.report.accelerator,
            *map(str, counts),
            f"{there / 1e6:.2f} M",
            f"{100 * there / (self.macs or 1):.1f}",
            str(len(self.borders)),
            f"{self.seconds:.1f}",
        )


def measure(path: Path, target: str, options: Sequence[NpuOptions]) -> Iterator[Row]:
    """Import and lower a model, and divide it for each accelerator."""
    dividers = list(map(Divider, options))
    imported = import_model(path)
    check_divisible(imported)
    options_of_phases = PhaseOptions(resolve(target), numerics=tosa.NUMERICS)
    results = dict(run_phases(PhaseResult(imported.mod), options_of_phases, until="lower"))
    macs = count_macs(imported.mod)
    for divider in dividers:
        start = time.process_time()
        offloaded = divider.divide(imported.nodes, macs, results["integerize"].mod, results["lower"])
        yield Row(imported.name, offloaded.report, sum(macs.values()), time.process_time() - start)


def table(rows: Sequence[Row]) -> str:
    """Return the rows, and after them why the regions of each end where they do, and what stays on the CPU."""
    return markdown(COLUMNS, (row.cells() for row in rows)) + "".join(map(_reasons, rows))


def _reasons(row: Row) -> str:
    ends = Counter(f"{border.way}: {border.reason}" for border in row.borders).most_common()
    kept = row.report.reasons
    return (
        f"\n{row.model} on {row.report.accelerator}, borders of regions:\n\n"
        + "".join(f"- {count}x {why}\n" for why, count in ends)
        + "\nand source nodes beside them, by share of the MACs:\n\n"
        + "".join(f"- {100 * r.mac_share:.1f} %, nodes {r.nodes}: {r.reason}\n" for r in kept)
    )


def main() -> None:
    """Print the table; a model that cannot be imported is reported at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument(
        "--npu", action="append", metavar="NAME", help=f"may be repeated; {' and '.join(NPUS)} by default"
    )
    parser.add_argument("--target", default="cortex-a55", help="profile of the CPU (default: %(default)s)")
    parser.add_argument("--cpu-mhz", type=float, help="its clock; by default that of `arm-ext compile`")
    arguments = parser.parse_args()
    options = [NpuOptions(npu, cpu_mhz=arguments.cpu_mhz) for npu in arguments.npu or NPUS]
    rows, failed = measured(arguments.models, lambda path: measure(path, arguments.target, options))
    sys.stdout.write(table(rows))
    sys.exit(failed)


if __name__ == "__main__":
    main()
