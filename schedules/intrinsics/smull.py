# SPDX-License-Identifier: Apache-2.0
"""SMULL, SMLAL, SMLSL, SADALP (Armv8.0): products of 8-bit lanes, summed in 16 bits, then pairwise in 32.

Products of 16-bit lanes are summed in 32 bits, also by lane. LLVM selects SMULL2 and SMLAL2 if both factors are upper
halves, SMLAL if a product is added to a sum, and SADALP if a pairwise sum is added. A sum of two int8 products fits 16
bits unless both are (-128) * (-128).
"""

from tvm import ir, tirx

from schedules.intrinsics.operands import check


def smull(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SMULL: int16x8 a[i] * b[i], for int8x8 and int8x8."""
    check("smull", (a, "int8x8"), (b, "int8x8"))
    return tirx.call_llvm_pure_intrin("int16x8", "llvm.aarch64.neon.smull.v8i16", a, b)


def smlal(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SMLAL: int16x8 acc[i] + a[i] * b[i], wrapping, for int16x8, int8x8 and int8x8."""
    check("smlal", (acc, "int16x8"))
    return acc + smull(a, b)


def smlsl(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SMLSL: int16x8 acc[i] - a[i] * b[i], wrapping, for int16x8, int8x8 and int8x8."""
    check("smlsl", (acc, "int16x8"))
    return acc - smull(a, b)


def saddlp(x: ir.Expr) -> ir.Expr:
    """Emit SADDLP: int32x4 x[2 i] + x[2 i + 1], for int16x8."""
    check("saddlp", (x, "int16x8"))
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.saddlp.v4i32.v8i16", x)


def sadalp(acc: ir.Expr, x: ir.Expr) -> ir.Expr:
    """Emit SADALP: int32x4 acc[i] + x[2 i] + x[2 i + 1], for int32x4 and int16x8."""
    check("sadalp", (acc, "int32x4"))
    return acc + saddlp(x)


def addp(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit ADDP: int32x4 (a[0] + a[1], a[2] + a[3], b[0] + b[1], b[2] + b[3])."""
    check("addp", (a, "int32x4"), (b, "int32x4"))
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.addp.v4i32", a, b)


def saddw(acc: ir.Expr, x: ir.Expr) -> ir.Expr:
    """Emit SADDW: int32x4 acc[i] + x[i], for int32x4 and int16x4."""
    check("saddw", (acc, "int32x4"), (x, "int16x4"))
    return acc + tirx.Cast("int32x4", x)


def smlal16(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SMLAL: int32x4 acc[i] + a[i] * b[i], wrapping, for int32x4, int16x4 and int16x4."""
    check("smlal of 16 bits", (acc, "int32x4"), (a, "int16x4"), (b, "int16x4"))
    return acc + tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.smull.v4i32", a, b)


def smlal_lane(acc: ir.Expr, b: ir.Expr, a: ir.Expr, lane: int) -> ir.Expr:
    """Emit SMLAL by element: int32x4 acc[i] + b[i] * a[lane], for int32x4, int16x4 and int16x8."""
    check("smlal by lane", (acc, "int32x4"), (b, "int16x4"), (a, "int16x8"))
    return smlal16(acc, b, tirx.Shuffle([a], [lane] * 4))
