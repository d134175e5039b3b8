# SPDX-License-Identifier: Apache-2.0
"""A64 instructions by their text, for hand-written blocks."""

from arm_ext.measure.classify import InsnClass

# Encodings are llvm-mc's; test_classify checks that they disassemble to the text.
CLASSES: dict[str, tuple[int, InsnClass]] = {
    "smmla v0.4s, v1.16b, v2.16b": (0x4E82A420, InsnClass.SMMLA),
    "ummla v0.4s, v1.16b, v2.16b": (0x6E82A420, InsnClass.SMMLA),
    "usmmla v0.4s, v1.16b, v2.16b": (0x4E82AC20, InsnClass.SMMLA),
    "smmla z0.s, z1.b, z2.b": (0x45029820, InsnClass.SMMLA),
    "sdot v0.4s, v1.16b, v2.4b[3]": (0x4FA2E820, InsnClass.SDOT),
    "udot v0.2s, v1.8b, v2.8b": (0x2E829420, InsnClass.SDOT),
    "usdot v0.4s, v1.16b, v2.16b": (0x4E829C20, InsnClass.SDOT),
    "sudot v0.4s, v1.16b, v2.4b[1]": (0x4F22F020, InsnClass.SDOT),
    "sdot z0.s, z1.b, z2.b": (0x44820020, InsnClass.SDOT),
    "bfmmla v0.4s, v1.8h, v2.8h": (0x6E42EC20, InsnClass.BF16),
    "bfdot v0.4s, v1.8h, v2.2h[1]": (0x4F62F020, InsnClass.BF16),
    "bfmlalb v0.4s, v1.8h, v2.8h": (0x2EC2FC20, InsnClass.BF16),
    "fmla v0.8h, v1.8h, v2.h[7]": (0x4F321820, InsnClass.FP16_FMLA),
    "fmlal v0.4s, v1.4h, v2.4h": (0x4E22EC20, InsnClass.FP16_FMLA),
    "fmla v0.4s, v1.4s, v2.s[3]": (0x4FA21820, InsnClass.FMLA),
    "fmla z0.s, p0/m, z1.s, z2.s": (0x65A20020, InsnClass.FMLA),
    "smlal v0.4s, v1.4h, v2.4h": (0x0E628020, InsnClass.INTEGER_MLA),
    "smlal2 v0.4s, v1.8h, v2.h[3]": (0x4F722020, InsnClass.INTEGER_MLA),
    "smull v0.8h, v1.8b, v2.8b": (0x0E22C020, InsnClass.INTEGER_MLA),
    "mla v0.4s, v1.4s, v2.4s": (0x4EA29420, InsnClass.INTEGER_MLA),
    "smopa za0.s, p0/m, p0/m, z0.b, z1.b": (0xA0810000, InsnClass.OUTER_PRODUCT),
    "fmadd s0, s1, s2, s3": (0x1F020C20, InsnClass.SCALAR_FMA),
    "fmla s0, s1, v2.s[1]": (0x5FA21020, InsnClass.SCALAR_FMA),
    "bfcvtn v0.4h, v1.4s": (0x0EA16820, InsnClass.VECTOR),
    "sqrdmulh v0.4s, v1.4s, v2.4s": (0x6EA2B420, InsnClass.VECTOR),
    "fmul v2.4s, v1.4s, v0.4s": (0x6E20DC22, InsnClass.VECTOR),
    "fcvtns v2.4s, v2.4s": (0x4E21A842, InsnClass.VECTOR),
    "sqxtn v1.4h, v2.4s": (0x0E614841, InsnClass.VECTOR),
    "ldr q0, [x0], #0x10": (0x3CC10400, InsnClass.VECTOR_LOAD),
    "ldr q0, [x0, #0x10]!": (0x3CC10C00, InsnClass.VECTOR_LOAD),
    "ldp q0, q1, [x0], #-0x20": (0xACFF0400, InsnClass.VECTOR_LOAD),
    "ld1 {v0.4s, v1.4s}, [x0], #32": (0x4CDFA800, InsnClass.VECTOR_LOAD),
    "ld1 {v0.d}[1], [x0]": (0x4D408400, InsnClass.VECTOR_LOAD),
    "ld1 {v0.d}[1], [x0], x3": (0x4DC38400, InsnClass.VECTOR_LOAD),
    "ld3 {v0.b, v1.b, v2.b}[2], [x0], #3": (0x0DDF2800, InsnClass.VECTOR_LOAD),
    "ld1w {z0.s}, p0/z, [x0, x1, lsl #2]": (0xA5414000, InsnClass.VECTOR_LOAD),
    "ldp x0, x1, [sp, #0x20]!": (0xA9C207E0, InsnClass.SCALAR_LOAD),
    "ldrsw x0, [x1], #4": (0xB8804420, InsnClass.SCALAR_LOAD),
    "prfm pldl1keep, [x0]": (0xF9800000, InsnClass.SCALAR_LOAD),
    "casal x0, x1, [x2]": (0xC8E0FC41, InsnClass.SCALAR_LOAD),
    "str q0, [x0], #0x10": (0x3C810400, InsnClass.VECTOR_STORE),
    "st1 {v0.d}[1], [x0], #8": (0x4D9F8400, InsnClass.VECTOR_STORE),
    "stp x29, x30, [sp, #-0x10]!": (0xA9BF7BFD, InsnClass.SCALAR_STORE),
    "b.eq #0x10": (0x54000080, InsnClass.BRANCH),
    "cbz x0, #0xfffffffffffffff0": (0xB4FFFF80, InsnClass.BRANCH),
    "tbz w0, #3, #0xfffffffffffffff0": (0x361FFF80, InsnClass.BRANCH),
    "bl #0xffffffffffffffc0": (0x97FFFFF0, InsnClass.BRANCH),
    "blr x8": (0xD63F0100, InsnClass.BRANCH),
    "ret": (0xD65F03C0, InsnClass.BRANCH),
    "add x0, x0, #1": (0x91000400, InsnClass.SCALAR),
    "madd x0, x1, x2, x3": (0x9B020C20, InsnClass.SCALAR),
    "smull x0, w1, w2": (0x9B227C20, InsnClass.SCALAR),
    "adrp x0, #0x1000": (0xB0000000, InsnClass.SCALAR),
    "nop": (0xD503201F, InsnClass.SCALAR),
}


def words(*text: str) -> tuple[int, ...]:
    """The instructions of a block."""
    return tuple(CLASSES[line][0] for line in text)
