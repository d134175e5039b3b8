# SPDX-License-Identifier: Apache-2.0
"""Final division of an 8-bit softmax, as the numerics `tosa` defines it: a multiplication by the sum's reciprocal.

The reciprocal is found once a row, in general registers; a share of four is a product, a shift by the row's amount,
and a RESCALE.
"""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.registers import LANES
from schedules.kernels.epilogues.requantize import Requantization, requantize16
from schedules.numerics.tosa import Scale
from schedules.numerics.tosa.softmax import SHARE_BITS, inverse_tir
from schedules.tir.emit import load

BITS = SHARE_BITS + 2
"""Bits of a share before RESCALE; 2**16 stands for 1."""


def sixteen(
    total: ir.Expr, reciprocals: tirx.Buffer, scale: Scale, to: Requantization
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
