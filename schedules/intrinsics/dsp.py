# SPDX-License-Identifier: Apache-2.0
"""Instructions of the DSP extension of Cortex-M: pairs of 16 bits in a general register.

Source: Armv7-M ARM DDI 0403, section A4.4.3; LLVM's IntrinsicsARM.td.
"""

from contextlib import AbstractContextManager
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.operands import check
from schedules.tir.emit import i64, importing

_BYTE = tirx.IntImm("int32", 8)

WORD = 4
"""Bytes of a word."""

# LLVM selects LDRD for a volatile load, and not for each pair of others that it could.
_PAIR = """
define linkonce_odr hidden i64 @arm_load_pair(ptr %address, i32 %offset) alwaysinline {
  %at = getelementptr i8, ptr %address, i32 %offset
  %pair = load volatile i64, ptr %at, align 4
  ret i64 %pair
}
"""


# TVM's products of int64 have become products of int32 by the time that LLVM sees them.
RESCALE = """
define linkonce_odr hidden i32 @arm_rescale(i32 %x, i32 %m, i64 %half, i64 %shift) alwaysinline {
  %wide = sext i32 %x to i64
  %factor = sext i32 %m to i64
  %product = mul nsw i64 %wide, %factor
  %sum = add nsw i64 %product, %half
  %shifted = ashr i64 %sum, %shift
  %result = trunc i64 %shifted to i32
  ret i32 %result
}
"""


def definitions() -> AbstractContextManager[Any]:
    """Open a scope in which `ldrd` and `rescale` may be emitted."""
    return importing(_PAIR + RESCALE)


def rescale(x: ir.Expr, m: ir.Expr, shift: int) -> ir.Expr:
    """Return (x * m + 2**(shift - 1)) >> shift of int32, in 64 bits: SMLAL; a result beyond 32 bits is undefined."""
    check("rescale", (x, "int32"), (m, "int32"))
    return T.Bind(tirx.call_extern("int32", "arm_rescale", x, m, i64(1 << (shift - 1)), i64(shift)))


def ldrd(address: ir.Var, at: int) -> tuple[ir.Expr, ir.Expr]:
    """Load words `at` and `at` + 1 from an address on, a multiple of 4: LDRD, which reaches word 255."""
    offset = tirx.IntImm("int32", WORD * at)
    pair = T.Bind(tirx.call_extern("int64", "arm_load_pair", address, offset))
    return T.Bind(tirx.Cast("int32", pair)), T.Bind(tirx.Cast("int32", pair >> i64(32)))


def sxtb16(word: ir.Expr, *, odd: bool) -> ir.Expr:
    """Widen bytes 0 and 2, or 1 and 3, of an int32 to a pair of 16 bits: SXTB16, which rotates its operand, too."""
    check("sxtb16", (word, "int32"))
    source = tirx.call_llvm_pure_intrin("int32", "llvm.fshr.i32", word, word, _BYTE) if odd else word
    return tirx.call_llvm_pure_intrin("int32", "llvm.arm.sxtb16", source)


def pkhbt(low: ir.Expr, high: ir.Expr) -> ir.Expr:
    """Join the lower halves of two int32: PKHBT."""
    a, b = (tirx.reinterpret("uint32", each) for each in (low, high))
    return tirx.reinterpret("int32", (a & tirx.IntImm("uint32", 0xFFFF)) | (b << tirx.IntImm("uint32", 16)))


def pkhtb(low: ir.Expr, high: ir.Expr) -> ir.Expr:
    """Join the upper halves of two int32: PKHTB."""
    a, b = (tirx.reinterpret("uint32", each) for each in (low, high))
    return tirx.reinterpret(
        "int32", (b & tirx.IntImm("uint32", 0xFFFF0000)) | (a >> tirx.IntImm("uint32", 16))
    )


def smlad(a: ir.Expr, b: ir.Expr, acc: ir.Expr) -> ir.Expr:
    """Add the products of two pairs of 16 bits to an int32: SMLAD."""
    check("smlad", (a, "int32"), (b, "int32"), (acc, "int32"))
    return tirx.call_llvm_pure_intrin("int32", "llvm.arm.smlad", a, b, acc)


def vcvtr(x: ir.Expr) -> ir.Expr:
    """Round a float32 to an int32 by the rounding mode, half to even, and saturate: VCVTR.S32.F32."""
    check("vcvtr", (x, "float32"))
    return tirx.reinterpret("int32", tirx.call_llvm_pure_intrin("float32", "llvm.arm.vcvtr.f32", x))
