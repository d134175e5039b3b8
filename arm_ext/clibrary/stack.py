# SPDX-License-Identifier: Apache-2.0
"""An upper bound on the stack of aarch64 functions, from their changes of the stack pointer and their calls.

A function's own frame is the sum of all that it subtracts from the stack pointer: it does so once, when it begins. The
bound of a function is its frame and the greatest bound of those that it calls.
"""

import io
import re
from collections.abc import Mapping
from functools import cache

import capstone
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import Relocation, RelocationSection

from arm_ext.clibrary.objects import symbols_of
from arm_ext.common.errors import InternalError

_LOWERED = re.compile(r"sp, sp, #(?P<by>0x[0-9a-f]+|\d+)(, lsl #(?P<shift>\d+))?$")
_PUSHED = re.compile(r"\[sp, #-(?P<by>0x[0-9a-f]+|\d+)\]!$")
# Changes of the stack pointer that the bound cannot include: by a register, or by alignment.
_OTHER = re.compile(r"^(sub|and|mov) sp, (?!sp, #)")
_BY_POINTER = ("blr ", "br ")
# Relocation types of the ELF for the Arm 64-bit Architecture: R_AARCH64_CALL26 and R_AARCH64_JUMP26.
_CALLS = (283, 282)


def stack_bound(*objects: bytes, tasks: str = "task_") -> int:
    """Return the maximum stack size in bytes of a call of any function in objects, without undefined functions.

    Args:
        objects: Relocatable aarch64 objects, which call each other's functions.
        tasks: What the names of functions begin with that are called by pointers. What else such a pointer may be of,
            such as a pool's functions, is not counted.

    Raises:
        InternalError: A function moves the stack pointer by what is known at run time, or calls itself.
    """
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for data in objects:
        for name, (frame, called) in _functions(ELFFile(io.BytesIO(data)), tasks).items():
            # Local functions of different objects may have the same name: the largest frame counts.
            frames[name] = max(frame, frames.get(name, 0))
            calls.setdefault(name, set()).update(called)

    @cache
    def bound(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise InternalError(f"{name} is recursive, so its stack has no upper bound")
        deepest = max((bound(callee, (*above, name)) for callee in calls[name] & frames.keys()), default=0)
        return frames[name] + deepest

    return max(map(bound, frames), default=0)


def _functions(elf: ELFFile, tasks: str) -> Mapping[str, tuple[int, set[str]]]:
    """Return, for each function, the size of its frame and the names of the functions that it calls."""
    symbols = symbols_of(elf)
    places = {
        str(s.name): (s.entry.st_shndx, s.entry.st_value, s.entry.st_size)
        for s in symbols
        if s.entry.st_info.type == "STT_FUNC" and s.entry.st_shndx != "SHN_UNDEF"
    }
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    found = {}
    for name, (section, begin, size) in places.items():
        code = elf.get_section(section).data()[begin : begin + size]
        instructions = [f"{mnemonic} {operands}" for _, _, mnemonic, operands in decoder.disasm_lite(code, 0)]
        called = {
            str(symbols[relocation["r_info_sym"]].name)
            for relocation in _relocations(elf, section)
            if relocation["r_info_type"] in _CALLS and begin <= relocation["r_offset"] < begin + size
        }
        if any(instruction.startswith(_BY_POINTER) for instruction in instructions):
            called |= {other for other in places if other.startswith(tasks) and other != name}
        found[name] = sum(_lowered_by(name, instruction) for instruction in instructions), called
    return found


def _lowered_by(name: str, instruction: str) -> int:
    if _OTHER.match(instruction):
        raise InternalError(
            f"{name}: the stack pointer changes by an amount that is known only at run time: {instruction}"
        )
    if instruction.startswith("sub ") and (found := _LOWERED.search(instruction)):
        return int(found["by"], 0) << int(found["shift"] or 0)
    found = _PUSHED.search(instruction)
    return int(found["by"], 0) if found else 0


def _relocations(elf: ELFFile, section: int) -> list[Relocation]:
    return [
        relocation
        for table in elf.iter_sections()
        if isinstance(table, RelocationSection) and table.header.sh_info == section
        for relocation in table.iter_relocations()
    ]
