# SPDX-License-Identifier: Apache-2.0
"""C and C++ programs with libraries, built and run for a test."""

import os
import platform
import runpy
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

import arm_ext
from arm_ext.package import Package
from arm_ext.package.manifest import Library as LibraryInfo
from arm_ext.target.toolchain import zig

HERE = Path(__file__).parent
# Five regions of `npu_models.mixed`, with the CPU between them.
MIXED = arm_ext.NpuOptions("ethos-u65-256", npu_ops=("conv2d", "linear", "softmax"))
_SECONDS = 300
"""Time limit of a program, which threads that wait for each other would not end."""

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


@dataclass(frozen=True)
class Library:
    """A compiled library."""

    package: Package

    @staticmethod
    def of(model: onnx.ModelProto, folder: Path, target: str, *, name: str, **options: Any) -> "Library":
        """Compile a model to a library of a name."""
        folder.mkdir()
        onnx.save(model, folder / f"{name}.onnx")
        output = folder / "library"
        options |= {"emit": "c-library"}
        return Library(arm_ext.compile(folder / f"{name}.onnx", target, output, **options).package)

    @property
    def folder(self) -> Path:
        return self.package.path

    @property
    def info(self) -> LibraryInfo:
        assert self.package.manifest.library is not None
        return self.package.manifest.library

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def archive(self) -> Path:
        return self.folder / self.info.file

    @property
    def selftest(self) -> list[str | Path]:
        """What a compiler takes to build the example."""
        example = self.folder / "example"
        pool = [*self.folder.glob("src/*_pool.c")]
        return [
            f"-I{example}",
            example / "main.c",
            example / "selftest.S",
            *pool,
            *self.arguments,
            "-lpthread",
        ]

    @property
    def arguments(self) -> list[str | Path]:
        """What a compiler takes to build a program with the library."""
        return [f"-I{self.folder / 'include'}", self.archive, "-lm"]


def python_module(library: Library, folder: Path) -> dict[str, Any]:
    """Return what the Python module of a library defines, beside the shared library that it loads."""
    shutil.copy(library.folder / "python" / f"{library.name}.py", folder)
    whole = ["-shared", "-Wl,--whole-archive", library.archive, "-Wl,--no-whole-archive", "-lm"]
    cc(whole, folder / f"lib{library.name}.so")
    return runpy.run_path(str(folder / f"{library.name}.py"))


def cc(words: Sequence[str | Path], program: Path, compiler: str = "gcc") -> Path:
    """Build a program for this machine."""
    assert shutil.which(compiler), f"{compiler} is missing; scripts/setup.sh test installs it"
    _run([compiler, *words, "-o", program])
    return program


def cross(words: Sequence[str | Path], program: Path, target: str = "aarch64-linux-gnu.2.28") -> Path:
    """Build a program for aarch64."""
    zig(["cc", "-target", target, "-O1", *words, "-o", program])
    return program


def run(program: Path, cpu: str = "cortex-a76") -> str:
    """Run a program, for aarch64 under qemu-aarch64, and return what it prints."""
    is_foreign = program.read_bytes()[18] == 183 and platform.machine() != "aarch64"  # e_machine: EM_AARCH64
    root = os.environ.get("ARM_EXT_SYSROOT", "/usr/aarch64-linux-gnu")
    return _run([*(["qemu-aarch64", "-cpu", cpu, "-L", root] if is_foreign else []), program])


def _run(command: Sequence[str | Path]) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
