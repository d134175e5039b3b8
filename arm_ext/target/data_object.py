# SPDX-License-Identifier: Apache-2.0
"""Object files that contain only data, in the form that LLVM gives a constant.

LLVM itself would copy it several times.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import BinaryIO

# Names and values of elf.h and the ABIs of the two architectures.
_HEADER, _SECTION, _SYMBOL = (struct.Struct(form) for form in ("<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ"))
_IDENTITY = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")  # ELFCLASS64, ELFDATA2LSB, EV_CURRENT
_ET_REL, _EV_CURRENT = 1, 1
_MACHINES = {"aarch64": 183, "x86_64": 62}
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_STRTAB = 1, 2, 3
_SHF_ALLOC, _SHF_X86_64_LARGE = 2, 0x10000000
_SHN_ABS = 0xFFF1
_LOCAL_FILE, _LOCAL, _GLOBAL_OBJECT = 0x04, 0x00, 0x11  # binding and type of the symbol
_STRINGS, _DATA, _SYMBOLS = 1, 2, 4  # sections
# x86-64 code can address 2 GB of data relative to itself; larger data is in a separate section.
_LARGE = 1 << 30


def write_data_object(
    file: BinaryIO, source: str, symbol: str, data: Sequence[memoryview], triple: str
) -> None:
    """Write a relocatable ELF file whose only symbol names read-only data.

    Args:
        file: Where to write it.
        source: Name of the source file that the symbol table gives.
        symbol: Name of the data.
        data: The data, in parts of bytes.
        triple: LLVM triple, of aarch64 or x86_64.
    """
    machine, _, _ = triple.partition("-")
    size = sum(map(len, data))
    is_large = machine == "x86_64" and size > _LARGE
    # On AArch64, the symbol "$d" marks data.
    marks = ["$d"] if machine == "aarch64" else []
    names = [
        ".strtab",
        ".lrodata" if is_large else ".rodata",
        ".note.GNU-stack",
        ".symtab",
        source,
        *marks,
        symbol,
    ]
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    at = dict(zip(names, accumulate((len(name.encode()) + 1 for name in names), initial=1), strict=False))
    symbols = [
        (0, 0, 0, 0, 0, 0),
        (at[source], _LOCAL_FILE, 0, _SHN_ABS, 0, 0),
        *((at[mark], _LOCAL, 0, _DATA, 0, 0) for mark in marks),
        (at[symbol], _GLOBAL_OBJECT, 0, _DATA, 0, size),
    ]
    table = b"".join(_SYMBOL.pack(*each) for each in symbols)
    data_at = _HEADER.size
    padding = -(data_at + size) % 8
    table_at = data_at + size + padding
    strings_at = table_at + len(table)
    sections_at = strings_at + len(strings)
    flags = _SHF_ALLOC | (_SHF_X86_64_LARGE if is_large else 0)
    sections = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (at[".strtab"], _SHT_STRTAB, 0, 0, strings_at, len(strings), 0, 0, 1, 0),
        (at[names[1]], _SHT_PROGBITS, flags, 0, data_at, size, 0, 0, 1, 0),
        (at[".note.GNU-stack"], _SHT_PROGBITS, 0, 0, table_at, 0, 0, 0, 1, 0),
        (at[".symtab"], _SHT_SYMTAB, 0, 0, table_at, len(table), _STRINGS, len(symbols) - 1, 8, _SYMBOL.size),
    ]
    counts = (0, _HEADER.size, 0, 0, _SECTION.size, len(sections), _STRINGS)
    file.write(_HEADER.pack(_IDENTITY, _ET_REL, _MACHINES[machine], _EV_CURRENT, 0, 0, sections_at, *counts))
    file.writelines(data)
    file.write(bytes(padding))
    file.write(table)
    file.write(strings)
    file.write(b"".join(_SECTION.pack(*each) for each in sections))
