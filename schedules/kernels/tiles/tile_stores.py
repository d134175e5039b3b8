# SPDX-License-Identifier: Apache-2.0
"""Requantised stores of a register tile: four vectors of accumulators become 16 elements of int8, uint8 or int16.

A row of a tile has 16 elements per vector, or eight: two such rows share a vector.
"""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.mmla import BLOCK
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.intrinsics.vector import high, low, unzip
from schedules.kernels.common import copies
from schedules.tir.emit import i64, load

HALF = VECTOR // 2
"""Bytes of half a vector register."""

Accumulator = Callable[[int, int], ir.Expr]
"""int32x4 by row, or pair of rows, and vector of columns."""

Requantize = Callable[[Sequence[ir.Expr], Sequence[int]], ir.Expr]
"""Four accumulators, each of a vector of columns, to 16 bytes in their order."""

Put = Callable[[ir.Expr, int, int, Sequence[int]], None]
"""Takes 16 bytes: (values, first column, how many of a row, rows)."""


def of_blocks(acc: Accumulator, pairs: int, vectors: int, requantize: Requantize, put: Put) -> None:
    """Emit the requantisation of 2 x 2 blocks, and pass the rows of each pair to `put`.

    Args:
        acc: Returns an accumulator: a block r0c0 r0c1 r1c0 r1c1.
        pairs: Number of pairs of rows.
        vectors: Number of pairs of columns, 4 or 8.
        requantize: Requantises accumulators to bytes.
        put: Stores the bytes.
    """

    def quarter(pair: int, first: int) -> ir.Expr:
        own = range(first, first + 4)
        return T.Bind(requantize([acc(pair, column) for column in own], own))

    for pair in range(0, pairs, 8 // vectors):
        below = min(pair + 1, pairs - 1)
        first = quarter(pair, 0)
        second = quarter(pair, 4) if vectors == 8 else first if below == pair else quarter(below, 0)
        lines = [2 * pair] if vectors == 8 or below == pair else [2 * pair, 2 * below]
        # A lane holds two neighbouring columns, of one or two bytes each.
        wide = str(first.ty.dtype).startswith("int16")
        for odd, values in enumerate(unzip(first, second, "int32x8" if wide else "int16x8")):
            put(T.Bind(values), 0, BLOCK * vectors, [line + odd for line in lines])


def of_rows(acc: Accumulator, rows: int, vectors: int, requantize: Requantize, put: Put) -> None:
    """Emit the requantisation of accumulators of one row each: 16 columns of a row, or eight columns of two rows.

    Args:
        acc: Returns an accumulator: four columns of a row.
        rows: Number of rows.
        vectors: Number of vectors of columns, even.
        requantize: Requantises accumulators to bytes.
        put: Stores the bytes.
    """

    def quarter(places: Sequence[tuple[int, int]]) -> ir.Expr:
        return T.Bind(requantize([acc(*place) for place in places], [v for _, v in places]))

    for v in range(0, vectors // 4 * 4, 4):
        for row in range(rows):
            put(quarter([(row, v + i) for i in range(4)]), LANES * v, VECTOR, [row])
    if vectors % 4:
        v = vectors - 2
        for row in range(0, rows, 2):
            below = min(row + 1, rows - 1)
            values = quarter([(row, v), (row, v + 1), (below, v), (below, v + 1)])
            put(values, LANES * v, HALF, [row] if below == row else [row, below])


def pieces(values: ir.Expr, lanes: int) -> list[ir.Expr]:
    """Split a vector of 16 bytes into one piece per row: the whole vector, or its halves."""
    return [values] if lanes == VECTOR else [low(values), high(values)]


def load_part(source: tirx.Buffer, at: ir.Expr, count: int, lanes: int) -> ir.Expr:
    """Emit the load of a vector of `lanes` elements at `at`; only the first `count` may be read from memory."""
    if count == lanes:
        return load(source, at, lanes)
    stage = T.alloc_buffer((lanes,), source.dtype, layout=None)
    copies.fill(stage, i64(0), lanes, 0)
    copies.copy(source, at, stage, i64(0), count)
    return load(stage, i64(0), lanes)
