# SPDX-License-Identifier: Apache-2.0
"""The example for machines without an operating system, in an emulated one."""

import shutil
import subprocess
from pathlib import Path

import pytest

import arm_ext
from arm_ext.api import digits
from arm_ext.target.toolchain import zig

FOLDER = Path(__file__).parents[2] / "examples/bare_metal"
QEMU = "qemu-system-aarch64"


@pytest.mark.skipif(shutil.which(QEMU) is None, reason="qemu-system-aarch64 is not installed")
@pytest.mark.parametrize("cpu", ["cortex-a76"])
def test_the_classifier_runs_without_an_operating_system(tmp_path: Path, cpu: str) -> None:
    inputs = [digits.held_out()[0][:1]]
    library = tmp_path / "library"
    arm_ext.compile(digits.model_path(), cpu, library, emit="c-library", inputs=inputs)
    program = tmp_path / "digits.elf"
    flags = ["-target", "aarch64-freestanding-none", "-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding"]
    flags += ["-fno-builtin", "-fno-stack-protector", "-nostdlib", f"-Wl,-T,{FOLDER / 'virt.ld'}"]
    flags += [f"-I{library / 'include'}", f"-I{library / 'example'}"]
    sources = [
        FOLDER / "start.S",
        FOLDER / "main.c",
        library / "example/selftest.S",
        library / "libdigits_int8.a",
    ]
    zig(["cc", *flags, *sources, "-o", program])
    machine = [QEMU, "-M", "virt", "-cpu", cpu, "-m", "64M", "-net", "none", "-nographic", "-semihosting"]
    done = subprocess.run(
        [*machine, "-kernel", str(program)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "digits_int8: all outputs agree\n")
