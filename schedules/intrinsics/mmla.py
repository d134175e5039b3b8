# SPDX-License-Identifier: Apache-2.0
"""SMMLA, UMMLA, USMMLA (FEAT_I8MM): a 2 x 2 block of int32 accumulators, each adding a dot product of eight pairs."""

from tvm import ir, tirx

from schedules.intrinsics.operands import check

FEATURE = "i8mm"

K_STEP = 8
"""Number of k that one instruction sums over."""

BLOCK = 2
"""Rows and columns of the block that one instruction accumulates."""


def smmla(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SMMLA: acc[2 r + c] + sum over k < 8 of a[8 r + k] * b[8 c + k], for int32x4, int8x16 and int8x16."""
    return _mmla("smmla", acc, (a, "int8x16"), (b, "int8x16"))


def ummla(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit UMMLA, which is `smmla` for uint8x16 and uint8x16."""
    return _mmla("ummla", acc, (a, "uint8x16"), (b, "uint8x16"))


def usmmla(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit USMMLA, which is `smmla` for uint8x16 and int8x16."""
    return _mmla("usmmla", acc, (a, "uint8x16"), (b, "int8x16"))


def _mmla(name: str, acc: ir.Expr, a: tuple[ir.Expr, str], b: tuple[ir.Expr, str]) -> ir.Expr:
    check(name, (acc, "int32x4"), a, b)
    return tirx.call_llvm_pure_intrin("int32x4", f"llvm.aarch64.neon.{name}.v4i32.v16i8", acc, a[0], b[0])
