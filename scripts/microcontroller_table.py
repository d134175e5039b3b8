#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print what models take on Cortex-M, and beside them on an Ethos-U, as Markdown: instructions, memory and flash.

    python scripts/zoo.py build/zoo mobilenet_v1
    python scripts/microcontroller_table.py arm_ext/api/digits/digits_int8.onnx build/zoo/mobilenet_v1_int8.onnx
    python scripts/microcontroller_table.py kws_ref_model.tflite --targets cortex-m55 --npu ethos-u55-128

Each library is run on its emulated board first: a row stands for outputs that are those of the self-test. Instructions
are an emulator's, never cycles. An NPU's cycles are Vela's estimate; its libraries are without the CPU's code for
regions (--npu-fallback none), and their outputs a functional model's.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from library_table import loaded_bytes
from tables import markdown, measured

import arm_ext
from arm_ext import NpuOptions
from arm_ext.api.run_library import count
from arm_ext.board.bare import machine_for
from arm_ext.common.errors import InternalError
from arm_ext.target.profiles import PROFILES

COLUMNS = ("model", "core", "instructions, M", "NPU cycles, k", "arena", "stack", "code", "weights")
CORES = tuple(name for name, profile in PROFILES.items() if profile.core.is_microcontroller)

Row = tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--targets", nargs="+", default=CORES, choices=CORES, metavar="CORE")
    parser.add_argument(
        "--npu", nargs="*", default=[], metavar="NAME", help="also with each, beside each core"
    )
    args = parser.parse_args(argv)
    beside = [None, *args.npu]
    rows, failed = measured(args.models, lambda path: rows_of(path, args.targets, beside))
    sys.stdout.write(markdown(COLUMNS, rows))
    return failed


def rows_of(path: Path, targets: Sequence[str], npus: Sequence[str | None]) -> Iterator[Row]:
    """Yield the row of a model for each core, without an NPU and with each."""
    for target in targets:
        for npu in npus:
            yield row_of(path, target, npu)


def row_of(path: Path, target: str, npu: str | None) -> Row:
    """Compile a library, check it on the board, and return its row."""
    options = None if npu is None else NpuOptions(npu, npu_fallback="none")
    with TemporaryDirectory() as folder:
        result = arm_ext.compile(path, target, Path(folder) / "library", emit="c-library", npu=options)
        library = result.package
        if not all(check.passed for check in arm_ext.run(library, check=True).checks):
            raise InternalError(f"{target}: the outputs are not those of the self-test")
        counted, info = count(library, "virtual"), library.manifest.library
        assert info is not None
        loaded = loaded_bytes(library.path / f"lib{info.name}.a", info.name)
        cycles = [region.cycles for region in result.report.npu.regions] if result.report.npu else []
    stand_in = "" if not machine_for(target)[1] else " *"
    return (
        path.stem,
        target.removeprefix("cortex-").upper() + stand_in + (f" + {npu}" if npu else ""),
        f"{counted.instructions / 1e6:.3f}",
        f"{sum(cycles) / 1e3:,.0f}" if cycles else "",
        f"{info.arena_bytes:,}",
        f"{counted.stack_bytes:,}",
        f"{loaded - info.weight_bytes:,}",
        f"{info.weight_bytes:,}",
    )


if __name__ == "__main__":
    sys.exit(main())
