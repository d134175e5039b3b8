# SPDX-License-Identifier: Apache-2.0
"""Rounding to integers and saturating narrowing: FCVTNS, FCVTAS, SCVTF, SQXTN, SQXTUN, SQSHRN, SQSHRUN, SQADD.

Further instructions here are FMULX, FMLA and ADDP, upper halves of products of 32-bit integers (SQDMULH, SQRDMULH), and
shifts that round (SRSHR, SQRSHRN) or saturate (SQSHL).
"""

from tvm import ir, tirx

from schedules.intrinsics.operands import check


def fcvtns(x: ir.Expr) -> ir.Expr:
    """Emit FCVTNS: float32x4 to int32x4, rounding half to even and saturating."""
    check("fcvtns", (x, "float32x4"))
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.fcvtns.v4i32.v4f32", x)


def fcvtas(x: ir.Expr) -> ir.Expr:
    """Emit FCVTAS: float32x4 to int32x4, rounding half away from zero and saturating."""
    check("fcvtas", (x, "float32x4"))
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.fcvtas.v4i32.v4f32", x)


def scvtf(x: ir.Expr, fraction: int) -> ir.Expr:
    """Emit SCVTF of a fixed-point number: int32x4 times 2**-fraction to float32x4."""
    check("scvtf", (x, "int32x4"))
    bits = tirx.IntImm("int32", fraction)
    return tirx.call_llvm_pure_intrin("float32x4", "llvm.aarch64.neon.vcvtfxs2fp.v4f32.v4i32", x, bits)


def fmulx(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit FMULX of float32x4: a * b (0 * infinity is ±2); unlike FMUL, LLVM never contracts it with an addition."""
    check("fmulx", (a, "float32x4"), (b, "float32x4"))
    return tirx.call_llvm_pure_intrin("float32x4", "llvm.aarch64.neon.fmulx.v4f32", a, b)


def fma(a: ir.Expr, b: ir.Expr, c: ir.Expr) -> ir.Expr:
    """Emit FMLA of float32x4: a * b + c, rounded once."""
    check("fma", (a, "float32x4"), (b, "float32x4"), (c, "float32x4"))
    return tirx.call_llvm_pure_intrin("float32x4", "llvm.fma.v4f32", a, b, c)


def sqxtn16(x: ir.Expr) -> ir.Expr:
    """Emit SQXTN: int32x4 to int16x4, saturating."""
    check("sqxtn16", (x, "int32x4"))
    return tirx.call_llvm_pure_intrin("int16x4", "llvm.aarch64.neon.sqxtn.v4i16", x)


def narrow8(x: ir.Expr, dtype: str) -> ir.Expr:
    """Emit SQXTN or SQXTUN: int16x8 to int8x8 or uint8x8, saturating."""
    check("narrow8", (x, "int16x8"))
    name = {"int8": "sqxtn", "uint8": "sqxtun"}[dtype]
    return tirx.call_llvm_pure_intrin(f"{dtype}x8", f"llvm.aarch64.neon.{name}.v8i8", x)


def shift_narrow8(x: ir.Expr, shift: int, dtype: str) -> ir.Expr:
    """Emit SQSHRN or SQSHRUN: int16x8 shifted right by 1 to 8, rounding down, to int8x8 or uint8x8, saturating."""
    check("shift_narrow8", (x, "int16x8"))
    name = {"int8": "sqshrn", "uint8": "sqshrun"}[dtype]
    amount = tirx.IntImm("int32", shift)
    return tirx.call_llvm_pure_intrin(f"{dtype}x8", f"llvm.aarch64.neon.{name}.v8i8", x, amount)


def sqdmulh(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SQDMULH of int32x4: floor(a * b / 2**31), which saturates if both are -2**31."""
    check("sqdmulh", (a, "int32x4"), (b, "int32x4"))
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.sqdmulh.v4i32", a, b)


def sqrdmulh(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SQRDMULH of int32x4: floor((a * b + 2**30) / 2**31), which saturates if both are -2**31."""
    check("sqrdmulh", (a, "int32x4"), (b, "int32x4"))
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.sqrdmulh.v4i32", a, b)


def sqshl(x: ir.Expr, shift: int) -> ir.Expr:
    """Emit SQSHL: int32x4 shifted left by 0 to 31, saturating."""
    check("sqshl", (x, "int32x4"))
    amount = tirx.Broadcast(tirx.IntImm("int32", shift), 4)
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.sqshl.v4i32", x, amount)


def srshr(x: ir.Expr, shift: int) -> ir.Expr:
    """Emit SRSHR: int32x4 shifted right by 1 to 32, rounding half up."""
    check("srshr", (x, "int32x4"))
    amount = tirx.Broadcast(tirx.IntImm("int32", -shift), 4)
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.srshl.v4i32", x, amount)


def sqrshrn16(x: ir.Expr, shift: int) -> ir.Expr:
    """Emit SQRSHRN: int32x4 shifted right by 1 to 16, rounding half up, to int16x4, saturating."""
    check("sqrshrn16", (x, "int32x4"))
    amount = tirx.IntImm("int32", shift)
    return tirx.call_llvm_pure_intrin("int16x4", "llvm.aarch64.neon.sqrshrn.v4i16", x, amount)


def sqadd32(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SQADD: the saturating sum of int32x4."""
    check("sqadd32", (a, "int32x4"), (b, "int32x4"))
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.sadd.sat.v4i32", a, b)


def sqadd16(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SQADD: the saturating sum of int16x8."""
    check("sqadd16", (a, "int16x8"), (b, "int16x8"))
    return tirx.call_llvm_pure_intrin("int16x8", "llvm.sadd.sat.v8i16", a, b)


def addp16(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit ADDP of int16x8: the sums, modulo 2**16, of neighbouring lanes of a, then of b."""
    check("addp16", (a, "int16x8"), (b, "int16x8"))
    return tirx.call_llvm_pure_intrin("int16x8", "llvm.aarch64.neon.addp.v8i16", a, b)
