# SPDX-License-Identifier: Apache-2.0
"""The bf16 register tile on BFMMLA: a packed panel of rows by a packed panel of columns, summed up in binary32.

A panel is as SMMLA's (`mmla_tile`) with half as many k, of twice the size: [k / 4][pairs][2 rows][4 k]. Accumulator
(i, j) holds the 2 x 2 block of row pair i and column pair j.

Error. Products of bfloat16 are exact in binary32. Arm ARM, BFMMLA: two pairs of products are added, then these to the
sum, each rounded, to odd where FPCR.EBF is 0, which is off by less than a unit in the last place, 2^-23. So a sum over
K is off by at most (K / 2 + 2) 2^-23 of the sum of magnitudes. Products below 2^-126 are taken as 0.
"""

from collections.abc import Sequence

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.bfloat import K_STEP, LANES
from schedules.intrinsics.mmla import BLOCK
from schedules.intrinsics.registers import LANES as WIDE_LANES
from schedules.intrinsics.vector import zip_halves
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array
from schedules.kernels.gemm.product import NOTHING
from schedules.kernels.tiles import mmla_tile
from schedules.kernels.tiles.packed_tile import BFMMLA, PackedTile
from schedules.tir.emit import i64, load, store

STEPS = LANES // K_STEP
"""Number of k steps that a vector of one row holds."""

UNROLL = (4, 2)
"""Numbers of k steps of a loop iteration; the first that divides all of them is taken."""

Segments = Sequence[tuple[int, int]]


def is_staged(segments: Segments) -> bool:
    """Whether rows are copied side by side first: a piece is less than a vector."""
    return min(length for _, length in segments) < LANES


def order(segments: Segments) -> Array:
    """Return the k index of each element of a packed row, or `NOTHING`; the length is a multiple of eight."""
    if is_staged(segments):
        depth = sum(length for _, length in segments)
        return np.concatenate([np.arange(depth), np.full(-depth % LANES, NOTHING)])
    found, first = [], 0
    for _, length in segments:
        k = np.arange(first, first + length)
        whole = length // LANES * LANES
        # The last vector overlaps the one before, so the padding comes before its elements.
        found += [k[:whole], np.full(-length % LANES, NOTHING), k[whole:]]
        first += length
    return np.concatenate(found)


def steps_of(segments: Segments) -> int:
    """Return the number of k steps of a packed row."""
    return len(order(segments)) // K_STEP


def unroll_of(steps: int) -> int:
    """Return the number of k steps of a loop iteration."""
    return next(unroll for unroll in UNROLL if steps % unroll == 0)


def packing_instructions(segments: Segments) -> tuple[float, float]:
    """Return the instructions that pack a pair of rows: all, and those on vector registers.

    Each vector takes a load, a ZIP and a store.
    """
    vectors = BLOCK * steps_of(segments) // STEPS
    staged = (
        BLOCK * sum(len(copies.pieces(length, LANES)) for _, length in segments) if is_staged(segments) else 0
    )
    return 3 * vectors + 2 * staged, 2 * vectors + staged


def instructions(row_pairs: int, column_pairs: int, steps: int) -> tuple[float, float]:
    """Return the number of instructions of the k loop: all, and those on vector registers."""
    return mmla_tile.instructions(row_pairs, column_pairs, steps, unroll_of(steps))


def pack_columns(b: Array, column_pairs: int) -> Array:
    """Pack B, bfloat16 [n, k], into panels of int16 [panels, elements].

    n is a multiple of 2 * column_pairs, and k of 4.
    """
    return mmla_tile.pack_columns(np.ascontiguousarray(b).view(np.int8), column_pairs).view(np.int16)


def pack_rows(segments: Segments, x: tirx.Buffer, panel: tirx.Buffer, starts: Sequence[ir.Expr]) -> None:
    """Emit the packing of a tile of rows.

    Args:
        segments: (offset from the row's start, length) of each contiguous piece of a row's k.
        x: bfloat16 as int16, flat.
        panel: Flat int16.
        starts: Offset of each row, an even number of them.
    """
    if is_staged(segments):
        pitch = len(order(segments))
        x, starts = _staged(segments, x, starts, pitch)
        segments = ((0, pitch),)
    pairs, at = len(starts) // BLOCK, 0
    for offset, length in segments:
        vectors = -(-length // LANES)
        with T.serial(i64(0), i64(vectors)) as vector:
            place = vector * LANES if length % LANES == 0 else tirx.min(vector * LANES, length - LANES)
            k = T.Bind(place + offset)
            to = T.Bind((vector * STEPS + at) * (pairs * LANES))
            for pair in range(pairs):
                rows = [load(x, starts[BLOCK * pair + r] + k, LANES) for r in range(BLOCK)]
                for step, value in enumerate(zip_halves(rows[0], rows[1], "int64x2")):
                    store(panel, value, to + (step * pairs + pair) * LANES, LANES)
        at += vectors * STEPS


def _staged(
    segments: Segments, x: tirx.Buffer, starts: Sequence[ir.Expr], pitch: int
) -> tuple[tirx.Buffer, list[ir.Expr]]:
    """Emit a copy of the rows' segments side by side, with zeros behind them.

    Without zeros, a NaN beyond k times a weight of zero would be one.
    """
    stage = T.alloc_buffer((pitch * len(starts),), x.dtype, layout=None)
    for row, start in enumerate(starts):
        at = row * pitch
        for offset, length in segments:
            copies.copy(x, start + offset, stage, i64(at), length)
            at += length
        copies.fill(stage, i64(at), (row + 1) * pitch - at, 0)
    return stage, [i64(row * pitch) for row in range(len(starts))]


def multiply(
    a: tirx.Buffer,
    b: tirx.Buffer,
    b_panel: ir.Expr,
    pairs: tuple[int, int],
    steps: ir.Expr,
    unroll: int,
    start: Sequence[ir.Expr],
) -> tirx.Buffer:
    """Emit the sum over k of one tile.

    Args:
        a: Flat int16: the panel of A.
        b: Flat int16.
        b_panel: Offset of the panel in `b`.
        pairs: Pairs of rows, of columns.
        steps: K / 4, a multiple of `unroll`, as an expression that LLVM cannot fold: it unrolls loops of few steps, and
            then spills.
        unroll: Steps of one loop iteration.
        start: float32x4 for each column pair, c0 c1 c0 c1: what the accumulators start from.

    Returns:
        The accumulators by rows, float32 [row][column], flat.
    """
    rows, columns = pairs
    tile = PackedTile(BFMMLA, rows, columns)
    acc = tile.accumulators()
    for column, value in enumerate(start):
        for row in range(rows):
            store(acc, value, tile.place(row, column), WIDE_LANES)
    with T.serial(i64(0), tirx.floordiv(steps, unroll)) as outer:
        for u in range(unroll):
            tile.step(acc, (a, i64(0)), (b, b_panel), outer * unroll + u)
    by_rows = T.alloc_buffer((rows * columns * WIDE_LANES,), "float32", layout=None)
    for pair in range(rows):
        for column in range(0, columns, BLOCK):
            at = (pair * columns + column) * WIDE_LANES
            blocks = [acc.vload([i64(at + c * WIDE_LANES)], "float32x4") for c in range(BLOCK)]
            for r, value in enumerate(zip_halves(blocks[0], blocks[1], "int64x2")):
                to = ((pair * BLOCK + r) * columns + column) * BLOCK
                store(by_rows, value, i64(to), WIDE_LANES)
    return by_rows
