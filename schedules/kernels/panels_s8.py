# SPDX-License-Identifier: Apache-2.0
"""Packing 8-bit matrices of run time into the panels that SMMLA and SDOT read, and summing their lines on the way.

A vector of a panel holds 16 / step lines by step k, and a panel is [k / step][vectors][16]. The same form serves the
rows of A and the columns of B. A matrix lies with its k contiguous, or with its lines contiguous; what the last step
lacks is zero. Sums are weighted: each line's sum over k times a constant, in the order of the accumulators' lanes.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.emit import i64, load, store
from schedules.intrinsics import mmla
from schedules.intrinsics.interleave import interleaved
from schedules.intrinsics.sdot import FEATURE as DOTPROD
from schedules.intrinsics.sdot import sdot, sdot_lane
from schedules.kernels import copies
from schedules.kernels.product_s8 import flip
from schedules.kernels.tile_rows import load_part

VECTOR = 16
"""Bytes of a vector register."""

LANES = 4
"""int32 lanes of a vector register."""


@dataclass(frozen=True)
class Unit:
    """An instruction that multiplies packed lines.

    Attributes:
        name: Its mnemonic.
        feature: What a core must have.
        step: k that it sums over.
        multiply: (accumulator, vector of rows, vector of columns, which) to the accumulator: a pair of vectors has
            `accumulators` of them.
        accumulators: One, of 2 x 2 elements, or one a row.
        row_sum: (sum, vector of rows, weights) to the sum.
        column_sum: (sum, vector of columns, weights) to the sum.
        of_row: (sums of a vector of rows, which) to what belongs to the lanes of accumulator `which`.
    """

    name: str
    feature: str
    step: int
    accumulators: int
    multiply: Callable[[ir.Expr, ir.Expr, ir.Expr, int], ir.Expr]
    row_sum: Callable[[ir.Expr, ir.Expr, ir.Expr], ir.Expr]
    column_sum: Callable[[ir.Expr, ir.Expr, ir.Expr], ir.Expr]
    of_row: Callable[[ir.Expr, int], ir.Expr]

    @property
    def lines(self) -> int:
        """Lines of a vector."""
        return VECTOR // self.step


SMMLA = Unit(
    "smmla",
    mmla.FEATURE,
    mmla.K_STEP,
    1,
    lambda acc, a, b, _: mmla.smmla(acc, a, b),
    lambda total, a, weights: mmla.smmla(total, a, weights),
    lambda total, b, weights: mmla.smmla(total, weights, b),
    lambda total, _: total,
)

SDOT = Unit(
    "sdot",
    DOTPROD,
    4,
    4,
    lambda acc, a, b, which: sdot_lane(acc, b, a, which),
    sdot,
    sdot,
    lambda total, which: tirx.Broadcast(tirx.Shuffle([total], [which]), LANES),
)


@dataclass(frozen=True)
class Lines:
    """A matrix [lines, depth] in a flat buffer; `line` or `k` is 1.

    Attributes:
        depth: Its k.
        line: Elements from a line to the next.
        k: Elements from a k to the next.
        zero: What the other matrix's zero point weights the sums of the lines with; no sums if 0.
        flipped: Whether the data is uint8, to be read as int8 with its top bit flipped.
    """

    depth: int
    line: int
    k: int
    zero: int
    flipped: bool


class Packer:
    """Packs the lines of one tile."""

    def __init__(
        self, unit: Unit, lines: Lines, source: tirx.Buffer, panel: tirx.Buffer, vectors: int, rows: bool
    ) -> None:
        """Packs `lines` of `source`, flat, for `unit` into `panel`, flat int8, `vectors` a k step; rows or columns."""
        self.unit, self.lines, self.source, self.panel, self.vectors = unit, lines, source, panel, vectors
        self._sum = unit.row_sum if rows else unit.column_sum

    def pack(self, start: ir.Expr, count: int, to: ir.Expr) -> tirx.Buffer:
        """Emits the packing of `count` lines.

        Args:
            start: Offset of the first in the source.
            count: At most those of the panel; the others repeat one, or are zero.
            to: Offset of the panel in its buffer.

        Returns:
            The weighted sums, int32 [vectors][4] flat; undefined if there is no weight.
        """
        sums = T.alloc_buffer((self.vectors * LANES,), "int32", layout=None)
        if self.lines.zero:
            zero = tirx.Broadcast(tirx.IntImm("int32", 0), LANES)
            for vector in range(self.vectors):
                store(sums, zero, i64(vector * LANES), LANES)
        pack = self._along_k if self.lines.k == 1 else self._across_k
        pack(start, count, to, sums)
        return sums

    def _put(self, value: ir.Expr, to: ir.Expr, step: ir.Expr, vector: int, sums: tirx.Buffer) -> None:
        value = T.Bind(value)
        store(self.panel, value, to + (step * self.vectors + vector) * VECTOR, VECTOR)
        if self.lines.zero:
            weights = tirx.Broadcast(tirx.IntImm("int8", self.lines.zero), VECTOR)
            total = sums.vload([i64(vector * LANES)], "int32x4")
            store(sums, self._sum(total, value, weights), i64(vector * LANES), LANES)

    def _along_k(self, start: ir.Expr, count: int, to: ir.Expr, sums: tirx.Buffer) -> None:
        """Packs lines whose k is contiguous: 16 k of the lines of a vector are as many vectors, one a step."""
        unit, lines = self.unit, self.lines
        whole, rest = divmod(lines.depth, VECTOR)
        element = f"int{8 * unit.step}x{unit.lines}"
        places = [
            [min(v * unit.lines + e, count - 1) for e in range(unit.lines)] for v in range(self.vectors)
        ]

        def chunk(source: tirx.Buffer, at: Callable[[int], ir.Expr], step: ir.Expr, steps: int) -> None:
            for vector, group in enumerate(places):
                rows = [flip(load(source, at(line), VECTOR), lines.flipped) for line in group]
                for s, value in enumerate(interleaved(rows, element)[:steps]):
                    self._put(value, to, step + s, vector, sums)

        per = VECTOR // unit.step
        if whole:
            with T.serial(i64(0), i64(whole)) as outer:
                chunk(
                    self.source, lambda line: start + (line * lines.line + outer * VECTOR), outer * per, per
                )
        if rest:
            stage = T.alloc_buffer((count * VECTOR,), self.source.dtype, layout=None)
            for line in range(count):
                # uint8 128 is 0 once its top bit is flipped.
                copies.fill(stage, i64(line * VECTOR), VECTOR, 128 if lines.flipped else 0)
                where = start + (line * lines.line + whole * VECTOR)
                copies.copy(self.source, where, stage, i64(line * VECTOR), rest)
            chunk(stage, lambda line: i64(line * VECTOR), i64(whole * per), -(-rest // unit.step))

    def _across_k(self, start: ir.Expr, count: int, to: ir.Expr, sums: tirx.Buffer) -> None:
        """Packs contiguous lines: a step's k of up to 16 lines are as many vectors as there are k, or parts."""
        unit, lines = self.unit, self.lines
        whole, rest = divmod(lines.depth, unit.step)

        def block(step: ir.Expr, depth: int) -> None:
            for first, lanes in copies.pieces(self.vectors * unit.lines, VECTOR):
                zero = tirx.Broadcast(tirx.IntImm("int8", 0), lanes)
                rows = [
                    self._part(
                        start + ((step * unit.step + k) * lines.k + first), min(lanes, count - first), lanes
                    )
                    if k < depth and first < count
                    else zero
                    for k in range(unit.step)
                ]
                for index, value in enumerate(interleaved(rows, "int8x16")):
                    self._put(value, to, step, first // unit.lines + index, sums)

        if whole:
            with T.serial(i64(0), i64(whole)) as step:
                block(step, unit.step)
        if rest:
            block(i64(whole), rest)

    def _part(self, at: ir.Expr, count: int, lanes: int) -> ir.Expr:
        """`lanes` elements of the source, of which only the first `count` may be read."""
        return T.Bind(flip(load_part(self.source, at, count, lanes), self.lines.flipped))
