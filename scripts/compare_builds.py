#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare what two checkouts compile: the machine code of each kernel, and the outputs of the self-test.

    python scripts/compare_builds.py OLD NEW model.onnx kws.tflite --targets neoverse-n2,cortex-a53
    python scripts/compare_builds.py OLD NEW kws.tflite --options='--npu ethos-u65-256'

OLD and NEW are folders with a checkout each; both run in this Python. Without models it is the digits classifier that
ships with NEW. Exits 1 if a kernel's code or an output differs. A kernel is known by its symbol; its code is compared
without relocations, which are addresses of constants. Outputs are those of the self-test, to the bit. Rows are printed
as they are found; the differences follow the table, even if the comparison was interrupted.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from tables import markdown, markdown_row

TARGETS = "neoverse-n2,cortex-a76,cortex-a53"
COLUMNS = (
    "model",
    "target",
    "kernels",
    "same code",
    "other code",
    "unpaired",
    "code bytes",
    "model.so",
    "outputs",
)
INSTRUCTION = 4  # bytes


@dataclass(frozen=True)
class Comparison:
    """Differences between two packages.

    Attributes:
        same: Functions with the same instructions.
        changed: Symbols of those with others, with their numbers of instructions before and after.
        unpaired: Symbols that one of the packages lacks.
        code: Bytes of all functions before and after.
        file_equal: Whether model.so has the same bytes, addresses and constants included.
        outputs_equal: Whether the self-tests expect the same bits.
    """

    same: int
    changed: dict[str, tuple[int, int]]
    unpaired: list[str]
    code: tuple[int, int]
    file_equal: bool
    outputs_equal: bool

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.changed and not self.unpaired and self.outputs_equal

    def differences(self) -> Iterator[str]:
        """Yield a line for each function that differs."""
        for name, (before, after) in self.changed.items():
            yield f"{name}: {before} → {after} instructions"
        for name in self.unpaired:
            yield f"{name}: in one of the packages alone"

    def cells(self) -> tuple[str, ...]:
        """Return the cells in the order of COLUMNS, after model and target."""
        kernels = self.same + len(self.changed) + len(self.unpaired)
        before, after = self.code
        sizes = f"{before:,} → {after:,}" if before != after else f"{before:,}"
        outputs = "same bits" if self.outputs_equal else "DIFFERENT"
        counts = (kernels, self.same, len(self.changed), len(self.unpaired))
        return (*map(str, counts), sizes, "same bytes" if self.file_equal else "other bytes", outputs)


def build(checkout: Path, model: Path, target: str, options: list[str], package: Path) -> None:
    """Compile with the checkout's own code; if that fails, end this program with its message."""
    command = [sys.executable, "scripts/compile.py", str(model), "--target", target, "-o", str(package)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [*command, *options], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{checkout}: {model.name} for {target}: exit {done.returncode}\n{done.stderr.strip()}")


def functions(so: Path) -> dict[str, bytes]:
    """Return each function's instructions, by symbol."""
    with so.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
        code: dict[str, bytes] = {}
        for symbol in table.iter_symbols():
            if symbol["st_info"]["type"] != "STT_FUNC" or not symbol["st_size"]:
                continue
            section = elf.get_section(symbol["st_shndx"])
            start = symbol["st_value"] - section["sh_addr"]
            code[symbol.name] = without_addresses(section.data()[start : start + symbol["st_size"]])
        return code


def without_addresses(code: bytes) -> bytes:
    """Return code with zeros for what the linker writes: immediates of ADRP, ADR, BL, B, ADD, unsigned LDR/STR."""
    words = np.frombuffer(code, "<u4").copy()
    page, branch = (words & 0x1F000000) == 0x10000000, (words & 0x7C000000) == 0x14000000
    offset = ((words & 0x7F800000) == 0x11000000) | ((words & 0x3B000000) == 0x39000000)
    words[page] &= 0x9F00001F
    words[branch] &= 0xFC000000
    # Offsets from a register are the linker's behind an ADRP alone; which that is does not show, so all are left out.
    words[offset] &= 0xFFC003FF
    return words.tobytes()


def compare(old: Path, new: Path) -> Comparison:
    """Compare two packages."""
    before, after = functions(old / "model.so"), functions(new / "model.so")
    both = before.keys() & after.keys()
    changed = {
        name: (len(before[name]) // INSTRUCTION, len(after[name]) // INSTRUCTION)
        for name in sorted(both)
        if before[name] != after[name]
    }
    sizes = (sum(map(len, before.values())), sum(map(len, after.values())))
    same = len(both) - len(changed)
    equal = (old / "model.so").read_bytes() == (new / "model.so").read_bytes()
    return Comparison(
        same, changed, sorted(before.keys() ^ after.keys()), sizes, equal, same_outputs(old, new)
    )


def same_outputs(old: Path, new: Path) -> bool:
    """Whether the self-tests have the same inputs and expect the same outputs, bit for bit."""
    files = sorted(path.name for path in old.glob("selftest*.npz"))
    if not files or files != sorted(path.name for path in new.glob("selftest*.npz")):
        return False
    return all(expectations(old / name) == expectations(new / name) for name in files)


def expectations(selftest: Path) -> dict[str, tuple[str, bytes]]:
    """Return the self-test's inputs and the outputs of the package's own numerics, by name."""
    with np.load(selftest, allow_pickle=False) as arrays:
        own = [name for name in arrays.files if name.startswith(("input", "expected", "step"))]
        return {name: (f"{arrays[name].dtype}{arrays[name].shape}", arrays[name].tobytes()) for name in own}


def main() -> None:
    """Build, compare and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--targets", default=TARGETS, help=f"separated by commas (default: {TARGETS})")
    parser.add_argument("--options", default="", help="further options of compile")
    args = parser.parse_args()
    models = args.models or [args.new / "arm_ext/api/digits/digits_int8.onnx"]
    differences: list[str] = []
    equal = True
    sys.stdout.write(markdown(COLUMNS, []))
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for model in models:
                for target in args.targets.split(","):
                    packages = [Path(scratch) / f"{side}-{model.name}-{target}" for side in ("old", "new")]
                    for checkout, package in zip((args.old, args.new), packages, strict=True):
                        build(checkout.resolve(), model.resolve(), target, shlex.split(args.options), package)
                    found = compare(*packages)
                    sys.stdout.write(markdown_row((model.name, target, *found.cells())))
                    sys.stdout.flush()
                    equal = equal and found.is_equal
                    differences += (f"{model.name} for {target}: {line}" for line in found.differences())
    finally:
        sys.stdout.write("".join(f"{line}\n" for line in differences))
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
