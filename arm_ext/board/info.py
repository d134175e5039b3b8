# SPDX-License-Identifier: Apache-2.0
"""Information that a board reports about itself: CPU features by LLVM's names, cores, versions."""

import re
from dataclasses import dataclass

# Bits of AT_HWCAP and AT_HWCAP2 (Linux, arch/arm64/include/uapi/asm/hwcap.h), with LLVM's names for the features
# that they indicate (llvm/lib/Target/AArch64/AArch64Features.td).
_HWCAP = {
    0: "fp-armv8",
    1: "neon",
    3: "aes",
    6: "sha2",
    7: "crc",
    8: "lse",
    10: "fullfp16",
    12: "rdm",
    13: "jsconv",
    14: "complxnum",
    15: "rcpc",
    16: "ccpp",
    17: "sha3",
    19: "sm4",
    20: "dotprod",
    22: "sve",
    23: "fp16fml",
    24: "dit",
    25: "lse2",
    26: "rcpc-immo",
    27: "flagm",
    28: "ssbs",
    29: "sb",
    30: "pauth",
}
_HWCAP2 = {
    0: "ccdp",
    1: "sve2",
    4: "sve-bitperm",
    7: "altnzcv",
    8: "fptoint",
    10: "f32mm",
    11: "f64mm",
    13: "i8mm",
    14: "bf16",
    16: "rand",
    17: "bti",
    18: "mte",
    23: "sme",
    34: "cssc",
    36: "sve2p1",
    37: "sme2",
    43: "mops",
}

_ARM, _APPLE = 0x41, 0x61

# (implementer, part number) of MIDR_EL1: each core's Technical Reference Manual; of Apple's cores Linux,
# arch/arm64/include/asm/cputype.h, which has those of M1 and M2.
PARTS = {
    (_ARM, 0xD03): "cortex-a53",
    (_ARM, 0xD05): "cortex-a55",
    (_ARM, 0xD07): "cortex-a57",
    (_ARM, 0xD08): "cortex-a72",
    (_ARM, 0xD09): "cortex-a73",
    (_ARM, 0xD0B): "cortex-a76",
    (_ARM, 0xD0C): "neoverse-n1",
    (_ARM, 0xD40): "neoverse-v1",
    (_ARM, 0xD41): "cortex-a78",
    (_ARM, 0xD44): "cortex-x1",
    (_ARM, 0xD46): "cortex-a510",
    (_ARM, 0xD47): "cortex-a710",
    (_ARM, 0xD48): "cortex-x2",
    (_ARM, 0xD49): "neoverse-n2",
    (_ARM, 0xD4D): "cortex-a715",
    (_ARM, 0xD4E): "cortex-x3",
    (_ARM, 0xD4F): "neoverse-v2",
    (_ARM, 0xD80): "cortex-a520",
    (_ARM, 0xD81): "cortex-a720",
    (_ARM, 0xD82): "cortex-x4",
    (_ARM, 0xD84): "neoverse-v3",
    (_ARM, 0xD85): "cortex-x925",
    (_ARM, 0xD87): "cortex-a725",
    (_ARM, 0xD8A): "c1-nano",
    (_ARM, 0xD8B): "c1-pro",
    (_ARM, 0xD8C): "c1-ultra",
    (_ARM, 0xD8E): "neoverse-n3",
    (_ARM, 0xD90): "c1-premium",
    (_APPLE, 0x023): "apple-m1",
    (_APPLE, 0x025): "apple-m1",
    (_APPLE, 0x029): "apple-m1",
    (_APPLE, 0x033): "apple-m2",
    (_APPLE, 0x035): "apple-m2",
    (_APPLE, 0x039): "apple-m2",
}

_PRESENT = re.compile(r'"([^"]+)": T\.bool\(True\)')
"""Matches the name of each feature that an x86 board has, in the text of TVM's map from features to booleans."""


@dataclass(frozen=True)
class BoardInfo:
    """A board's answer to the probe.

    Attributes:
        features: LLVM feature names that its CPU has and its kernel lets programs use.
        cores: Cores that are online; those of the host for an emulated board.
        machine: Architecture as `uname -m` gives it, such as "aarch64".
        cpu: The core's name, such as "cortex-a76", or what identifies it.
        tvm_version: TVM version of the runtime there, such as "0.27.0.post1"; "unknown" if it is no installed wheel.
        ffi_version: Version of libtvm_ffi there, likewise.
        emulated: Whether QEMU's user mode runs it, so that times taken there mean nothing. A whole emulated machine,
            with a kernel of its own, cannot be told from a real one.
    """

    features: frozenset[str]
    cores: int
    machine: str
    cpu: str
    tvm_version: str
    ffi_version: str
    emulated: bool = False


def read_probe(text: str, x86_cpu: str = "", x86_flags: str = "") -> BoardInfo:
    """Read the lines "name value" that native/probe.c returns.

    Args:
        text: Output of the probe.
        x86_cpu: LLVM's name of an x86 board's CPU; "" elsewhere. LLVM names a CPU that it does not know after the
            nearest that it does, so that the name does not tell the features.
        x86_flags: The features that LLVM knows of x86, and whether the board has each, as `"avx": T.bool(True), …`.
    """
    values = dict(line.split(" ", maxsplit=1) for line in text.splitlines())
    machine = values["machine"]
    if machine == "aarch64":
        features = _bits(int(values["hwcap"]), _HWCAP) | _bits(int(values["hwcap2"]), _HWCAP2)
        cpu = core_name(int(values["midr"]))
    else:
        features = frozenset(_PRESENT.findall(x86_flags))
        cpu = x86_cpu or values["cpu"] or "unknown"
    cores, emulated = int(values["cores"]), values["emulated"] == "1"
    return BoardInfo(features, cores, machine, cpu, values["tvm"], values["ffi"], emulated)


def _bits(word: int, names: dict[int, str]) -> frozenset[str]:
    return frozenset(name for bit, name in names.items() if word >> bit & 1)


def core_name(midr: int) -> str:
    """Return a core's name by its register MIDR_EL1, or the register's value."""
    # MIDR_EL1: implementer in bits 31:24, part number in bits 15:4 (Arm ARM, D17.2.100).
    return PARTS.get((midr >> 24 & 0xFF, midr >> 4 & 0xFFF), f"MIDR {midr:#x}")
