# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 - it prints a table
"""Instructions of an inference with SME, for docs/guides/sme.md: a C library, counted in the log of QEMU.

    python scripts/sme_table.py MODEL --target c1-pro [--bits 512] [--without]

QEMU's versions that compute SME have no plugins, by which `bench` counts, and their log is too slow for packages. The
count is that of two inferences minus that of one. A count is neither cycles nor time: SMOPA is one instruction.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import arm_ext
from arm_ext.board.virtual import sme_emulator
from arm_ext.common.scratch import temporary
from arm_ext.target.profiles import NARROW_SVE, SME_BITS, sme_cpu

_TARGET = ("-target", "aarch64-linux-musl", "-static", "-O1", "-mcpu=generic")


def program(library: Path, runs: int, folder: Path) -> Path:
    """Build a library's self-test, which runs the model `runs` times."""
    name = next(library.glob("lib*.a")).stem.removeprefix("lib")
    call = f"{name}_run(instance, inputs, outputs);"
    main = (library / "example" / "main.c").read_text()
    assert call in main, "the example of C libraries has changed"
    again = f"for (int more = 1; more < {runs}; more++) {call}\n    {name}_status status = {call}"
    (folder / "main.c").write_text(main.replace(f"{name}_status status = {call}", again, 1))
    includes = [f"-I{library / each}" for each in ("include", "example")]
    sources = [folder / "main.c", library / "example" / "selftest.S", library / f"lib{name}.a"]
    output = folder / f"program{runs}"
    line = [sys.executable, "-m", "ziglang", "cc", *_TARGET, *includes, *map(str, sources), "-o", str(output)]
    subprocess.run(line, check=True, cwd=library / "example")
    return output


def count(binary: Path, cpu: str) -> int:
    """Return the number of instructions that a program executes, which must end with 0."""
    line = [
        sme_emulator(),
        "-cpu",
        cpu,
        "-one-insn-per-tb",
        "-d",
        "exec,nochain",
        "-D",
        "/dev/stderr",
        str(binary),
    ]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        found = sum(text.startswith(b"Trace ") for text in process.stderr)
    if process.returncode:
        raise SystemExit(f"{binary.name}: outputs are not as expected")
    return found


def main() -> None:
    """Print a row of the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--target", default="c1-pro")
    parser.add_argument("--bits", type=int, choices=SME_BITS, default=512)
    parser.add_argument("--without", action="store_true", help="compile without SME")
    given = parser.parse_args()
    with temporary() as folder:
        library, mattr = folder / "library", None if given.without else "+sme"
        arm_ext.compile(given.model, given.target, library, mattr=mattr, emit="c-library")
        (kernels,) = re.findall(r"kernels +by time: (.*)", (library / "report.txt").read_text(), re.MULTILINE)
        cpu = f"max,{NARROW_SVE},{sme_cpu(given.bits)}"
        one, two = (count(program(library, runs, folder), cpu) for runs in (1, 2))
    print(
        f"{given.model.stem}, {given.target}, {mattr or 'no SME'}, {given.bits} bits: {two - one:,}; {kernels}"
    )


if __name__ == "__main__":
    main()
