# SPDX-License-Identifier: Apache-2.0
"""Instructions for products of two packed int8 run-time matrices: SMMLA, SDOT, or SMULL and SMLSL.

A vector holds 16 / step lines (rows of A or columns of B) by `step` elements of k. On cores without dotprod it holds 16
elements of one line, and an accumulator holds four partial sums of one output. The difference of two products of any
int8 fits 16 bits, while their sum may not:

    |a[0:8] * b[0:8] - a[8:16] * ~b[8:16]| <= 128 * 128 + 128 * 127 < 2**15

As ~b = -b - 1, this is the sum of both products and of a[8:16]. So columns are packed with the bits of the upper eight
bytes of each vector inverted. The term a[8:16] cancels, because the product by a column of zero points, inverted in the
same way, is subtracted:

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
    """Emit `total` + a * b + a[8:16], where b is a packed column vector (upper bytes inverted); exact for any int8."""
    products = smlsl(smull(low(a), low(b)), high(a), high(b))
    return pinned(sadalp(total, products))


def _inverted(b: ir.Expr) -> ir.Expr:
    """Return b (16 bytes) with the bits of its upper eight bytes inverted."""
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
    """How an instruction sums the lines of a packed matrix; zero points known at run time need these sums.

    Attributes:
        row: Adds a vector of rows to a sum: (sum, vector of rows, weights) → sum.
        column: Adds a vector of columns to a sum: (sum, vector of columns, weights) → sum.
        of_row: Selects the sums for the lanes of accumulator `which`: (sums of a vector of rows, which) → int32x4.
        packed: Returns a vector of columns as it is stored in a panel.
        extra: Number of elements of k per step for which SMLSL adds its extra term, a[8:16].
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
