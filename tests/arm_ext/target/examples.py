# SPDX-License-Identifier: Apache-2.0
"""One instruction or more of each feature, as LLVM's assembler takes them, and programs made of them."""

from collections.abc import Iterable
from pathlib import Path

from arm_ext.target.toolchain import zig, zig_target

# By the features that an instruction needs. `sp` points to 16 bytes that may be read and written.
EXAMPLES: dict[tuple[str, ...], tuple[str, ...]] = {
    (): (
        "add v0.16b, v1.16b, v2.16b",
        "fmla v0.4s, v1.4s, v2.s[0]",
        "sqrdmulh v0.8h, v1.8h, v2.8h",
        "fcvtn v0.4h, v1.4s",
        "fcvt s0, h1",
        "ldr h0, [sp]",
        "pmull v0.8h, v1.8b, v2.8b",
        "mrs x0, fpcr",
        "paciasp",
        "autiasp",
        "bti c",
        "prfm pldl1keep, [sp]",
        "nop",
    ),
    ("aes",): ("aese v0.16b, v1.16b", "pmull v0.1q, v1.1d, v2.1d"),
    ("altnzcv",): ("axflag",),
    ("bf16",): ("bfdot v0.4s, v1.8h, v2.8h", "bfmmla v0.4s, v1.8h, v2.8h", "bfcvtn v0.4h, v1.4s"),
    ("complxnum",): ("fcmla v0.4s, v1.4s, v2.4s, #90", "fcadd v0.2d, v1.2d, v2.2d, #270"),
    ("complxnum", "fullfp16"): ("fcmla v0.8h, v1.8h, v2.8h, #90",),
    ("crc",): ("crc32cx w0, w1, x2",),
    ("dotprod",): ("sdot v0.4s, v1.16b, v2.16b", "udot v0.4s, v1.16b, v2.4b[3]"),
    ("flagm",): ("cfinv",),
    ("fp16fml",): ("fmlal v0.4s, v1.4h, v2.4h",),
    ("fptoint",): ("frint32z v0.4s, v1.4s",),
    ("fullfp16",): (
        "fmla v0.8h, v1.8h, v2.h[7]",
        "fadd v0.4h, v1.4h, v2.4h",
        "fmax h0, h1, h2",
        "fmov h0, #1.0",
        "scvtf h0, w1",
    ),
    ("i8mm",): (
        "smmla v0.4s, v1.16b, v2.16b",
        "usmmla v0.4s, v1.16b, v2.16b",
        "usdot v0.4s, v1.16b, v2.16b",
        "sudot v0.4s, v1.16b, v2.4b[1]",
    ),
    ("jsconv",): ("fjcvtzs w0, d1",),
    ("lse",): ("ldadd w0, w1, [sp]", "swpal x0, x1, [sp]", "cas w0, w1, [sp]", "stset w0, [sp]"),
    ("pauth",): ("paciza x0", "xpaci x0"),
    ("rcpc",): ("ldapr w0, [sp]",),
    ("rcpc-immo",): ("ldapur w0, [sp, #4]",),
    ("rdm",): ("sqrdmlah v0.8h, v1.8h, v2.8h",),
    ("sha2",): ("sha256h q0, q1, v2.4s",),
    ("sha3",): ("eor3 v0.16b, v1.16b, v2.16b, v3.16b",),
    ("sm4",): ("sm4e v0.4s, v1.4s",),
    ("sve",): (
        "fmla z0.s, p0/m, z1.s, z2.s",
        "sdot z0.s, z1.b, z2.b",
        "ptrue p0.b",
        "cntb x0",
        "mul z0.s, p0/m, z0.s, z1.s",
        "sqadd z0.b, z1.b, z2.b",
    ),
    ("sve2",): (
        "sqrdmlah z0.h, z1.h, z2.h",
        "mul z0.s, z1.s, z2.s",
        "mla z0.s, z1.s, z2.s[1]",
        "sqadd z0.b, p0/m, z0.b, z1.b",
        "tbl z0.b, {z1.b, z2.b}, z3.b",
        "whilege p0.b, x0, x1",
    ),
    ("bf16", "sve"): ("bfdot z0.s, z1.h, z2.h",),
    ("i8mm", "sve"): ("smmla z0.s, z1.b, z2.b",),
    ("sme",): ("smopa za0.s, p0/m, p1/m, z0.b, z1.b", "smstart", "zero {za}", "mrs x0, tpidr2_el0"),
}

# What no target may hold: privileged, of a system call, or of an extension that no profile can have.
UNKNOWN = (
    "svc #0",
    "mrs x0, midr_el1",
    "dc civac, x0",
    "irg x0, x1",
    "zip1 z0.q, z1.q, z2.q",
    "aese z0.b, z0.b, z1.b",
    "fmopa za0.d, p0/m, p1/m, z0.d, z1.d",
    ".inst 0xffffffff",
)

_ARCH = ".arch armv9.3-a+memtag+sme+sme-f64f64+f64mm+sve2-aes+sha2+sha3+sm4+fp16fml+bf16+i8mm\n"


def assemble(folder: Path, functions: dict[str, Iterable[str]], *options: str) -> Path:
    """A file of functions made of these instructions, linked without any library."""
    bodies = (
        f".globl {name}\n.type {name}, %function\n{name}:\n" + "\n".join([*body, f".size {name}, . - {name}"])
        for name, body in functions.items()
    )
    (folder / "x.s").write_text(_ARCH + "\n".join(bodies) + "\n")
    output = folder / "x.elf"
    zig(
        [
            "cc",
            "-target",
            zig_target("aarch64-linux-gnu"),
            "-nostdlib",
            *options,
            folder / "x.s",
            "-o",
            output,
        ]
    )
    return output
