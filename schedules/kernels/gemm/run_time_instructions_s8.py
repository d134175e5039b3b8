# SPDX-License-Identifier: Apache-2.0
"""Instructions for products of two packed int8 run-time matrices: SMMLA, SDOT, or SMULL and SMLSL.

A vector holds 16 / step lines by step k. On cores without dotprod it is 16 k of one line, and accumulators hold four
partial sums of one output. Two products of any int8 fit 16 bits where one is subtracted, and not where both are added:

    |a[0:8] * b[0:8] - a[8:16] * ~b[8:16]| <= 128 * 128 + 128 * 127 < 2**15

That is, as ~b = -b - 1, the sum of both products and of a[8:16]. So columns are packed with their second eights
inverted; what is of A alone falls out against the product with a column of zero points, inverted alike:

    (a * b + a[8:16]) - (a * zb + a[8:16]) = a * (b - zb)
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics import mmla
from schedules.intrinsics.pin import pinned
from schedules.intrinsics.sdot import FEATURE as DOTPROD
from schedules.intrinsics.sdot import sdot, sdot_lane
from schedules.intrinsics.smull import sadalp, smlsl, smull
from schedules.intrinsics.vector import high, low

VECTOR = 16
"""Bytes of a vector register."""

LANES = 4
"""int32 lanes of a vector register."""

HALF = VECTOR // 2
"""Elements of half a vector register."""


def _as_it_is(value: ir.Expr) -> ir.Expr:
    return value


@dataclass(frozen=True)
class Instruction:
    """An instruction that multiplies packed lines (rows of A by columns of B).

    Attributes:
        name: Its mnemonic.
        feature: Feature that a core must have.
        step: k that it sums over.
        multiply: (accumulator, vector of rows, vector of columns, which) to the accumulator: a pair of vectors has
            `accumulators` of them.
        accumulators: One, of 2 x 2 elements, or one a row.
        row_sum: (sum, vector of rows, weights) to the sum.
        column_sum: (sum, vector of columns, weights) to the sum.
        of_row: (sums of a vector of rows, which) to what belongs to the lanes of accumulator `which`.
        packed: Converts a vector of columns to its packed form.
        extra: k of a step that count twice in the sums of columns, and with weight 1 in those of rows.
        instructions: Instructions of one product.
        ahead: How many vectors of columns are loaded before they are used, where LLVM does not move loads.
    """

    name: str
    feature: str
    step: int
    accumulators: int
    multiply: Callable[[ir.Expr, ir.Expr, ir.Expr, int], ir.Expr]
    row_sum: Callable[[ir.Expr, ir.Expr, ir.Expr], ir.Expr]
    column_sum: Callable[[ir.Expr, ir.Expr, ir.Expr], ir.Expr]
    of_row: Callable[[ir.Expr, int], ir.Expr]
    packed: Callable[[ir.Expr], ir.Expr] = _as_it_is
    extra: int = 0
    instructions: int = 1
    ahead: int = 0

    @property
    def lines(self) -> int:
        """Number of lines in a packed vector."""
        return VECTOR // self.step

    @property
    def partial(self) -> bool:
        """Whether an accumulator holds four partial sums of one output."""
        return self.lines == 1


SMMLA = Instruction(
    "smmla",
    mmla.FEATURE,
    mmla.K_STEP,
    1,
    lambda acc, a, b, _: mmla.smmla(acc, a, b),
    lambda total, a, weights: mmla.smmla(total, a, weights),
    lambda total, b, weights: mmla.smmla(total, weights, b),
    lambda total, _: total,
)

SDOT = Instruction(
    "sdot",
    DOTPROD,
    4,
    4,
    lambda acc, a, b, which: sdot_lane(acc, b, a, which),
    sdot,
    sdot,
    lambda total, which: tirx.Broadcast(tirx.Shuffle([total], [which]), LANES),
)


def _pairs(total: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The partial sums and a * b + a[8:16], for columns b as they are packed; exact for any int8."""
    products = smlsl(smull(low(a), low(b)), high(a), high(b))
    return pinned(sadalp(total, products))


def _inverted(b: ir.Expr) -> ir.Expr:
    """The second eight of 16 bytes inverted."""
    words = [tirx.IntImm("int64", word) for word in (0, -1)]
    mask = tirx.reinterpret("int8x16", tirx.Shuffle(words, [0, 1]))
    return T.Bind(b ^ mask)


SMLSL = Instruction(
    "smlsl",
    "neon",
    VECTOR,
    1,
    lambda total, a, b, _: _pairs(total, a, b),
    lambda total, a, weights: _pairs(total, a, _inverted(weights)),
    lambda total, b, weights: _pairs(total, weights, b),
    lambda total, _: total,
    _inverted,
    HALF,
    3,
    2,
)


def units_of(core: Core) -> tuple[Instruction, ...]:
    """Return the instructions worth considering on a core."""
    found = tuple(unit for unit in (SMMLA, SDOT) if unit.feature in core.features)
    return found or ((SMLSL,) if core.neon else ())
