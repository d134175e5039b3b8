# SPDX-License-Identifier: Apache-2.0
"""Object files of a library: compilation and joining of C code and kernels, and their undefined symbols.

The objects are the same for every system that uses ELF: they are compiled without a C library.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection

from arm_ext.common.errors import EnvError
from arm_ext.common.scratch import temporary
from arm_ext.common.timings import child_section
from arm_ext.target.toolchain import Driver, zig

_C_FLAGS = (
    *("-std=c11", "-O2", "-g0", "-ffreestanding", "-fno-stack-protector"),
    *("-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
)
# Only the pinned compiler gets these flags, since the warnings of other compilers depend on their versions.
_STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-overlength-strings")
# TVM's objects contain DWARF that does not describe the model, and functions that convert between binary16 and
# binary32. aarch64 has instructions for these conversions; a call of one of the discarded functions would make the
# link fail.
_DISCARDED = ("*(.debug_*)", "*(.rela.debug_*)", "*(.comment)", "*(.llvm_addrsig)", "*(.note.gnu.build-id)")
_DISCARDED_ON_AARCH64 = ("*(.text.tvm.fp16.conv)",)
_ELF = b"\x7fELF"
_STV_HIDDEN = 2
_ST_OTHER = {64: 5, 32: 13}  # offset of st_other in an entry of a symbol table, by the class of the ELF file
_SCRIPT, _ARCHIVE = "join.ld", "library.a"


@dataclass(frozen=True)
class Member:
    """The sources of one object of a library.

    Attributes:
        sources: C and assembler, text by file name.
        kernels: Objects that are joined with it.
        hidden: Prefix of the names of functions that are not visible from outside; empty for none.
    """

    sources: Mapping[str, str]
    kernels: Sequence[bytes] = ()
    hidden: str = ""


@dataclass(frozen=True)
class CompiledLibrary:
    """A compiled library.

    Attributes:
        archive: The bytes of the .a.
        members: The objects in it by their names.
    """

    archive: bytes
    members: Mapping[str, bytes]

    def requires(self, members: Iterable[str]) -> tuple[str, ...]:
        """Return the functions that the members call but the library does not define."""
        called = set[str]().union(*(_names(self.members[name], defined=False) for name in members))
        has = (_names(data, defined=True) for data in self.members.values())
        return tuple(sorted(called.difference(*has)))


def compile_library(members: Mapping[str, Member], include: Path, driver: Driver) -> CompiledLibrary:
    """Compile and join objects; equal inputs give equal bytes.

    Args:
        members: Name in the archive → source or object.
        include: Folder with the headers and what assembler includes.
        driver: The compiler.

    Raises:
        EnvError: The compiler is missing or failed.
    """
    position = "-fno-pic" if driver.zig_cpu else "-fPIC"
    c_flags = (*_C_FLAGS, position, *(_STRICT if driver.cc is None else ()))
    with temporary() as folder, child_section("linker"):

        def compiled(files: Mapping[str, str]) -> list[str]:
            for file, text in files.items():
                (folder / file).write_text(text, encoding="utf-8")
                flags = c_flags if file.endswith(".c") else ()
                driver.run([f"-I{include}", *flags, "-c", file, "-o", f"{file}.o"], folder)
            return [f"{file}.o" for file in files]

        discarded = _DISCARDED + (_DISCARDED_ON_AARCH64 if driver.triple.startswith("aarch64") else ())
        # GNU ld would mark a join of objects of which some lack this section as one that executes its stack.
        discarded += ("*(.note.GNU-stack)",) if driver.zig_cpu else ()
        (folder / _SCRIPT).write_text(
            f"SECTIONS {{ /DISCARD/ : {{ {' '.join(discarded)} }} }}\n", encoding="utf-8"
        )
        made = {}
        for name, member in members.items():
            objects = compiled(member.sources)
            for number, data in enumerate(member.kernels):
                objects.append(f"{number}.kernel.o")  # no member of the archive has this name
                (folder / objects[-1]).write_bytes(data)
            driver.run(["-r", "-nostdlib", "-g0", f"-Wl,-T,{_SCRIPT}", *objects, "-o", name], folder)
            made[name] = _object(folder / name, driver)
            if member.hidden:
                made[name] = _hidden(made[name], member.hidden)
                (folder / name).write_bytes(made[name])
        zig(["ar", "rcsD", _ARCHIVE, *members], folder, [folder])
        return CompiledLibrary((folder / _ARCHIVE).read_bytes(), made)


def _object(file: Path, driver: Driver) -> bytes:
    """Return the bytes of an object file that the compiler was to write."""
    data = file.read_bytes() if file.is_file() else b""
    if not data.startswith(_ELF):
        raise EnvError(f"the compiler {driver.cc or 'ziglang'} reported no error, but wrote no object file")
    return data


def symbols_of(table: ELFFile) -> list[Symbol]:
    """Return the symbols of an object."""
    found = table.get_section_by_name(".symtab")
    return list(found.iter_symbols()) if isinstance(found, SymbolTableSection) else []


def _names(data: bytes, *, defined: bool) -> set[str]:
    """Return the symbols that an object defines, or those that it references without defining them."""
    symbols = symbols_of(ELFFile(io.BytesIO(data)))
    visible = [s for s in symbols if s.name and s.entry.st_info.bind != "STB_LOCAL"]
    return {str(s.name) for s in visible if (s.entry.st_shndx != "SHN_UNDEF") == defined}


def _hidden(data: bytes, prefix: str) -> bytes:
    """Hide global symbols with a prefix from other programs and libraries."""
    elf = ELFFile(io.BytesIO(data))
    table = elf.get_section_by_name(".symtab")
    assert table is not None  # never None, since an object contains the model's symbols
    changed = bytearray(data)
    for index, symbol in enumerate(symbols_of(elf)):
        if symbol.name.startswith(prefix):
            changed[table.header.sh_offset + index * table.header.sh_entsize + _ST_OTHER[elf.elfclass]] |= (
                _STV_HIDDEN
            )
    return bytes(changed)
