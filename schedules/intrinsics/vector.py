# SPDX-License-Identifier: Apache-2.0
"""Halves and permutations of 128-bit vectors: ZIP, UZP, and moves between register halves."""

from tvm import ir, tirx


def lanes_of(x: ir.Expr) -> int:
    """Return the number of lanes of a vector."""
    return int(str(x.ty.dtype).rpartition("x")[2])


def combine(low: ir.Expr, high: ir.Expr) -> ir.Expr:
    """Emit the concatenation of two vectors of one dtype."""
    element, _, lanes = str(low.ty.dtype).rpartition("x")
    return tirx.call_intrin(f"{element}x{2 * int(lanes)}", "tirx.vectorcombine", low, high)


def low(x: ir.Expr) -> ir.Expr:
    """Emit the first half of a vector."""
    return tirx.call_intrin(_half(x), "tirx.vectorlow", x)


def high(x: ir.Expr) -> ir.Expr:
    """Emit the second half of a vector."""
    return tirx.call_intrin(_half(x), "tirx.vectorhigh", x)


def zip_halves(a: ir.Expr, b: ir.Expr, lane_dtype: str) -> tuple[ir.Expr, ir.Expr]:
    """Emit ZIP1 and ZIP2, a0 b0 a1 b1 ..., of two 128-bit vectors with lanes of `lane_dtype`; return (ZIP1, ZIP2).

    Args:
        a: A vector of 128 bits.
        b: A vector of the same dtype, which is also the dtype of the results.
        lane_dtype: Dtype of the lanes, such as "int64x2" or "int32x4".
    """
    lanes = int(lane_dtype.rpartition("x")[2])
    wide = [tirx.reinterpret(lane_dtype, a), tirx.reinterpret(lane_dtype, b)]
    order = [index for lane in range(lanes) for index in (lane, lane + lanes)]
    dtype = str(a.ty.dtype)
    first, second = order[:lanes], order[lanes:]
    return (
        tirx.reinterpret(dtype, tirx.Shuffle(wide, first)),
        tirx.reinterpret(dtype, tirx.Shuffle(wide, second)),
    )


def unzip(a: ir.Expr, b: ir.Expr, lane_dtype: str) -> tuple[ir.Expr, ir.Expr]:
    """Emit UZP1 and UZP2, the even and the odd lanes of `lane_dtype`, of two 128-bit vectors; return (UZP1, UZP2)."""
    lanes = int(lane_dtype.rpartition("x")[2])
    wide = [tirx.reinterpret(lane_dtype, a), tirx.reinterpret(lane_dtype, b)]
    dtype = str(a.ty.dtype)
    return (
        tirx.reinterpret(dtype, tirx.Shuffle(wide, list(range(0, 2 * lanes, 2)))),
        tirx.reinterpret(dtype, tirx.Shuffle(wide, list(range(1, 2 * lanes, 2)))),
    )


def _half(x: ir.Expr) -> str:
    element, _, lanes = str(x.ty.dtype).rpartition("x")
    return f"{element}x{int(lanes) // 2}"
