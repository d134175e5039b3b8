# SPDX-License-Identifier: Apache-2.0
"""Object files of a library: compiled C, kernels joined with it, and what is left undefined.

The objects are the same for every system that uses ELF: they are compiled without a C library.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection

from arm_ext.common.scratch import temporary
from arm_ext.common.timings import child_section
from arm_ext.target.toolchain import zig, zig_target

_C_FLAGS = (
    *("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-overlength-strings"),
    *("-O2", "-g0", "-fPIC", "-ffreestanding", "-fno-stack-protector"),
    *("-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
)
# TVM's objects carry DWARF that says nothing of the model, and conversions between binary16 and binary32, which on
# aarch64 are instructions: a call of one would end the link.
_DISCARDED = ("*(.debug_*)", "*(.rela.debug_*)", "*(.comment)", "*(.llvm_addrsig)")
_DISCARDED_ON_AARCH64 = ("*(.text.tvm.fp16.conv)",)
_STV_HIDDEN = 2
_ST_OTHER = 5  # place of st_other in an entry of a 64-bit symbol table
_SCRIPT, _ARCHIVE = "join.ld", "library.a"


@dataclass(frozen=True)
class Library:
    """A compiled library.

    Attributes:
        archive: The bytes of the .a.
        member: The object in it with the model: its kernels, weights, and all that runs it.
        requires: Functions that it calls and does not have.
    """

    archive: bytes
    member: bytes
    requires: tuple[str, ...]


def compile_library(
    name: str,
    sources: Mapping[str, str],
    texts: Mapping[str, str],
    include: Sequence[Path],
    kernels: Iterable[bytes],
    triple: str,
) -> Library:
    """Compile and join objects; the same inputs give the same bytes.

    Args:
        name: Of the library.
        sources: C and assembler that are joined with the kernels, text by file name.
        texts: C of a member of its own.
        include: Folders with the header and what assembler includes.
        kernels: Objects of the kernels, whose functions are not visible from outside.
        triple: LLVM triple.

    Raises:
        EnvError: zig is missing or failed.
    """
    flags = ["-target", zig_target(triple), *(f"-I{folder}" for folder in include)]
    with temporary() as folder, child_section("linker"):

        def run(*args: str) -> None:
            zig(args, folder, [folder])

        def compiled(files: Mapping[str, str]) -> list[str]:
            for file, text in files.items():
                (folder / file).write_text(text, encoding="utf-8")
                run("cc", *flags, *(_C_FLAGS if file.endswith(".c") else ()), "-c", file, "-o", f"{file}.o")
            return [f"{file}.o" for file in files]

        joined = compiled(sources)
        for number, data in enumerate(kernels):
            joined.append(f"kernel{number}.o")
            (folder / joined[-1]).write_bytes(data)
        discarded = _DISCARDED + (_DISCARDED_ON_AARCH64 if triple.startswith("aarch64") else ())
        (folder / _SCRIPT).write_text(f"SECTIONS {{ /DISCARD/ : {{ {' '.join(discarded)} }} }}\n")
        members = {f"{name}.o": joined, f"{name}_text.o": compiled(texts)}
        for member, objects in members.items():
            run("cc", *flags, "-r", "-nostdlib", "-g0", f"-Wl,-T,{_SCRIPT}", *objects, "-o", member)
        (folder / f"{name}.o").write_bytes(_hidden((folder / f"{name}.o").read_bytes(), f"{name}_k_"))
        run("ar", "rcsD", _ARCHIVE, *members)
        data = (folder / f"{name}.o").read_bytes()
        return Library((folder / _ARCHIVE).read_bytes(), data, tuple(sorted(_undefined(data))))


def symbols_of(table: ELFFile) -> list[Symbol]:
    """Return the symbols of an object."""
    found = table.get_section_by_name(".symtab")
    return list(found.iter_symbols()) if isinstance(found, SymbolTableSection) else []


def _undefined(data: bytes) -> set[str]:
    symbols = symbols_of(ELFFile(io.BytesIO(data)))
    return {str(symbol.name) for symbol in symbols if symbol.entry.st_shndx == "SHN_UNDEF" and symbol.name}


def _hidden(data: bytes, prefix: str) -> bytes:
    """Make global symbols with a prefix invisible to other programs and libraries."""
    elf = ELFFile(io.BytesIO(data))
    table = elf.get_section_by_name(".symtab")
    assert table is not None  # there are symbols of the model
    changed = bytearray(data)
    for index, symbol in enumerate(symbols_of(elf)):
        if symbol.name.startswith(prefix):
            changed[table.header.sh_offset + index * table.header.sh_entsize + _ST_OTHER] |= _STV_HIDDEN
    return bytes(changed)
