# SPDX-License-Identifier: Apache-2.0
"""FMLA (vector, by element): four binary32 multiply-adds, each rounded once."""

from tvm import ir, tirx

from schedules.intrinsics.registers import LANES


def fmla_lane(acc: ir.Expr, vector: ir.Expr, by: ir.Expr, lane: int) -> ir.Expr:
    """Emit FMLA by element: acc[i] + vector[i] * by[lane], rounded once.

    The code is `llvm.fma` with a splat, which gives the same result on every LLVM target; on AArch64 LLVM turns the
    splat into the lane index of `fmla vd.4s, vn.4s, vm.s[lane]`.

    Args:
        acc: float32x4.
        vector: float32x4.
        by: float32x4, or float32 (`lane` is 0 then).
        lane: Lane of `by`.

    Raises:
        ValueError: An operand is not of these dtypes.
    """
    for name, value, dtypes in (
        ("acc", acc, ("float32x4",)),
        ("vector", vector, ("float32x4",)),
        ("by", by, ("float32x4", "float32")),
    ):
        if str(value.ty.dtype) not in dtypes:
            raise ValueError(f"fmla_lane: {name} is {value.ty.dtype}, expected {' or '.join(dtypes)}")
    scalar = by if str(by.ty.dtype) == "float32" else tirx.Shuffle([by], [lane])
    return tirx.call_llvm_pure_intrin(
        "float32x4", "llvm.fma.v4f32", vector, tirx.Broadcast(scalar, LANES), acc
    )
