# SPDX-License-Identifier: Apache-2.0
"""The final division of an 8-bit softmax, in the numerics `qdq` and `tosa`.

The numerics `qdq`:

    y = saturate(rne(fl(e[d] / fl(fl(S) * ys))) + zy)

FDIV of four values takes as long as twenty other instructions. All values of a row have the same divisor D. With r =
fl(1 / D),

    q = fl(x * r), then twice  e = fma(-q, D, x), q = fma(e, r, q)

is fl(x / D): the first q is within two units in the last place, the second within one, and the third is the correctly
rounded quotient (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990),
provided that no intermediate value underflows or overflows: x is 0 or from 1 to 2^30, and D is from 2^30 times the
scale to length times 2^30 times the scale.

The numerics `tosa`: a multiplication by the reciprocal of the sum, which is computed once per row, in general
registers. Four results take a product, a shift by the row's amount, and a RESCALE.
"""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.narrow import fcvtns, fma, fmulx, narrow8, sqadd16, sqxtn16
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector import combine
from schedules.kernels.epilogues.requantize import Requantization, requantize16
from schedules.numerics.tosa import RescaleFactor
from schedules.numerics.tosa.softmax import SHARE_BITS, inverse_tir
from schedules.tir.emit import load

SCALES = (2.0**-40, 2.0**40)
"""Range of the result's scale; beyond it FDIV is used, for underflow and overflow."""

BITS = SHARE_BITS + 2
"""Bits of a share before RESCALE; 2**16 stands for 1."""


def sixteen_qdq(
    total: ir.Expr, scale: float, zero_point: int, dtype: str
) -> Callable[[Sequence[ir.Expr]], ir.Expr]:
    """Emit the per-row code; return the function that emits 16 results from four int32x4 exponentials.

    Args:
        total: Sum of the exponentials, int64.
        scale: Scale of the result.
        zero_point: Zero point of the result.
        dtype: Dtype of the result.
    """
    whole = T.Bind(tirx.Cast("float32", total) * tirx.FloatImm("float32", scale))
    divide = division(whole, exact=not SCALES[0] <= scale <= SCALES[1])

    def divided(parts: Sequence[ir.Expr]) -> ir.Expr:
        narrow = [sqxtn16(fcvtns(divide(T.Bind(tirx.Cast("float32x4", part))))) for part in parts]
        halves = [combine(narrow[0], narrow[1]), combine(narrow[2], narrow[3])]
        if zero_point:
            extra = tirx.Broadcast(tirx.IntImm("int16", zero_point), 8)
            halves = [sqadd16(half, extra) for half in halves]
        return combine(*(narrow8(half, dtype) for half in halves))

    return divided


def division(by: ir.Expr, *, exact: bool) -> Callable[[ir.Expr], ir.Expr]:
    """Return a function that emits x / by: by FDIV if `exact`, else by the steps above (no over- or underflow)."""
    divisor = tirx.Broadcast(by, LANES)
    if exact:
        return lambda x: tirx.Div(x, divisor)
    reciprocal = tirx.Broadcast(T.Bind(tirx.FloatImm("float32", 1.0) / by), LANES)
    minus = tirx.Broadcast(T.Bind(-by), LANES)

    def quotient(x: ir.Expr) -> ir.Expr:
        q: ir.Expr = T.Bind(fmulx(x, reciprocal))
        for _ in range(2):
            q = T.Bind(fma(T.Bind(fma(q, minus, x)), reciprocal, q))
        return q

    return quotient


def sixteen_tosa(
    total: ir.Expr, reciprocals: tirx.Buffer, scale: RescaleFactor, to: Requantization
) -> Callable[[Sequence[ir.Expr]], ir.Expr]:
    """Emit the per-row code; return the function that emits 16 results from four int32x4 exponentials.

    Args:
        total: Sum of the exponentials, int64, below 2**31.
        reciprocals: Second table of the numerics, int32 [256].
        scale: Scale of the RESCALE.
        to: Zero point, limits and dtype of the output.
    """
    whole = T.Bind(tirx.Cast("int32", total))
    zeros = T.Bind(tirx.Cast("int32", tirx.clz(whole)))
    inverse = inverse_tir(whole, zeros, lambda at: load(reciprocals, tirx.Cast("int64", at), 1))
    factor = tirx.Broadcast(T.Bind(inverse), LANES)
    shift = tirx.Broadcast(T.Bind(tirx.IntImm("int32", 30) - zeros), LANES)
    multiplier = tirx.Broadcast(tirx.IntImm("int32", scale.multiplier), LANES)
    m = [tirx.reinterpret("float32x4", multiplier)] * LANES

    def of_row(exponentials: Sequence[ir.Expr]) -> ir.Expr:
        shares = [tirx.shift_right(e * factor, shift) for e in exponentials]
        return requantize16("rescale", shares, m, to)

    return of_row
