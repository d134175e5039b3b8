# SPDX-License-Identifier: Apache-2.0
"""Packing of float32 or float16 run-time matrices into panels, float32 [k][width] in the k order of `fmla_tile`."""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.interleave import interleaved
from schedules.intrinsics.registers import LANES
from schedules.kernels.common import copies
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import converted, i64, load, store


@dataclass(frozen=True)
class Matrix:
    """Layout of a matrix B in a flat buffer. B is contiguous along one of its axes: `k` or `column` is 1.

    Attributes:
        depth: Size of the matrix along k.
        columns: Number of columns.
        k: Distance in elements between neighbours along k.
        column: Distance in elements between two columns.
    """

    depth: int
    columns: int
    k: int
    column: int


PACKING = 3
"""Instructions per packed vector: a load, a store and, where k is contiguous, a permutation."""


def widths(columns: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (width, number) of the full panels, and of the narrower last panel (number 0 if there is none)."""
    full, rest = divmod(columns, width)
    return (width, full), (-(-rest // LANES) * LANES, int(rest > 0))


def each_panel(columns: int, width: int, body: Callable[[ir.Expr, int, int], None]) -> None:
    """Emit `body` for each panel with (first column, number of columns without padding, width)."""
    (_, full), (last, _) = widths(columns, width)
    if full:
        with T.serial(i64(0), i64(full)) as panel:
            body(T.Bind(panel * width), width, width)
    if last:
        body(i64(full * width), columns - full * width, last)


def pack(
    source: tirx.Buffer, start: ir.Expr, b: Matrix, columns: int, width: int, panels: tirx.Buffer, to: ir.Expr
) -> None:
    """Emit the packing of one panel.

    Args:
        source: Flat, float32 or float16.
        start: Offset in the source of the panel's first column.
        b: Layout of the matrix in `source`.
        columns: Number of columns that the matrix has in the panel; the others repeat the last, or are zero.
        width: Number of columns of the panel, a multiple of four.
        panels: Flat float32 buffer.
        to: Offset of the panel in `panels`.
    """
    put = _across if b.column == 1 else _along
    parts, trips = fmla_tile.unrolled(b.depth)

    def vector(at: ir.Expr, place: ir.Expr, count: int) -> None:
        """Emit the packing of `count` elements of k (at most four) from `at` on, into panel rows from `place` on."""
        put(
            source,
            start + at * b.k,
            b,
            columns,
            width,
            count,
            lambda row, c: (panels, to + (place + row) * width + c),
        )

    if trips:
        with T.serial(i64(0), i64(trips)) as trip:
            for part in range(parts):
                vector((trip + part * trips) * LANES, (trip * parts + part) * LANES, LANES)
    for done in range(parts * trips * LANES, b.depth, LANES):
        vector(i64(done), i64(done), min(LANES, b.depth - done))


Place = Callable[[int, int], tuple[tirx.Buffer, ir.Expr]]


def _across(
    source: tirx.Buffer, at: ir.Expr, b: Matrix, columns: int, width: int, count: int, place: Place
) -> None:
    """Emit the packing of `count` rows of a matrix with contiguous columns: a copy of each row."""
    for row in range(count):
        target, to = place(row, 0)
        copies.copy(source, at + row * b.k, target, to, columns)
        copies.fill(target, to + columns, width - columns, 0)


def _along(
    source: tirx.Buffer, at: ir.Expr, b: Matrix, columns: int, width: int, count: int, place: Place
) -> None:
    """Emit the packing of `count` rows of a matrix with contiguous k: transpositions of 4 x 4 blocks."""
    for first in range(0, width, LANES):
        lines = [at + min(first + c, columns - 1) * b.column for c in range(LANES)]
        if count == LANES:
            rows = interleaved(
                [converted(load(source, line, LANES), "float32") for line in lines], "float32x4"
            )
        else:
            stage = T.alloc_buffer((LANES * LANES,), "float32", layout=None)
            for c, line in enumerate(lines):
                copies.copy(source, line, stage, i64(c * LANES), count)
            rows = interleaved([load(stage, i64(c * LANES), LANES) for c in range(LANES)], "float32x4")
        for row, value in enumerate(rows[:count]):
            target, to = place(row, first)
            store(target, value, to, LANES)
