# SPDX-License-Identifier: Apache-2.0
"""Instructions for products of two packed int8 run-time matrices: SMMLA, SDOT, or SMULL and SMLSL.

A vector holds 16 / step lines by step k. On cores without dotprod it is 16 k of one line, and accumulators hold four
partial sums of one output. Two products of any int8 fit 16 bits where one is subtracted, and not where both are added:

    |a[0:8] * b[0:8] - a[8:16] * ~b[8:16]| <= 128 * 128 + 128 * 127 < 2**15

As ~b = -b - 1, this is the sum of both products and of a[8:16]. So columns are packed with their second eights
inverted. The term a[8:16] cancels, as the product with a column of zero points, inverted alike, is subtracted:

    (a * b + a[8:16]) - (a * zb + a[8:16]) = a * (b - zb)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics.mmla import smmla
from schedules.intrinsics.pin import pinned
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.intrinsics.sdot import sdot
from schedules.intrinsics.smull import sadalp, smlsl, smull
from schedules.intrinsics.vector import high, low
from schedules.kernels.tiles.packed_tile import SDOT, SMMLA, Instruction
from schedules.kernels.tiles.tile_stores import HALF


def _pairs(total: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit partial sums plus a * b + a[8:16], for columns b as they are packed; exact for any int8."""
    products = smlsl(smull(low(a), low(b)), high(a), high(b))
    return pinned(sadalp(total, products))


def _inverted(b: ir.Expr) -> ir.Expr:
    """Return 16 bytes of which the second eight are inverted."""
    words = [tirx.IntImm("int64", word) for word in (0, -1)]
    mask = tirx.reinterpret("int8x16", tirx.Shuffle(words, [0, 1]))
    return T.Bind(b ^ mask)


SMLSL = Instruction(
    "smlsl", "neon", VECTOR, lambda total, a, b, _: _pairs(total, a, b), instructions=3, ahead=2
)


def _as_it_is(value: ir.Expr) -> ir.Expr:
    return value


@dataclass(frozen=True)
class LineSums:
    """How an instruction sums the lines of a packed matrix, which zero points of run-time matrices need.

    Attributes:
        row: Adds a vector of rows to a sum: (sum, vector of rows, weights) → sum.
        column: Adds a vector of columns to a sum: (sum, vector of columns, weights) → sum.
        of_row: Selects the sums for the lanes of accumulator `which`: (sums of a vector of rows, which) → int32x4.
        packed: Returns the form in which a vector of columns is stored.
        extra: k of a step that count twice in the sums of columns, and with weight 1 in those of rows.
    """

    row: Callable[[ir.Expr, ir.Expr, ir.Expr], ir.Expr]
    column: Callable[[ir.Expr, ir.Expr, ir.Expr], ir.Expr]
    of_row: Callable[[ir.Expr, int], ir.Expr]
    packed: Callable[[ir.Expr], ir.Expr] = _as_it_is
    extra: int = 0


SUMS: Mapping[Instruction, LineSums] = {
    SMMLA: LineSums(smmla, lambda total, b, weights: smmla(total, weights, b), lambda total, _: total),
    SDOT: LineSums(sdot, sdot, lambda total, which: tirx.Broadcast(tirx.Shuffle([total], [which]), LANES)),
    SMLSL: LineSums(
        lambda total, a, weights: _pairs(total, a, _inverted(weights)),
        lambda total, b, weights: _pairs(total, weights, b),
        lambda total, _: total,
        _inverted,
        HALF,
    ),
}


def units_of(core: Core) -> tuple[Instruction, ...]:
    """Return the instructions worth considering on a core."""
    found = tuple(unit for unit in (SMMLA, SDOT) if unit.feature in core.features)
    return found or ((SMLSL,) if core.neon else ())
