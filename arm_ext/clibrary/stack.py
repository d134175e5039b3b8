# SPDX-License-Identifier: Apache-2.0
"""An upper bound on the stack of A64 and Thumb functions, from their changes of the stack pointer and their calls.

A function's own frame is the sum of all that it subtracts from the stack pointer: it does so once, when it begins. The
bound of a function is its frame and the greatest bound of those that it calls.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import capstone
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import Relocation, RelocationSection

from arm_ext.clibrary.objects import symbols_of
from arm_ext.common.errors import InternalError
from arm_ext.target import thumb

_LOWERED = re.compile(r"sp, sp, #(?P<by>0x[0-9a-f]+|\d+)(, lsl #(?P<shift>\d+))?$")
_PUSHED = re.compile(r"\[sp, #-(?P<by>0x[0-9a-f]+|\d+)\]!$")
# Changes of the stack pointer that the bound cannot include: by a register, or by alignment.
_OTHER = re.compile(r"^(sub|and|mov) sp, (?!sp, #)")
# Relocation types of the ELF for the Arm 64-bit Architecture: R_AARCH64_CALL26 and R_AARCH64_JUMP26.
_CALLS = (283, 282)
# Of the ELF for the Arm Architecture: R_ARM_THM_CALL, R_ARM_THM_JUMP24, R_ARM_THM_JUMP19 and R_ARM_THM_JUMP11.
_THUMB_CALLS = (10, 30, 51, 102)
_THUMB_BRANCH = re.compile(r"(bl?[a-z]{0,2}(?:\.w)?) #(-?0x[0-9a-f]+|-?\d+)$")
_THUMB_CONSTANT = re.compile(r"ldr(?:\.w)? (\w+), \[pc, #(0x[0-9a-f]+|\d+)\]$")
_THUMB_PUSH = re.compile(
    r"(?:push(?:\.w)?|vpush|stmdb(?:\.w)? sp!,|vstmdb(?:\.\d+)? sp!,) ?\{(?P<registers>.*)\}$"
)
_THUMB_LOWERED = re.compile(
    r"(?:sub(?:\.w|w)? sp, (?:sp, )?#(?P<by>\S+)|strd?(?:\.w)? .*\[sp, #-(?P<to>\S+)\]!)$"
)
_FRAME_POINTER = "r7"
_THUMB_ALIGNMENT = 8  # bytes; the AAPCS32 keeps the stack pointer a multiple of these


def stack_bound(*objects: bytes, tasks: str = "task_") -> int:
    """Return the maximum stack size in bytes of a call of any function in objects, without undefined functions.

    Args:
        objects: Relocatable objects of A64 or Thumb code, which call each other's functions.
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
    machine = _MACHINES[elf.header.e_machine]
    places = {
        str(s.name): (s.entry.st_shndx, s.entry.st_value & ~machine.mode_bit, s.entry.st_size)
        for s in symbols
        if s.entry.st_info.type == "STT_FUNC" and s.entry.st_shndx != "SHN_UNDEF"
    }
    starts = {(section, begin): name for name, (section, begin, _) in places.items()}
    found = {}
    for name, (section, begin, size) in places.items():
        instructions = machine.decode(elf, section, begin, begin + size)
        calls = {
            relocation["r_offset"]: str(symbols[relocation["r_info_sym"]].name)
            for relocation in _relocations(elf, section)
            if relocation["r_info_type"] in machine.calls and begin <= relocation["r_offset"] < begin + size
        }
        called = set(calls.values())
        for at, instruction in instructions:
            # A call without relocation, in the section of the function that it calls.
            branch = machine.direct.match(instruction) if at not in calls else None
            if branch and (callee := starts.get((section, int(branch[1], 0)))) and callee != name:
                called.add(callee)
        texts = [instruction for _, instruction in instructions]
        if any(machine.by_pointer.match(text) for text in texts):
            called |= {other for other in places if other.startswith(tasks) and other != name}
        found[name] = machine.frame(name, texts), called
    return found


def _a64_code(elf: ELFFile, section: int, begin: int, end: int) -> list[tuple[int, str]]:
    """Return offset and text of each instruction."""
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    code = elf.get_section(section).data()[begin:end]
    decoded = decoder.disasm_lite(code, begin)
    return [(address, f"{mnemonic} {operands}") for address, _, mnemonic, operands in decoded]


def _a64_frame(name: str, instructions: Sequence[str]) -> int:
    return sum(_lowered_by(name, instruction) for instruction in instructions)


def _lowered_by(name: str, instruction: str) -> int:
    if _OTHER.match(instruction):
        raise _unknown(name, instruction)
    if instruction.startswith("sub ") and (found := _LOWERED.search(instruction)):
        return int(found["by"], 0) << int(found["shift"] or 0)
    found = _PUSHED.search(instruction)
    return int(found["by"], 0) if found else 0


def _unknown(name: str, instruction: str) -> InternalError:
    return InternalError(
        f"{name}: the stack pointer changes by an amount that is known only at run time: {instruction}"
    )


def _thumb_code(elf: ELFFile, section: int, begin: int, end: int) -> list[tuple[int, str]]:
    """Return offset and text of each instruction.

    Direct branches have the offsets that they go to, and loads of constants behind the code the constants.
    """
    found = []
    for number, code, parts in thumb.code_sections(elf):
        inside = [(max(first, begin), min(last, end)) for first, last in parts] if number == section else []
        for first, last in inside:
            for each in thumb.instructions(code.data(), first, last) if first < last else ():
                text = each.text
                if (branch := _THUMB_BRANCH.match(text)) is not None:
                    text = f"{branch[1]} #{each.address + int(branch[2], 0):#x}"
                if (constant := _THUMB_CONSTANT.match(text)) is not None:
                    at = (each.address + 4) // 4 * 4 + int(constant[2], 0)
                    value = int.from_bytes(code.data()[at : at + 4], "little", signed=True)
                    text = f"ldr {constant[1]}, ={value}"
                found.append((each.address, text))
    return found


def _thumb_frame(name: str, instructions: Sequence[str]) -> int:
    """Return what a function subtracts from the stack pointer, with the most that it loses to alignment."""
    frame = 0
    aligned: dict[str, int] = {}  # register → multiple of bytes that it was rounded down to
    of_frame = {_FRAME_POINTER}  # registers that hold the frame pointer and a constant
    constants: dict[str, int] = {}  # register → constant that was loaded to it
    for text in instructions:
        mnemonic, _, operands = text.partition(" ")
        mnemonic = mnemonic.partition(".")[0]
        first, _, rest = operands.partition(", ")
        if found := _THUMB_PUSH.match(text):
            size = 8 if mnemonic == "vpush" and "{d" in text else 4
            frame += size * len(found["registers"].split(","))
        elif found := _THUMB_LOWERED.match(text):
            frame += int(found["by"] or found["to"], 0)
        elif mnemonic == "bfc" or (mnemonic == "lsls" and rest.partition(", ")[0] == first):
            aligned[first] = 1 << int(rest.rpartition("#")[2], 0)
        elif mnemonic == "mov" and first == "sp":
            # The end of a function takes its stack pointer from the frame pointer; its beginning aligns it.
            if rest in aligned:
                frame += aligned.pop(rest) - _THUMB_ALIGNMENT
            elif rest not in of_frame:
                raise _unknown(name, text)
        elif first == "sp" and mnemonic == "add" and rest in constants:
            frame += max(0, -constants[rest])
        elif first == "sp" and mnemonic in {"add", "sub", "subw", "addw"} and "#" not in rest:
            raise _unknown(name, text)
        if mnemonic == "ldr" and rest.startswith("="):
            constants[first] = int(rest[1:])
        elif not mnemonic.startswith(("str", "cmp", "tst")):
            constants.pop(first, None)
        operand, _, _ = rest.partition(", ")
        if mnemonic in {"mov", "add", "adds", "sub", "subs", "subw"} and operand in of_frame:
            of_frame.add(first)
        elif not operand.startswith("#") and first != _FRAME_POINTER:
            of_frame.discard(first)
    return frame


@dataclass(frozen=True)
class _Machine:
    """What the bound needs to know of an architecture.

    Attributes:
        decode: Returns offset and text of each instruction of a function.
        frame: Returns the size of a function's frame.
        by_pointer: Calls and jumps to what a register holds.
        direct: Calls and jumps to an offset of the section.
        calls: Types of relocations of calls.
        mode_bit: Bit of a function's address that says how its code is encoded.
    """

    decode: Callable[[ELFFile, int, int, int], list[tuple[int, str]]]
    frame: Callable[[str, Sequence[str]], int]
    by_pointer: re.Pattern[str]
    direct: re.Pattern[str]
    calls: tuple[int, ...]
    mode_bit: int = 0


_MACHINES = {
    "EM_AARCH64": _Machine(
        _a64_code, _a64_frame, re.compile(r"blr |br "), re.compile(r"bl? #(0x[0-9a-f]+)$"), _CALLS
    ),
    "EM_ARM": _Machine(
        _thumb_code,
        _thumb_frame,
        re.compile(r"blx r|bx (?!lr)"),
        re.compile(r"bl?\S* #(0x[0-9a-f]+)$"),
        _THUMB_CALLS,
        mode_bit=1,
    ),
}


def _relocations(elf: ELFFile, section: int) -> list[Relocation]:
    return [
        relocation
        for table in elf.iter_sections()
        if isinstance(table, RelocationSection) and table.header.sh_info == section
        for relocation in table.iter_relocations()
    ]
