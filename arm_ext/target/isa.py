# SPDX-License-Identifier: Apache-2.0
"""The ISA check: generated code uses no instruction beyond the target's features.

Every word of every executable section is decoded. A mnemonic that the tables in mnemonics.py do not hold is refused, as
is a word that does not decode: LLVM puts constants of aarch64 code into .rodata, so code sections hold code alone.
"""

import io
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import capstone
import numpy as np
import numpy.typing as npt
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from arm_ext.common.errors import InternalError
from arm_ext.target import thumb
from arm_ext.target.mnemonics import BASE, FEATURES, HALF, SME, SVE, SVE2, SVE_WITH
from schedules.intrinsics import sme

_SCALABLE = re.compile(r"\b[zp]\d")  # a register of SVE
_ARRAY = re.compile(r"\bza")  # the array of SME
_HALF = re.compile(r"\bh\d|\.[248]?h\b")  # half precision, for mnemonics in HALF only
_QUAD = re.compile(r"\.q\b")
_SYSTEM_REGISTER = re.compile(r"\b(fpcr|fpsr|nzcv|tpidr_el0)\b")  # system registers accessible on Armv8.0-A
_SME_REGISTER = re.compile(r"\btpidr2_el0\b")

# Operands by which SVE2 forms differ from SVE forms of the same mnemonic: unpredicated multiply, indexed
# multiply-add, predicated saturating add, two-register permutes, and gathers that bypass the cache.
_SVE2_OPERANDS = {
    **dict.fromkeys(("mul", "smulh", "umulh"), re.compile(r"z\S+, z\S+, z")),
    **dict.fromkeys(("mla", "mls"), re.compile(r"[^/]+$")),
    **dict.fromkeys(("sqadd", "sqsub", "uqadd", "uqsub"), re.compile(r".*/m")),
    **dict.fromkeys(("ext", "splice"), re.compile(r".*\{")),
    "tbl": re.compile(r".*\{z\S+, z"),
    **{f"{op}nt1{size}": re.compile(r".*\[z") for op in ("ld", "st") for size in "bhwd"},
}
# SVE instructions that need f64mm or sve2-aes for 128-bit elements, and sme-f64f64 or sme-i16i64 for 64-bit tiles;
# no profile can have these features.
_NO_QUAD = frozenset({"trn1", "trn2", "uzp1", "uzp2", "zip1", "zip2", "pmullb", "pmullt"})
_NO_DOUBLE_TILE = re.compile(r"za\d\.d")
_TILE_SUMS = frozenset(m for m in SME if m.endswith(("mopa", "mops", "addha", "addva")))

_WORD = 4  # bytes of an instruction
_OF_STREAMING = frozenset({"sve", "sve2"})  # what SME provides in streaming mode
_NOTHING: frozenset[str] = frozenset()
_FP16 = frozenset({"fullfp16"})
_OF_FEATURE = {mnemonic: frozenset({f}) for f, mnemonics in FEATURES.items() for mnemonic in mnemonics}
_SVE_WITH = {mnemonic: frozenset({"sve", f}) for f, mnemonics in SVE_WITH.items() for mnemonic in mnemonics}


@dataclass(frozen=True)
class IsaReport:
    """The instructions of a library by the features that they need.

    Attributes:
        features_used: LLVM feature names beyond Armv8.0-A with NEON.
        instructions: Number of instructions decoded.
    """

    features_used: frozenset[str]
    instructions: int


def check_isa(so: Path, features: Iterable[str]) -> IsaReport | None:
    """Check that a library's instructions are covered by the CPU's features.

    Args:
        so: A shared library or executable.
        features: LLVM feature names that the CPU has beyond Armv8.0-A with NEON, or, of a Cortex-M, beyond the base of
            its architecture, and "thumb2" unless that is Armv6-M.

    Returns:
        What the code uses; None for x86-64, which is not checked.

    Raises:
        InternalError: An instruction needs a feature that is not among them, or is not known. The message names
            function and instruction.
    """
    with so.open("rb") as file:
        return _checked(so.name, ELFFile(file), frozenset(features))


def check_object(data: bytes, name: str, features: Iterable[str]) -> IsaReport | None:
    """Check the instructions of an object file in the way that `check_isa` checks a library.

    Args:
        data: Bytes of the object file.
        name: Name of the object file in error messages.
        features: As for `check_isa`; without SME.
    """
    return _checked(name, ELFFile(io.BytesIO(data)), frozenset(features))


def _checked(name: str, elf: ELFFile, allowed: frozenset[str]) -> IsaReport | None:
    if elf.header.e_machine == "EM_ARM":
        return _check_thumb(name, elf, allowed)
    if elf.header.e_machine != "EM_AARCH64":
        return None
    used: set[str] = set()
    instructions = 0
    for start, words, provided in _code(elf, allowed):
        instructions += len(words)
        for address, mnemonic, operands in _decode(start, words):
            needed = required_features(mnemonic, operands)
            if needed is None or not needed <= provided:
                text = f"{mnemonic} {operands}".strip()
                raise InternalError(_refusal(name, elf, address, text, needed, allowed))
            used |= needed & allowed
    return IsaReport(frozenset(used), instructions)


def _check_thumb(name: str, elf: ELFFile, features: frozenset[str]) -> IsaReport:
    allowed, used, count = thumb.provided(features), set[str](), 0
    for _, section, parts in thumb.code_sections(elf):
        data = section.data()
        for begin, end in parts:
            for each in thumb.instructions(data, begin, end):
                needed = thumb.required_features(each)
                if needed is None or not needed <= allowed:
                    at = each.address + (section.header.sh_addr if elf.header.e_type != "ET_REL" else 0)
                    raise InternalError(_refusal(name, elf, at, each.text, needed, allowed))
                used |= needed
                count += 1
    return IsaReport(frozenset(used), count)


def required_features(mnemonic: str, operands: str) -> frozenset[str] | None:
    """Return the features that an instruction needs beyond Armv8.0-A with NEON; None for an unknown instruction.

    Args:
        mnemonic: Mnemonic in capstone's spelling.
        operands: Operands in capstone's spelling.
    """
    if mnemonic in SME or _ARRAY.search(operands):
        return _sme(mnemonic, operands)
    if _SCALABLE.search(operands):
        return _sve(mnemonic, operands)
    if mnemonic in {"mrs", "msr"} and _SME_REGISTER.search(operands):
        return frozenset({"sme"})
    if mnemonic in {"mrs", "msr"} and not _SYSTEM_REGISTER.search(operands):
        return None
    if mnemonic in {"pmull", "pmull2"} and ".1q" in operands:
        return frozenset({"aes"})
    needed = _NOTHING if mnemonic in BASE else _OF_FEATURE.get(mnemonic)
    if needed is None:
        return _sve(mnemonic, operands)
    return needed | _FP16 if mnemonic in HALF and _HALF.search(operands) else needed


def _sve(mnemonic: str, operands: str) -> frozenset[str] | None:
    if mnemonic in _NO_QUAD and _QUAD.search(operands):
        return None
    if mnemonic in _SVE_WITH:
        return _SVE_WITH[mnemonic]
    sve2_form = _SVE2_OPERANDS.get(mnemonic)
    if sve2_form and sve2_form.match(operands):
        return frozenset({"sve2"})
    if mnemonic in SVE:
        return frozenset({"sve"})
    return frozenset({"sve2"}) if mnemonic in SVE2 else None


def _sme(mnemonic: str, operands: str) -> frozenset[str] | None:
    if mnemonic in _TILE_SUMS and _NO_DOUBLE_TILE.match(operands):
        return None
    return frozenset({"sme"}) if mnemonic in SME or mnemonic in SVE else None


def _decode(start: int, words: npt.NDArray[np.uint32]) -> Iterator[tuple[int, str, str]]:
    """Yield address, mnemonic (".byte" if none) and operands of instructions.

    Repetitions of an instruction, two of three instructions, are left out.
    """
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    decoder.skipdata = True
    first = np.sort(np.unique(words, return_index=True)[1])
    # Operands relative to the address are decoded wrongly, but no feature depends on them.
    decoded = decoder.disasm_lite(words[first].tobytes(), start)
    for index, (_, _, mnemonic, operands) in zip(first, decoded, strict=True):
        yield start + _WORD * int(index), mnemonic, operands


def _code(
    elf: ELFFile, features: frozenset[str]
) -> Iterator[tuple[int, npt.NDArray[np.uint32], frozenset[str]]]:
    """Yield address and instructions of each part of an executable section, and the features that it may use.

    The functions that run in streaming mode are parts of their own: SME provides SVE there.
    """
    streaming = _streaming(elf) if "sme" in features else []
    for section in elf.iter_sections():
        if not section.header.sh_flags & SH_FLAGS.SHF_EXECINSTR:
            continue
        data, start = section.data(), section.header.sh_addr
        words = np.frombuffer(data + bytes(-len(data) % _WORD), "<u4")
        at = 0
        for begin, end in streaming:
            first, last = (begin - start) // _WORD, (end - start) // _WORD
            if 0 <= first < last <= len(words):
                yield start + _WORD * at, words[at:first], features
                yield begin, words[first:last], features | _OF_STREAMING
                at = last
        yield start + _WORD * at, words[at:], features


def _streaming(elf: ELFFile) -> list[tuple[int, int]]:
    """Return first address and end of each function that runs in streaming mode, in ascending order of addresses."""
    # Symbols of one address are those of one function.
    return sorted(
        {
            (start, start + size)
            for start, size, name in _functions(elf)
            if size and name.startswith(sme.PREFIX)
        }
    )


def _functions(elf: ELFFile) -> list[tuple[int, int, str]]:
    """Return (address, bytes, name) of each symbol of a function."""
    table = elf.get_section_by_name(".symtab")
    symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
    bit = elf.header.e_machine == "EM_ARM"  # set in the address of a function of Thumb code
    return [
        (s.entry.st_value - bit, s.entry.st_size, str(s.name))
        for s in symbols
        if s.entry.st_info.type == "STT_FUNC"
    ]


def _refusal(
    name: str,
    elf: ELFFile,
    address: int,
    instruction: str,
    needed: frozenset[str] | None,
    allowed: frozenset[str],
) -> str:
    where = f"{name}: `{instruction}` at {address:#x} in {_function_at(elf, address)}"
    if needed is None:
        return f"{where} is not in the table of known instructions; this is a defect of the compiler"
    missing = ", ".join(sorted(needed - allowed))
    return f"{where} needs {missing}, which the target lacks; this is a defect of the compiler"


def _function_at(elf: ELFFile, address: int) -> str:
    """Return the name of the last function symbol at or before an address."""
    functions = sorted((start, name) for start, _, name in _functions(elf))
    index = bisect_right(functions, address, key=lambda f: f[0])
    return functions[index - 1][1] if index else "no function"
