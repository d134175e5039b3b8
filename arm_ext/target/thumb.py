# SPDX-License-Identifier: Apache-2.0
"""Decoding of Thumb code of Cortex-M: instructions with the features that they need.

The first half-word says whether an instruction has 16 or 32 bits. capstone decodes all but the coprocessor space, in
which it knows no MVE and loses step. The table `_ROWS` has that space, and what Armv8.1-M adds outside of that space.
Source: Arm Armv8-M ARM DDI 0553, Armv7-M ARM DDI 0403, Armv6-M ARM DDI 0419.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import capstone
import numpy as np
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

_NOTHING: frozenset[str] = frozenset()


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Of Armv6-M: the 32-bit instructions, and the 16-bit ones that it lacks.
_WIDE_OF_V6M = _names("bl msr mrs dmb dsb isb")
_NARROW_OF_V7M = _names("cbz cbnz it")
THUMB2 = "thumb2"
"""Name in the ISA check for what Armv7-M has beyond Armv6-M; all profiles but cortex-m0plus have it."""

_DSP = _names(
    """
    pkhbt pkhtb qadd qadd16 qadd8 qasx qdadd qdsub qsax qsub qsub16 qsub8 sadd16 sadd8 sasx sel shadd16 shadd8
    shasx shsax shsub16 shsub8 smlabb smlabt smlatb smlatt smlad smladx smlalbb smlalbt smlaltb smlaltt smlald
    smlaldx smlawb smlawt smlsd smlsdx smlsld smlsldx smmla smmlar smmls smmlsr smmul smmulr smuad smuadx
    smulbb smulbt smultb smultt smulwb smulwt smusd smusdx ssat16 ssax ssub16 ssub8 sxtab sxtab16 sxtah sxtb16
    uadd16 uadd8 uasx uhadd16 uhadd8 uhasx uhsax uhsub16 uhsub8 umaal uqadd16 uqadd8 uqasx uqsax uqsub16
    uqsub8 usad8 usada8 usat16 usax usub16 usub8 uxtab uxtab16 uxtah uxtb16
    """
)
_DIVISION = _names("sdiv udiv")
_BASE = _names(
    """
    adc adcs add adds addw adr and ands asr asrs b bfc bfi bic bics bkpt bl blx bx cbnz cbz clrex clz cmn cmp cps cpsid
    cpsie dmb dsb eor eors hint isb it ldm ldmdb ldmia ldr ldrb ldrbt ldrd ldrex ldrexb ldrexh ldrh ldrht ldrsb ldrsbt
    ldrsh ldrsht ldrt lsl lsls lsr lsrs mla mls mov movs movt movw mrs msr mul muls mvn mvns neg negs nop orn orns orr
    orrs pld pli pop push rbit rev rev16 revsh ror rors rrx rsb rsbs sbc sbcs sbfx sev smlal smull ssat stm stmdb stmia
    str strb strbt strd strex strexb strexh strh strht strt sub subs subw sxtb sxth tbb tbh teq tst udf ubfx umlal umull
    usat uxtb uxth wfe wfi yield
    """
)
_CONDITIONS = "eq|ne|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|cs|cc|al"
_CONDITION = re.compile(rf"({_CONDITIONS})$")
_IT_BLOCK = re.compile(r"it[te]{0,3}$")


FPU, FPV5, DOUBLE, HALF, MVE, MVE_FP, LOB = (
    "vfp2sp",
    "fp-armv8d16sp",
    "fp64",
    "fullfp16",
    "mve",
    "mve.fp",
    "lob",
)
FLOAT_REGISTERS, WORDS_OF_16, WORDS_OF_64 = "fpregs", "fpregs16", "fpregs64"
"""LLVM's names for the float registers, which an FPU or MVE has, and for moves of 16 and 64 bits to and from them."""

# (mask, value, feature): the first row decides for which (hw1 << 16 | hw2) & mask == value. The coprocessor space, then
# what Armv8.1-M adds to that of branches and shifts. EF and FF, and coprocessors 8 and 12 to 15, are those of MVE.
_ROWS = (
    (0xFFB11F51, 0xFE310F01, MVE),  # VPSEL
    (0xFFBF1FFF, 0xFE310F4D, MVE),  # VPNOT, VPST
    (0xEFB01F70, 0xEE301E60, MVE),  # shifts by a general register
    (0xEFBF0F51, 0xEE3F0E01, MVE_FP),  # VCVTB, VCVTT
    (0xEFB10F50, 0xEE310F00, MVE_FP),  # VCMP, VPT of floats
    (0xEFB10F50, 0xEE310F40, MVE_FP),  # the same with a general register
    (0xEFFD0F50, 0xEEEC0F00, MVE_FP),  # VMAXNMV, VMINNMV and their absolute forms
    (0xEFB00F70, 0xEE300F60, MVE),  # VQDMULLB, VQDMULLT with a general register
    (0xEFB00E50, 0xEE300E40, MVE_FP),  # VADD, VSUB, VMUL, VFMA, VFMAS with a general register
    (0xEFB10F50, 0xEE300E00, MVE_FP),  # VCMUL
    (0xEFA00CD0, 0xEFA00C50, MVE_FP),  # VCVT of fixed point
    (0xEF810F51, 0xEF000D40, MVE_FP),  # VADD, VSUB, VABD
    (0xFF810F51, 0xFF000D50, MVE_FP),  # VMUL
    (0xFF810F51, 0xEF000C50, MVE_FP),  # VFMA, VFMS
    (0xFF810F51, 0xFF000F50, MVE_FP),  # VMAXNM, VMINNM
    (0xFFB30E50, 0xFFB30640, MVE_FP),  # VCVT of integers
    (0xFFB30C50, 0xFFB30040, MVE_FP),  # VCVTA, VCVTN, VCVTP, VCVTM
    (0xFFB30C50, 0xFFB20440, MVE_FP),  # VRINT
    (0xFFB30F50, 0xFFB10740, MVE_FP),  # VABS, VNEG
    (0xFE200F50, 0xFC200840, MVE_FP),  # VCMLA
    (0xFEA00F50, 0xFC800840, MVE_FP),  # VCADD
    (0xEF000000, 0xEF000000, MVE),
    *((0xEC000F00, 0xEC000000 | coprocessor << 8, MVE) for coprocessor in (8, 12, 13, 14, 15)),
    (0xFFC00F70, 0xEE000B10, FLOAT_REGISTERS),  # VMOV between a general register and half of a double one
    (0xFF000F10, 0xEE000B10, MVE),  # VMOV of lanes of 8 and 16 bits, VDUP
    (0xFFEE0F10, 0xEEEC0A10, MVE),  # VMSR VPR, P0
    (0xFFEE0F10, 0xEEFC0A10, MVE),  # VMRS VPR, P0
    (0xFF000F10, 0xEE000A10, FLOAT_REGISTERS),  # VMOV between a general and a single register, VMRS, VMSR
    (0xFF000F10, 0xEE000910, WORDS_OF_16),
    (0xFFBF0FD0, 0xEEB00A40, FLOAT_REGISTERS),  # VMOV between registers
    (0xFFBF0FD0, 0xEEB00B40, WORDS_OF_64),
    (0xFFBF0F50, 0xEEB60A40, FPV5),  # VRINTR, VRINTZ
    (0xFFBF0FD0, 0xEEB70A40, FPV5),  # VRINTX
    (0xFFBF0FD0, 0xEEB70AC0, DOUBLE),  # VCVT of a single to a double
    (0xFF000F00, 0xEE000900, HALF),
    (0xFF000F00, 0xEE000A00, FPU),
    (0xFF000F00, 0xEE000B00, DOUBLE),
    (0xFFBF0F50, 0xFEB00A40, HALF),  # VMOVX, VINS
    (0xFF000F00, 0xFE000900, HALF),
    (
        0xFF000F00,
        0xFE000A00,
        FPV5,
    ),  # VSEL, VMAXNM, VMINNM, VCVTA, VCVTN, VCVTP, VCVTM, VRINTA, VRINTN, VRINTP, VRINTM
    (0xFF000F00, 0xFE000B00, DOUBLE),
    (0xFE000F00, 0xEC000900, WORDS_OF_16),  # loads and stores
    (0xFE000F00, 0xEC000A00, FLOAT_REGISTERS),
    (0xFE000F00, 0xEC000B00, FLOAT_REGISTERS),
    (0xFFFFFFFF, 0xF00FE001, MVE),  # LCTP
    (0xFFFFF001, 0xF01FC001, MVE),  # LETP
    (0xFFDFF001, 0xF00FC001, LOB),  # LE
    (0xFFC0F001, 0xF000C001, MVE),  # WLSTP
    (0xFFC0FFFF, 0xF000E001, MVE),  # DLSTP
    (0xFFF0F001, 0xF040C001, LOB),  # WLS
    (0xFFF0FFFF, 0xF040E001, LOB),  # DLS
    (0xFFF0C000, 0xEA508000, LOB),  # CSEL, CSINC, CSINV, CSNEG
    (0xFFF0800D, 0xEA50000D, MVE),  # ASRL, LSLL, LSRL, SQRSHR and the like
)
_WIDE = 0b11101  # the first half-words from 0b11101 << 11 on begin an instruction of 32 bits


@dataclass(frozen=True)
class Instruction:
    """A decoded Thumb instruction.

    Attributes:
        address: Offset of the instruction in the section.
        code: The half-words of the instruction; of two, the first is in the upper 16 bits.
        size: Size of the instruction in bytes.
        text: Mnemonic and operands as capstone has them; a number where capstone cannot be asked.
    """

    address: int
    code: int
    size: int
    text: str


def provided(features: frozenset[str]) -> frozenset[str]:
    """Return the features of a Cortex-M with those that the decoder distinguishes beyond `profiles`."""
    more = set(features)
    if {FPU, MVE} & more:
        more.add(FLOAT_REGISTERS)
    if {HALF, MVE} & more:
        more.add(WORDS_OF_16)
    if {DOUBLE, MVE} & more:
        more.add(WORDS_OF_64)
    return frozenset(more)


def required_features(instruction: Instruction) -> frozenset[str] | None:
    """Return the features that an instruction needs beyond Armv6-M; None for an unknown instruction."""
    if instruction.size == 4 and (found := _feature(instruction.code)):
        return frozenset({found, THUMB2})
    name = re.split(r"[ .]", instruction.text, maxsplit=1)[0]
    if instruction.size == 2 and _IT_BLOCK.match(name):
        name = "it"
    elif name not in _KNOWN:
        name = _CONDITION.sub("", name)
    if name in _DSP:
        # SXTAB and the like are of the DSP extension, SXTB is not.
        return frozenset({"dsp", THUMB2})
    if name in _DIVISION:
        return frozenset({"hwdiv", THUMB2})
    if name not in _BASE:
        return None
    narrow = instruction.size == 2
    of_v6m = name not in _NARROW_OF_V7M if narrow else name in _WIDE_OF_V6M
    return _NOTHING if of_v6m else frozenset({THUMB2})


_KNOWN = _DSP | _DIVISION | _BASE


@cache
def _feature(code: int) -> str | None:
    return next((feature for mask, value, feature in _ROWS if code & mask == value), None)


def code_sections(elf: ELFFile) -> Iterator[tuple[int, Section, list[tuple[int, int]]]]:
    """Yield the number of each executable section, the section, and begin and end of its parts that are code.

    Literals lie between these.
    """
    marks: dict[int, list[tuple[int, bool]]] = {}
    table = elf.get_section_by_name(".symtab")
    for symbol in table.iter_symbols() if isinstance(table, SymbolTableSection) else ():
        if str(symbol.name).partition(".")[0] in {"$t", "$d"}:
            where = symbol.entry.st_value, symbol.name.startswith("$t")
            marks.setdefault(symbol.entry.st_shndx, []).append(where)
    for index, section in enumerate(elf.iter_sections()):
        if not section.header.sh_flags & SH_FLAGS.SHF_EXECINSTR or not section.header.sh_size:
            continue
        base = section.header.sh_addr if elf.header.e_type != "ET_REL" else 0
        ordered = sorted((at - base, is_code) for at, is_code in marks.get(index, [(base, True)]))
        ends = [*(at for at, _ in ordered[1:]), section.header.sh_size]
        parts = [(at, end) for (at, is_code), end in zip(ordered, ends, strict=True) if is_code and at < end]
        yield index, section, parts


def instructions(data: bytes, begin: int, end: int) -> Iterator[Instruction]:
    """Decode the instructions of a part of a section.

    Args:
        data: The section.
        begin: Offset of the part.
        end: Offset behind it.
    """
    halves = np.frombuffer(data, "<u2", (end - begin) // 2, begin)
    at = 0
    while at < len(halves):
        first = int(halves[at])
        if first >> 11 < _WIDE or at + 1 == len(halves):
            yield Instruction(begin + 2 * at, first, 2, _text(first, 2))
            at += 1
        else:
            code = first << 16 | int(halves[at + 1])
            yield Instruction(begin + 2 * at, code, 4, _text(code, 4))
            at += 2


@cache
def _text(code: int, size: int) -> str:
    """Return an instruction as capstone has it, for address 0."""
    raw = (
        code.to_bytes(2, "little")
        if size == 2
        else (code >> 16).to_bytes(2, "little") + (code & 0xFFFF).to_bytes(2, "little")
    )
    found = next(_decoder().disasm_lite(raw, 0), None)
    if found is None or found[1] != size:
        return f"{code:#x}"
    return f"{found[2]} {found[3]}".strip()


@cache
def _decoder() -> capstone.Cs:
    return capstone.Cs(
        capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8
    )
