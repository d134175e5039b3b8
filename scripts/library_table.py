#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print what C libraries of models take beside packages of them, as Markdown: bytes, and instructions under QEMU.

python scripts/library_table.py digits_int8.onnx kws_ref_model.tflite --target cortex-a76
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from tables import markdown

import arm_ext
from arm_ext.api import digits
from arm_ext.measure.profile import CountReport
from arm_ext.native.build import qemu_plugin
from arm_ext.package import Package
from arm_ext.target.toolchain import zig

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


def _counted(library: Package, warm: str, counted: str, folder: Path) -> tuple[int, int]:
    """Instructions of a part of a program under the emulator, and those of them in `run` itself, without kernels."""
    assert library.manifest.library is not None
    name = library.manifest.library.name
    text = _PROGRAM.replace("WARM", warm).replace("COUNTED", counted)
    (folder / "main.c").write_text(text.replace("NAME", name).replace("LARGE", name.upper()))
    example, program, out = library.path / "example", folder / "program", folder / "counts"
    words = ["-target", "aarch64-linux-gnu.2.28", "-O2", f"-I{library.path / 'include'}", f"-I{example}"]
    sources = [folder / "main.c", example / "selftest.S", library.path / f"lib{name}.a", "-lm"]
    zig(["cc", *words, *sources, "-o", program])
    root = os.environ.get("ARM_EXT_SYSROOT", "/usr/aarch64-linux-gnu")
    cpu = library.manifest.target.qemu_cpu or "max"
    plugin = ["-plugin", f"{qemu_plugin()},out={out}"]
    subprocess.run(["qemu-aarch64", "-cpu", cpu, "-L", root, *plugin, program], check=True)
    text = out.read_text()
    with program.open("rb") as file:
        (run,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name(f"{name}_run")
        begin, size = run.entry.st_value, run.entry.st_size
    blocks = [line.split() for line in text.splitlines() if not line.startswith("#")]
    own = (int(count) * len(words) for at, count, *words in blocks if begin <= int(at, 16) < begin + size)
    return int(text.rpartition("#total")[2]), sum(own)


def _loaded_bytes(archive: Path, name: str) -> int:
    """Bytes of the archive's sections that a program which runs the model has in memory."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["ar", "x", archive.absolute()], cwd=folder, check=True)
        with (Path(folder) / f"{name}.o").open("rb") as file:
            sections = list(ELFFile(file).iter_sections())
    return sum(s.data_size for s in sections if s.header.sh_flags & SH_FLAGS.SHF_ALLOC)


def _row(model: Path, target: str, folder: Path) -> list[str]:
    folder.mkdir()
    package = arm_ext.compile(model, target, folder / "package").package
    library = arm_ext.compile(model, target, folder / "library", emit="c-library").package
    report = arm_ext.bench(package)
    info = library.manifest.library
    assert isinstance(report, CountReport)
    assert info is not None
    start, _ = _counted(library, "", _INIT, folder)
    warm, own = _counted(library, _INIT + _RUN, _RUN, folder)
    loaded = _loaded_bytes(library.path / f"lib{info.name}.a", info.name)
    figures = (
        package.so.stat().st_size,
        loaded,
        info.weight_bytes,
        info.arena_bytes,
        info.stack_bytes or 0,
        start,
        report.instructions,
        warm,
        own,
    )
    return [info.name, *(f"{figure:,}" for figure in figures)]


_HEAD = (
    *("Model", "model.so, bytes", "library, bytes", "its weights", "arena", "stack", "instructions of init"),
    *("of an inference: package", "library", "beside its kernels"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, default=[digits.model_path()])
    parser.add_argument("--target", default="cortex-a76")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            _row(model, options.target, Path(folder) / str(number))
            for number, model in enumerate(options.models)
        ]
    sys.stdout.write(markdown(_HEAD, rows))


if __name__ == "__main__":
    main()
