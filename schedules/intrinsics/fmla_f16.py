# SPDX-License-Identifier: Apache-2.0
"""binary16 arithmetic: FMLA and FMUL by element (FEAT_FP16), and FMLAL, which adds to binary32 (FEAT_FHM)."""

from tvm import ir, tirx

FEATURE = "fullfp16"
WIDENING_FEATURE = "fp16fml"

LANES = 8
"""binary16 elements of a 128-bit register."""


def fmla_lane(acc: ir.Expr, vector: ir.Expr, by: ir.Expr, lane: int) -> ir.Expr:
    """Emit FMLA of binary16 by element: acc[i] + vector[i] * by[lane], rounded once.

    The instruction is `fmla vd.8h, vn.8h, vm.h[lane]`, whose vm is one of V0 to V15.

    Args:
        acc: float16x8.
        vector: float16x8.
        by: float16x8, or float16 (`lane` is 0 then).
        lane: Lane of `by`.
    """
    _check("fmla_lane", {"acc": acc, "vector": vector}, "float16x8")
    return tirx.call_llvm_pure_intrin(
        "float16x8", "llvm.fma.v8f16", vector, _splat("fmla_lane", by, lane), acc
    )


def fmul_lane(vector: ir.Expr, by: ir.Expr, lane: int) -> ir.Expr:
    """Emit FMUL of binary16 by element: vector[i] * by[lane], rounded; for the arguments see `fmla_lane`."""
    _check("fmul_lane", {"vector": vector}, "float16x8")
    return vector * _splat("fmul_lane", by, lane)


def fmlal(acc: ir.Expr, a: ir.Expr, b: ir.Expr, half: int) -> ir.Expr:
    """Emit acc[i] + a[4 half + i] * b[4 half + i], exact products and one rounding: FMLAL for half 0, FMLAL2 for 1.

    Args:
        acc: float32x4.
        a: float16x8.
        b: float16x8.
        half: Half of the eight lanes of `a` and `b` that is read: 0 or 1.
    """
    _check("fmlal", {"acc": acc}, "float32x4")
    _check("fmlal", {"a": a, "b": b}, "float16x8")
    name = ("fmlal", "fmlal2")[half]
    return tirx.call_llvm_pure_intrin("float32x4", f"llvm.aarch64.neon.{name}.v4f32.v8f16", acc, a, b)


def widened(x: ir.Expr, half: int) -> ir.Expr:
    """Emit the conversion of four lanes of a float16x8 to float32x4: FCVTL for half 0, FCVTL2 for 1."""
    return tirx.Cast("float32x4", tirx.Shuffle([x], list(range(4 * half, 4 * half + 4))))


def _splat(name: str, by: ir.Expr, lane: int) -> ir.Expr:
    if str(by.ty.dtype) == "float16":
        return tirx.Broadcast(by, LANES)
    _check(name, {"by": by}, "float16x8")
    return tirx.Broadcast(tirx.Shuffle([by], [lane]), LANES)


def _check(name: str, operands: dict[str, ir.Expr], dtype: str) -> None:
    for operand, value in operands.items():
        if str(value.ty.dtype) != dtype:
            raise ValueError(f"{name}: {operand} is {value.ty.dtype}, expected {dtype}")
