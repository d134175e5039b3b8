# SPDX-License-Identifier: Apache-2.0
"""Final division of an 8-bit softmax, as the numerics `qdq` defines it.

    y = saturate(rne(fl(e[d] / fl(fl(S) * ys))) + zy)

FDIV of four takes as long as twenty other instructions. All values of a row have one divisor D, and with r = fl(1 / D)

    q = fl(x * r), then twice  e = fma(-q, D, x), q = fma(e, r, q)

is fl(x / D): the first q is within two units, the second within one, and then the third is the quotient rounded
(Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). It takes that neither
underflow nor overflow is near: x is 0 or from 1 to 2^30, and D from 2^30 times the scale up to the length times that.
"""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.narrow import fcvtns, fma, fmulx, narrow8, sqadd16, sqxtn16
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector import combine

SCALES = (2.0**-40, 2.0**40)
"""Range of the result's scale; beyond it FDIV is used, for underflow and overflow."""


def sixteen(
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
    """Return a function that emits x / by: with FDIV if `exact`, else an equal form without over- or underflow."""
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
