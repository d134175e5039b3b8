# SPDX-License-Identifier: Apache-2.0
"""The Thumb decoder against LLVM's disassembler, and the ISA check of Cortex-M code."""

import random
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import tvm
from elftools.elf.elffile import ELFFile

from arm_ext.common.errors import InternalError
from arm_ext.target import thumb
from arm_ext.target.isa import check_isa
from arm_ext.target.profiles import MICROCONTROLLER_FEATURES, PROFILES, Profile, resolve
from arm_ext.target.toolchain import Driver

OBJDUMP = shutil.which("llvm-objdump-19")
needs_objdump = pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump-19 is not installed")

GENERIC = re.compile(r"(cdp2?|mcr2?|mrc2?|ldc2?l?|stc2?l?|mcrr2?|mrrc2?|v?cx\d\w*)\b")
"""Coprocessor instructions that LLVM shows for words which are no instruction of a known coprocessor."""
SYSTEM = re.compile(r"fpscr|fpcxt|vscclrm|vlstm|vlldm|\bp0\b|vpr|mvfr|fpinst|fpsid|fpexc")
"""System registers, which compilers do not touch and the table does not hold."""

# LLVM's features → what `thumb.provided` makes of ours.
LEVELS = {
    "+vfp4d16sp,-fp-armv8d16sp,-mve": {"vfp2sp"},
    "+fp-armv8d16sp,-mve": {"vfp2sp", "fp-armv8d16sp"},
    "+fp-armv8d16,+fp64,-mve": {"vfp2sp", "fp-armv8d16sp", "fp64"},
    "+fp-armv8d16sp,+fullfp16,-mve": {"vfp2sp", "fp-armv8d16sp", "fullfp16"},
    "+mve,-mve.fp,-fp-armv8d16sp": {"mve"},
    "+mve,+fp-armv8d16sp,-mve.fp": {"mve", "vfp2sp", "fp-armv8d16sp"},
    "+mve.fp": {"mve", "vfp2sp", "fp-armv8d16sp", "fullfp16", "mve.fp"},
    "+mve.fp,+fp-armv8d16,+fp64": {"mve", "vfp2sp", "fp-armv8d16sp", "fullfp16", "mve.fp", "fp64"},
}
SLOT = 16  # bytes from one tested word to the next; between them NOP ends blocks of IT and VPT


def words(seed: int, count: int) -> list[int]:
    generator = random.Random(seed)
    found = []
    for _ in range(count):
        word, kind = generator.getrandbits(32), generator.random()
        found.append((word & 0x11FFFFFF) | 0xEE000000 if kind < 0.5 else (word & 0x13FFFFFF) | 0xEC000000)
    return found


def decoded(folder: Path, features: str) -> dict[int, str]:
    """Slot → instruction, for the slots that LLVM decodes with some features."""
    command = [
        str(OBJDUMP),
        "-d",
        "--triple=thumbv8.1m.main-none-none-eabihf",
        f"--mattr={features}",
        "words.o",
    ]
    text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\s+[0-9a-f]{4} [0-9a-f]{4}\s+(\S.*)", line)
        if (
            match
            and int(match[1], 16) % SLOT == 0
            and "<unknown>" not in line
            and not GENERIC.match(match[2])
        ):
            found[int(match[1], 16) // SLOT] = match[2]
    return found


@needs_objdump
def test_coprocessor_space_is_llvms(tmp_path):
    tested = words(seed=7, count=20_000)
    body = "".join(f".inst.w {word:#010x}\n" + ".inst.n 0xbf00\n" * 6 for word in tested)
    (tmp_path / "words.s").write_text(f".syntax unified\n.thumb\n{body}")
    profile = resolve("cortex-m55", library=True)
    Driver.of(profile).run(["-c", "words.s", "-o", "words.o"], tmp_path)
    compared = 0
    for features, ours in LEVELS.items():
        allowed = thumb.provided(frozenset(ours)) | {thumb.THUMB2}
        theirs = decoded(tmp_path, features)
        everything = decoded(tmp_path, list(LEVELS)[-1])
        for slot, text in everything.items():
            needed = thumb.required_features(thumb.Instruction(0, tested[slot], 4, text))
            if SYSTEM.search(text):
                continue
            assert needed is not None, text
            assert (needed <= allowed) == (slot in theirs), (features, f"{tested[slot]:#x}", text, needed)
            compared += 1
    assert compared > 5_000  # pairs of an instruction and a set of features


ASSEMBLER = {
    "an M33 with MVE": ("cortex-m33", "vadd.i8 q0, q0, q1", "mve"),
    "an M4 with rounding of FPv5": ("cortex-m4", "vrintn.f32 s0, s1", "fp-armv8d16sp"),
    "an M0+ with division": ("cortex-m0plus", "udiv r0, r1, r2", "hwdiv"),
    "an M0+ with 32-bit arithmetic": ("cortex-m0plus", "add.w r8, r9, r10", "thumb2"),
    "an M0+ with a conditional block": ("cortex-m0plus", "it eq\n moveq r0, r1", "thumb2"),
    "an M3 with DSP": ("cortex-m3", "smlad r0, r1, r2, r3", "dsp"),
    "an M4 with doubles": ("cortex-m4", "vadd.f64 d0, d1, d2", "fp64"),
    "an M7 with loops of Armv8.1-M": ("cortex-m7", "dls lr, r0", "lob"),
}
ALL = ".cpu cortex-m55\n"


def assembled(folder: Path, code: str, core: str = "cortex-m55") -> Path:
    extensions = ALL if core == "cortex-m55" else ""
    begin = ".globl f\n.thumb_func\n.type f, %function\nf:\n"
    (folder / "f.s").write_text(f".syntax unified\n{extensions}.thumb\n{begin}{code}\nbx lr\n")
    Driver.of(resolve(core, library=True)).run(["-c", "f.s", "-o", "f.o"], folder)
    return folder / "f.o"


@pytest.mark.parametrize("case", ASSEMBLER)
def test_gate_names_function_and_feature(tmp_path, case):
    core, code, feature = ASSEMBLER[case]
    file = assembled(tmp_path, code)
    with pytest.raises(InternalError, match=rf" in f needs .*{feature}.*, which the target lacks"):
        check_isa(file, resolve(core, library=True).code_features)
    assert check_isa(file, resolve("cortex-m55", library=True).code_features) is not None


def test_literals_are_no_instructions(tmp_path):
    # 0xeb000000 would be a 32-bit instruction, which an Armv6-M does not have.
    file = assembled(tmp_path, "ldr r0, =0xeb00eb00\nldr r1, [r0]", "cortex-m0plus")
    assert check_isa(file, resolve("cortex-m0plus", library=True).code_features) is not None
    with file.open("rb") as opened:
        (_, section, parts), *_ = thumb.code_sections(ELFFile(opened))
        assert parts[-1][1] < section.header.sh_size


@pytest.mark.parametrize(
    "profile", [p for p in PROFILES.values() if p.core.is_microcontroller], ids=lambda p: p.name
)
def test_features_are_llvms(profile: Profile):
    target = tvm.target.Target({"kind": "llvm", "mtriple": profile.triple, "mcpu": profile.core.llvm_cpu})
    theirs = {str(name) for name in tvm.get_global_func("target.llvm_get_cpu_features")(target)}
    assert set(profile.features) == theirs & MICROCONTROLLER_FEATURES


def test_wide_instructions_are_found_by_their_first_half_word():
    data = struct.pack("<HHHH", 0xBF00, 0xEF00, 0x0840, 0x4770)
    sizes = [(each.address, each.size) for each in thumb.instructions(data, 0, len(data))]
    assert sizes == [(0, 2), (2, 4), (6, 2)]
