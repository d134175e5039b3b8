# SPDX-License-Identifier: Apache-2.0
"""Packing of float32 or float16 run-time matrices into panels for `fmla_tile`, float32 [k, in its order][width]."""

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
    """A matrix B in a flat buffer, contiguous along one of its axes: `k` or `column` is 1.

    Attributes:
        depth: Size of the matrix along k.
        columns: Number of columns.
        k: Elements from a k to the next.
        column: Elements from a column to the next.
    """

    depth: int
    columns: int
    k: int
    column: int


PACKING = 3
"""Instructions per packed vector: a load, a store and, where k is contiguous, a permutation."""


def widths(columns: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (width, how many) of full panels, and of the last, which is as narrow as the columns allow."""
    full, rest = divmod(columns, width)
    return (width, full), (-(-rest // LANES) * LANES, int(rest > 0))


def each_panel(columns: int, width: int, body: Callable[[ir.Expr, int, int], None]) -> None:
    """Emit `body` for each panel: (first column, number of real columns, width)."""
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
        start: Offset of the panel's first column in the source.
        b: Layout of the matrix in `source`.
        columns: Columns of the panel that the matrix has; the others repeat the last, or are zero.
        width: Columns of the panel, a multiple of four.
        panels: Flat float32 buffer.
        to: Offset of the panel there.
    """
    put = _across if b.column == 1 else _along
    parts, trips = fmla_tile.unrolled(b.depth)

    def vector(at: ir.Expr, place: ir.Expr, count: int) -> None:
        """Emit four k from `at`, or the last `count`, into the panel's rows from `place`."""
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
    """Emit copies of rows whose columns are contiguous."""
    for row in range(count):
        target, to = place(row, 0)
        copies.copy(source, at + row * b.k, target, to, columns)
        copies.fill(target, to + columns, width - columns, 0)


def _along(
    source: tirx.Buffer, at: ir.Expr, b: Matrix, columns: int, width: int, count: int, place: Place
) -> None:
    """Emit transpositions of blocks of four by four: k is contiguous."""
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
