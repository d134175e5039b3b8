# SPDX-License-Identifier: Apache-2.0
"""Packing of 8-bit run-time matrices into panels, with the sums of their lines (rows of A or columns of B).

A vector of a panel holds 16 / step lines by `step` elements of k, where `step` is the number of products that the
instruction sums per lane; a panel is [k / step][vectors][16]. In memory a matrix is contiguous along k or along its
lines; k is padded with zeros to a multiple of the step. Sums are weighted: each line's sum over k times a constant, in
the order of the accumulators' lanes.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.interleave import interleaved
from schedules.intrinsics.pin import barrier
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.kernels.common import copies
from schedules.kernels.gemm.product_s8 import flip
from schedules.kernels.gemm.run_time_instructions_s8 import SUMS
from schedules.kernels.tiles.packed_tile import Instruction
from schedules.kernels.tiles.tile_stores import load_part
from schedules.tir.emit import i64, load, store

UNROLL = 4
"""Steps of one iteration that packs contiguous lines: of all, LLVM would make straight code that spills."""

MANY_LINES = 4
"""Number of lines per vector for which LLVM spills on some cores, unless a barrier ends each vector's permutations."""


@dataclass(frozen=True)
class Lines:
    """Layout of a matrix [lines, depth] in a flat buffer, contiguous along one of its axes: `line` or `k` is 1.

    Attributes:
        depth: Size of the matrix along k.
        line: Distance in elements between two lines.
        k: Distance in elements between neighbours along k.
        zero: Zero point of the other matrix, by which the sums of the lines are multiplied; no sums if 0. An int32
            expression if it is an operand.
        flipped: Whether the data is uint8, to be read as int8 with its top bit flipped.
    """

    depth: int
    line: int
    k: int
    zero: int | ir.Expr
    flipped: bool


class Packer:
    """Emits the packing of a tile's lines, which are rows of A or columns of B."""

    def __init__(
        self,
        unit: Instruction,
        lines: Lines,
        source: tirx.Buffer,
        panel: tirx.Buffer,
        vectors: int,
        rows: bool,
    ) -> None:
        """Set up the packing of lines of the flat buffer `source` into the flat int8 buffer `panel`.

        A k step of the panel has `vectors` vectors. The lines are rows of A if `rows`, else columns of B.
        """
        self.unit, self.lines, self.source, self.panel, self.vectors = unit, lines, source, panel, vectors
        self._line_sums = SUMS[unit]
        self._sum = self._line_sums.row if rows else self._line_sums.column
        self._rows = rows
        known = isinstance(lines.zero, int)
        self.sums = not known or bool(lines.zero) or (rows and self._line_sums.extra > 0)
        """Whether the sums of lines are computed."""

    def pack(self, start: ir.Expr, count: int, to: ir.Expr) -> tirx.Buffer:
        """Emit the packing of `count` lines.

        Args:
            start: Offset of the first line in the source.
            count: Number of lines, at most as many as a panel has; the panel's other lines repeat one, or are zero.
            to: Offset of the panel in its buffer.

        Returns:
            The weighted sums, int32 [vectors][4] flat; undefined if there are none.
        """
        sums = T.alloc_buffer((self.vectors * LANES,), "int32", layout=None)
        if self.sums:
            zero = tirx.Broadcast(tirx.IntImm("int32", 0), LANES)
            for vector in range(self.vectors):
                store(sums, zero, i64(vector * LANES), LANES)
        pack = self._along_k if self.lines.k == 1 else self._across_k
        pack(start, count, to, sums)
        return sums

    def _put(self, value: ir.Expr, to: ir.Expr, step: ir.Expr, vector: int, sums: tirx.Buffer) -> None:
        value = T.Bind(value if self._rows else self._line_sums.packed(value))
        store(self.panel, value, to + (step * self.vectors + vector) * VECTOR, VECTOR)
        if self.sums:
            zero = self.lines.zero
            weight = tirx.IntImm("int8", zero) if isinstance(zero, int) else tirx.Cast("int8", zero)
            weights = tirx.Broadcast(weight, VECTOR)
            total = sums.vload([i64(vector * LANES)], "int32x4")
            store(sums, self._sum(total, value, weights), i64(vector * LANES), LANES)

    def _along_k(self, start: ir.Expr, count: int, to: ir.Expr, sums: tirx.Buffer) -> None:
        """Emit the packing of lines with contiguous k.

        Load 16 elements of each line, and interleave the lines so that each vector holds one step of k.
        """
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
                if unit.lines == MANY_LINES:
                    barrier()

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
        """Emit the packing of a matrix in which neighbouring lines, not neighbours along k, are adjacent in memory.

        For each element of k of a step, load up to 16 lines, and interleave these loads into the step's vectors.
        """
        unit, lines = self.unit, self.lines
        whole, rest = divmod(lines.depth, unit.step)

        def block(step: ir.Expr, depth: int) -> None:
            for first, own in copies.pieces(self.vectors * unit.lines, VECTOR):
                lanes = max(2, own)
                zero = tirx.Broadcast(tirx.IntImm("int8", 0), lanes)
                rows = [
                    self._part(
                        start + ((step * unit.step + k) * lines.k + first), min(lanes, count - first), lanes
                    )
                    if k < depth and first < count
                    else zero
                    for k in range(unit.step)
                ]
                for index, value in enumerate(interleaved(rows, "int8x16")[: -(-own // unit.lines)]):
                    self._put(value, to, step, first // unit.lines + index, sums)

        trips = whole // UNROLL
        if trips:
            with T.serial(i64(0), i64(trips)) as outer:
                for u in range(UNROLL):
                    block(outer * UNROLL + u, unit.step)
                barrier()
        for last in range(trips * UNROLL, whole):
            block(i64(last), unit.step)
        if rest:
            block(i64(whole), rest)

    def _part(self, at: ir.Expr, count: int, lanes: int) -> ir.Expr:
        """Load `lanes` elements of the source, of which only the first `count` may be read from memory."""
        return T.Bind(flip(load_part(self.source, at, count, lanes), self.lines.flipped))
