# SPDX-License-Identifier: Apache-2.0
"""SDOT, UDOT (FEAT_DotProd), USDOT (FEAT_I8MM): four int32 accumulators, each adding a dot product of four pairs."""

from tvm import ir, tirx

from schedules.intrinsics.operands import check

FEATURE = "dotprod"

K_STEP = 4
"""Number of k that one instruction sums over: the bytes of a lane."""


def sdot(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SDOT: acc[i] + sum over k < 4 of a[4 i + k] * b[4 i + k], for int32x4, int8x16 and int8x16."""
    return _dot("sdot", acc, (a, "int8x16"), (b, "int8x16"))


def udot(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit UDOT, which is `sdot` for uint8x16 and uint8x16; the sums are modulo 2**32."""
    return _dot("udot", acc, (a, "uint8x16"), (b, "uint8x16"))


def usdot(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit USDOT (i8mm), which is `sdot` for uint8x16 and int8x16."""
    return _dot("usdot", acc, (a, "uint8x16"), (b, "int8x16"))


def sdot_lane(acc: ir.Expr, b: ir.Expr, a: ir.Expr, lane: int) -> ir.Expr:
    """Emit SDOT by element: acc[i] + sum over k < 4 of b[4 i + k] * a[4 lane + k].

    In a matrix product these are four columns b by four elements of k of one row a.

    Args:
        acc: int32x4.
        b: int8x16.
        a: int8x16, int8x8 or int8x4.
        lane: Index of the four bytes of `a` that are read, 0 to 3.
    """
    return sdot(acc, b, splat_word(a, lane))


def udot_lane(acc: ir.Expr, b: ir.Expr, a: ir.Expr, lane: int) -> ir.Expr:
    """Emit UDOT by element, which is `sdot_lane` for uint8 vectors."""
    return udot(acc, b, splat_word(a, lane))


def usdot_lane(acc: ir.Expr, b: ir.Expr, a: ir.Expr, lane: int) -> ir.Expr:
    """Emit USDOT by element, which is `sdot_lane` for uint8 `b` and int8 `a`."""
    return usdot(acc, b, splat_word(a, lane))


def _dot(name: str, acc: ir.Expr, a: tuple[ir.Expr, str], b: tuple[ir.Expr, str]) -> ir.Expr:
    check(name, (acc, "int32x4"), a, b)
    return tirx.call_llvm_pure_intrin("int32x4", f"llvm.aarch64.neon.{name}.v4i32.v16i8", acc, a[0], b[0])


def splat_word(a: ir.Expr, lane: int) -> ir.Expr:
    """Emit four bytes in every lane; LLVM merges this into SDOT by element, `vm.4b[lane]`."""
    dtype, _, lanes = str(a.ty.dtype).rpartition("x")
    words = int(lanes) // 4
    value = tirx.reinterpret("int32" if words == 1 else f"int32x{words}", a)
    word = value if words == 1 else tirx.Shuffle([value], [lane])
    return tirx.reinterpret(f"{dtype}x16", tirx.Broadcast(word, 4))
