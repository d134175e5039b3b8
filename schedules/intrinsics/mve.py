# SPDX-License-Identifier: Apache-2.0
"""Instructions of Helium (MVE) that LLVM does not find in loops.

Source: Armv8-M ARM DDI 0553, section C2.4; LLVM's IntrinsicsARM.td.
"""

from typing import Literal

from tvm import ir, tirx

from schedules.intrinsics.operands import check

_NO, _YES = (tirx.IntImm("int32", number) for number in (0, 1))


def vmladava(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Add the products of 16 pairs of int8 to an int32: VMLADAVA.S8."""
    check("vmladava", (acc, "int32"), (a, "int8x16"), (b, "int8x16"))
    flags = (_NO, _NO, _NO)  # signed, added, not exchanged
    return tirx.call_llvm_pure_intrin("int32", "llvm.arm.mve.vmldava", *flags, acc, a, b)


def vcvtn(x: ir.Expr) -> ir.Expr:
    """Round float32x4 half to even to int32x4, which saturates: VCVTN.S32.F32."""
    check("vcvtn", (x, "float32x4"))
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.arm.mve.vcvtn", _NO, x)


def vqdmulh(a: ir.Expr, b: ir.Expr, *, rounded: bool) -> ir.Expr:
    """Return the upper halves of twice the products of two int32x4: VQDMULH.S32, or VQRDMULH.S32 if `rounded`."""
    check("vqdmulh", (a, "int32x4"), (b, "int32x4"))
    name = "vqrdmulh" if rounded else "vqdmulh"
    return tirx.call_llvm_pure_intrin("int32x4", f"llvm.arm.mve.{name}", a, b)


def vrshl(x: ir.Expr, shift: int) -> ir.Expr:
    """Shift int32x4 to the left, or by a negative number to the right with rounding half up: VRSHL.S32."""
    check("vrshl", (x, "int32x4"))
    by = tirx.IntImm("int32", shift)
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.arm.mve.vshl.scalar", x, by, _NO, _YES, _NO)


def vqmovn(even: ir.Expr, odd: ir.Expr, dtype: Literal["int8", "uint8", "int16"] = "int16") -> ir.Expr:
    """Narrow two vectors of signed integers to half the width, saturated: VQMOVNB, VQMOVNT, VQMOVUNB, VQMOVUNT.

    Args:
        even: int32x4 or int16x8 for the even lanes of the result.
        odd: The same for the odd lanes.
        dtype: Element type of the result: int16 of int32x4, int8 or uint8 of int16x8.
    """
    wide, lanes = ("int32x4", 8) if dtype == "int16" else ("int16x8", 16)
    check("vqmovn", (even, wide), (odd, wide))
    unsigned = _YES if dtype == "uint8" else _NO
    signed = dtype.removeprefix("u")
    nothing = tirx.Broadcast(tirx.IntImm(signed, 0), lanes)
    narrow = f"{signed}x{lanes}"
    first = tirx.call_llvm_pure_intrin(narrow, "llvm.arm.mve.vqmovn", nothing, even, unsigned, _NO, _NO)
    both = tirx.call_llvm_pure_intrin(narrow, "llvm.arm.mve.vqmovn", first, odd, unsigned, _NO, _YES)
    return tirx.reinterpret(f"uint8x{lanes}", both) if dtype == "uint8" else both


def vmull(a: ir.Expr, b: ir.Expr, *, odd: bool) -> ir.Expr:
    """Multiply the even or odd lanes of int8x16 to int16x8: VMULLB.S8, VMULLT.S8."""
    check("vmull", (a, "int8x16"), (b, "int8x16"))
    top = _YES if odd else _NO
    return tirx.call_llvm_pure_intrin("int16x8", "llvm.arm.mve.vmull", a, b, _NO, top)


def vmovl(x: ir.Expr, *, odd: bool) -> ir.Expr:
    """Widen the even or odd lanes of int16x8 to int32x4: VMOVLB.S16, VMOVLT.S16."""
    check("vmovl", (x, "int16x8"))
    return tirx.Cast("int32x4", tirx.Shuffle([x], list(range(odd, 8, 2))))
