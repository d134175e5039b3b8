# SPDX-License-Identifier: Apache-2.0
"""The bf16 register tile on BFMMLA: a packed panel of rows times a packed panel of columns, summed in binary32.

A panel has SMMLA's layout (`mmla_tile`) with 4 elements of k of 16 bits instead of 8 bytes: [k / 4][pairs][2 rows][4
k]. Accumulator (i, j) holds the 2 x 2 block of row pair i and column pair j.

Error. Products of bfloat16 are exact in binary32. By the Arm ARM, BFMMLA adds two products, and then this pair to the
accumulator, with a rounding each (to odd if FPCR.EBF is 0), whose error is less than a unit in the last place, 2^-23.
So the error of a sum over K is at most (K / 2 + 2) 2^-23 of the sum of magnitudes. Products below 2^-126 are flushed to
0.
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
    """Whether the segments of a row are copied side by side first, because one is shorter than a vector."""
    return min(length for _, length in segments) < LANES


def order(segments: Segments) -> Array:
    """Return the k index of each element of a packed row, `NOTHING` for padding; the length is a multiple of 8."""
    if is_staged(segments):
        depth = sum(length for _, length in segments)
        return np.concatenate([np.arange(depth), np.full(-depth % LANES, NOTHING)])
    found, first = [], 0
    for _, length in segments:
        k = np.arange(first, first + length)
        whole = length // LANES * LANES
        # The last vector overlaps the one before, and overlapping elements count as padding.
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
    """Return (instructions that pack a pair of rows, those of them on vector registers).

    Each vector takes a load, a ZIP and a store.
    """
    vectors = BLOCK * steps_of(segments) // STEPS
    staged = (
        BLOCK * sum(len(copies.pieces(length, LANES)) for _, length in segments) if is_staged(segments) else 0
    )
    return 3 * vectors + 2 * staged, 2 * vectors + staged


def instructions(row_pairs: int, column_pairs: int, steps: int) -> tuple[float, float]:
    """Return (instructions of the k loop, those of them on vector registers)."""
    return mmla_tile.instructions(row_pairs, column_pairs, steps, unroll_of(steps))


def pack_columns(b: Array, column_pairs: int) -> Array:
    """Pack B, bfloat16 [n, k], into panels of int16 [panels, elements].

    n must be a multiple of 2 * column_pairs, and k a multiple of 4.
    """
    return mmla_tile.pack_columns(np.ascontiguousarray(b).view(np.int8), column_pairs).view(np.int16)


def pack_rows(segments: Segments, x: tirx.Buffer, panel: tirx.Buffer, starts: Sequence[ir.Expr]) -> None:
    """Emit the packing of a tile of rows.

    Args:
        segments: (offset from the row's start, length) of each contiguous piece of a row's k.
        x: Flat buffer of bfloat16 bits as int16.
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
    """Emit a copy of the rows' segments side by side, padded with zeros; return (buffer, offset of each row).

    The padding is multiplied by zero weights; without zeros, a NaN in it would make the sum NaN.
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
        a: Flat int16 buffer of the panel of A.
        b: Flat int16 buffer of the panels of B.
        b_panel: Offset of the panel in `b`.
        pairs: Number of row pairs and of column pairs.
        steps: K / 4, a multiple of `unroll`, as an expression that LLVM cannot fold. LLVM would unroll loops of a
            constant number of few steps, and then spill.
        unroll: Number of steps per loop iteration.
        start: Initial accumulator of each column pair, float32x4: c0 c1 c0 c1.

    Returns:
        The accumulators in row-major order, float32 [row][column], flat.
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
