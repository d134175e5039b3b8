#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print what C libraries of models take beside packages of them, as Markdown: bytes, and instructions under QEMU.

python scripts/library_table.py digits_int8.onnx kws_ref_model.tflite --target cortex-a76

With --against, a second table has other runtimes beside them, each with the models of its format: what has to be on the
board, and instructions from the opening of the model to its first outputs. Libraries that are loaded before are not
counted, nor is Python's import of them. --only-against leaves the first table out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from tables import markdown
from tvm import DataType

import arm_ext
from arm_ext.api import digits
from arm_ext.measure.peers.catalog import Peer, parse_peers
from arm_ext.measure.peers.count import Part, PeerRun, fetch
from arm_ext.measure.peers.files import model_format
from arm_ext.measure.profile import CountReport
from arm_ext.native.build import ffi_includes, qemu_plugin, runtime_libs
from arm_ext.package import Package
from arm_ext.target.toolchain import zig, zig_target

# Between these two calls of close() the emulator's plugin counts (count_plugin.c).
_PROGRAM = """
#include <unistd.h>
#include "NAME.h"
extern const unsigned char NAME_selftest[];
static _Alignas(64) unsigned char arena[LARGE_ARENA_BYTES], results[1 << 22];
int main(void)
{
    NAME_instance instance;
    NAME_input in[LARGE_INPUTS + 1];
    NAME_output out[LARGE_OUTPUTS + 1];
    size_t at = 0, to = 0;
    for (size_t i = 0; i < LARGE_INPUTS; at += (in[i++].bytes + 63) / 64 * 64) {
        in[i].data = NAME_selftest + at, in[i].bytes = NAME_input_tensor(i)->bytes;
    }
    for (size_t i = 0; i < LARGE_OUTPUTS; to += (out[i++].bytes + 63) / 64 * 64) {
        out[i].data = results + to, out[i].bytes = NAME_output_tensor(i)->bytes;
    }
    WARM
    close(0x5A5A01);
    COUNTED
    close(0x5A5A02);
    return 0;
}
"""
_INIT = "if (NAME_init(&instance, arena, sizeof arena)) return 1;"
_RUN = "if (NAME_run(&instance, in, out)) return 2;"


def emulated(
    program: Path, arguments: Sequence[str], cpu: str, out: Path, *more: str, root: Path | None = None
) -> tuple[int, str]:
    """Run a program under the emulator, and return the instructions that the plugin counted, and what it printed."""
    root = root or Path(os.environ.get("ARM_EXT_SYSROOT", "/usr/aarch64-linux-gnu"))
    plugin = ["-plugin", f"{qemu_plugin()},out={out}"]
    command = ["qemu-aarch64", "-cpu", cpu, "-L", root, *more, *plugin, program, *arguments]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return int(out.read_text().rpartition("#total")[2]), said


def _counted(library: Package, warm: str, counted: str, folder: Path) -> tuple[int, int]:
    """Return a program part's instructions under the emulator, and those of them in `run` itself, without kernels."""
    assert library.manifest.library is not None
    name = library.manifest.library.name
    text = _PROGRAM.replace("WARM", warm).replace("COUNTED", counted)
    (folder / "main.c").write_text(text.replace("NAME", name).replace("LARGE", name.upper()))
    example, program, out = library.path / "example", folder / "program", folder / "counts"
    words = ["-target", "aarch64-linux-gnu.2.28", "-O2", f"-I{library.path / 'include'}", f"-I{example}"]
    sources = [folder / "main.c", example / "selftest.S", library.path / f"lib{name}.a", "-lm"]
    zig(["cc", *words, *sources, "-o", program])
    total, _ = emulated(program, [], _cpu(library), out)
    with program.open("rb") as file:
        (run,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name(f"{name}_run")
        begin, size = run.entry.st_value, run.entry.st_size
    blocks = [line.split() for line in out.read_text().splitlines() if not line.startswith("#")]
    own = (int(count) * len(words) for at, count, *words in blocks if begin <= int(at, 16) < begin + size)
    return total, sum(own)


def _package_start(package: Package, folder: Path) -> int:
    """Return the instructions up to a package's first outputs, in a program without Python."""
    program, native = folder / "package_start", Path(arm_ext.__file__).parent / "native"
    options = ["-target", zig_target("aarch64-linux-gnu"), "-O2", "-std=c++17", "-nostdlib++", f"-I{native}"]
    link = [f"-L{runtime_libs()}", "-ltvm_ffi", "-ldl"]
    source = Path(__file__).with_name("package_start.cc")
    zig(["c++", *options, *ffi_includes(), source, *link, "-o", program])
    inputs = []
    for tensor in package.manifest.inputs:
        dtype = DataType(tensor.dtype)
        inputs.append(f"{int(dtype.type_code)}:{dtype.bits}:{','.join(map(str, tensor.shape))}")
    libraries = ["-E", f"LD_LIBRARY_PATH={runtime_libs()}"]
    return emulated(program, [str(package.so), *inputs], _cpu(package), folder / "counts", *libraries)[0]


def _cpu(package: Package) -> str:
    return package.manifest.target.qemu_cpu or "max"


def loaded_bytes(archive: Path, name: str) -> int:
    """Return the bytes of the archive's sections that are in memory when a program runs the model."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["ar", "x", archive.absolute()], cwd=folder, check=True)
        with (Path(folder) / f"{name}.o").open("rb") as file:
            sections = list(ELFFile(file).iter_sections())
    return sum(s.data_size for s in sections if s.header.sh_flags & SH_FLAGS.SHF_ALLOC)


@dataclass(frozen=True)
class _Compiled:
    """A model compiled to a package and to a C library."""

    model: Path
    target: str
    folder: Path

    @cached_property
    def package(self) -> Package:
        return arm_ext.compile(self.model, self.target, self.folder / "package").package

    @cached_property
    def library(self) -> Package:
        return arm_ext.compile(self.model, self.target, self.folder / "library", emit="c-library").package

    @cached_property
    def package_run(self) -> int:
        report = arm_ext.bench(self.package)
        assert isinstance(report, CountReport)
        return report.instructions

    @cached_property
    def library_run(self) -> tuple[int, int]:
        return _counted(self.library, _INIT + _RUN, _RUN, self.folder)

    @cached_property
    def library_bytes(self) -> int:
        info = self.library.manifest.library
        assert info is not None
        return loaded_bytes(self.library.path / f"lib{info.name}.a", info.name)

    def row(self) -> list[str]:
        """Return the sizes and instructions of the library beside those of the package."""
        info = self.library.manifest.library
        assert info is not None
        start, _ = _counted(self.library, "", _INIT, self.folder)
        figures = (
            self.package.so.stat().st_size,
            self.library_bytes,
            info.weight_bytes,
            info.arena_bytes,
            info.stack_bytes or 0,
            start,
            self.package_run,
            *self.library_run,
        )
        return [info.name, *(f"{figure:,}" for figure in figures)]

    def rows(self, peers: Sequence[Peer]) -> list[list[str]]:
        """Return, for each runtime, what has to be on the board, and the instructions."""
        start, _ = _counted(self.library, "", _INIT + _RUN, self.folder)
        tvm = sum(library.stat().st_size for library in runtime_libs().glob("*.so"))
        so = self.package.so.stat().st_size
        name = self.model.name
        rows = [
            against_row(name, "C library", 0, self.library_bytes, start, self.library_run[0]),
            against_row(
                name, "package, TVM", tvm, so, _package_start(self.package, self.folder), self.package_run
            ),
        ]
        selftest, target = self.package.selftest(), self.package.manifest.target
        for peer in peers:
            if model_format(self.model) != peer.format:
                continue
            guest, parts = fetch(peer), ("start", "inference")
            runs: dict[Part, PeerRun] = {
                part: guest.count(
                    self.model, selftest.inputs, cpu=_cpu(self.package), core=target.core, part=part
                )
                for part in parts
            }
            start, run = (sum(block.instructions for block in runs[part].blocks) for part in parts)
            libraries, size = runs["inference"].library_bytes, self.model.stat().st_size
            rows.append(against_row(name, f"{peer.name} {peer.version}", libraries, size, start, run))
        return rows


def against_row(name: str, runtime: str, *figures: int) -> list[str]:
    """Return a row of the table of runtimes; its last cell is the difference of the last two figures."""
    return [name, runtime, *(f"{figure:,}" for figure in figures), f"{figures[-2] - figures[-1]:,}"]


_HEAD = (
    *("Model", "model.so, bytes", "library, bytes", "its weights", "arena", "stack", "instructions of init"),
    *("of an inference: package", "library", "beside its kernels"),
)
_AGAINST_HEAD = (
    *(
        "Model",
        "Runtime",
        "its libraries, bytes",
        "compiled model or model file",
        "instructions to first outputs",
    ),
    *("of a warm inference", "difference"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, default=[digits.model_path()])
    parser.add_argument("--target", default="cortex-a76")
    parser.add_argument("--against", metavar="RUNTIME,…", help="onnxruntime, litert or both")
    parser.add_argument("--only-against", action="store_true", help="without the first table")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        compiled = [
            _Compiled(model, options.target, Path(folder) / str(number))
            for number, model in enumerate(options.models)
        ]
        for each in compiled:
            each.folder.mkdir()
        tables = [] if options.only_against else [markdown(_HEAD, [each.row() for each in compiled])]
        if options.against:
            peers = parse_peers(options.against)
            rows = [row for each in compiled for row in each.rows(peers)]
            tables.append(markdown(_AGAINST_HEAD, rows))
    sys.stdout.write("\n".join(tables))


if __name__ == "__main__":
    main()
