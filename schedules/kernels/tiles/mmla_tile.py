# SPDX-License-Identifier: Apache-2.0
"""The int8 register tile on SMMLA: a packed panel of rows times a packed panel of columns.

Rows and columns are packed in pairs. A panel of A is [k / 8][pairs][2 rows][8 k], one of B [k / 8][pairs][2 columns][8
k]; accumulator (i, j) holds the 2 x 2 block of row pair i and column pair j: r0c0 r0c1 r1c0 r1c1.
"""

from collections.abc import Callable, Sequence

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.mmla import BLOCK, K_STEP
from schedules.intrinsics.opaque import opaque_view
from schedules.intrinsics.registers import LANES, STREAMING_PAIR, check_tile
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import LOOP_OVERHEAD
from schedules.kernels.tiles.packed_tile import SMMLA, PackedTile
from schedules.tir.emit import i64, store


def check_registers(row_pairs: int, column_pairs: int) -> None:
    """Raise ValueError if a tile's accumulators, its vectors of A and two vectors of B exceed the register file."""
    needed = row_pairs * column_pairs + row_pairs + STREAMING_PAIR
    check_tile(f"a tile of {row_pairs} x {column_pairs} pairs", (row_pairs, column_pairs), needed)


def instructions(row_pairs: int, column_pairs: int, steps: int, unroll: int) -> tuple[float, float]:
    """Return (instructions of the k loop and of initial accumulators' loads, those of them on vector pipes)."""
    products = row_pairs * column_pairs
    loads = steps * (row_pairs + column_pairs) / 2 + products / 2
    vector = steps * products
    return vector + loads + steps / unroll * LOOP_OVERHEAD, vector


def pack_columns(b: Array, column_pairs: int) -> Array:
    """Pack B, int8 [n, k], into panels [n / (2 * column_pairs), bytes].

    n must be a multiple of 2 * column_pairs, and k a multiple of 8.
    """
    n, k = b.shape
    blocks = b.reshape(n // (BLOCK * column_pairs), column_pairs, BLOCK, k // K_STEP, K_STEP)
    return np.ascontiguousarray(blocks.transpose(0, 3, 1, 2, 4)).reshape(len(blocks), -1)


def in_blocks(values: Array) -> Array:
    """Reorder one value per column, [n], into the order of the accumulators' lanes: c0 c1 c0 c1."""
    return np.repeat(values.reshape(-1, 1, BLOCK), BLOCK, axis=1).ravel()


def multiply(
    a: tirx.Buffer,
    a_panel: ir.Expr,
    b: tirx.Buffer,
    b_panel: ir.Expr,
    pairs: tuple[int, int],
    steps: int,
    unroll: int,
    start: Callable[[int], Sequence[ir.Expr]],
) -> tirx.Buffer:
    """Emit the sum over k of one tile; must be called within `opaque.opaques`.

    Args:
        a: Flat int8 buffer of packed rows.
        a_panel: Offset of the panel in `a`.
        b: Flat int8 buffer of packed columns, which the PrimFunc never writes to.
        b_panel: Offset of the panel in `b`.
        pairs: Number of row pairs and of column pairs.
        steps: K / 8.
        unroll: Number of steps per loop iteration.
        start: Returns the initial accumulators of a row pair, one int32x4 per column pair.

    Returns:
        The accumulators, int32 [row pair][column pair][4], flat.
    """
    tile = PackedTile(SMMLA, *pairs)
    acc = tile.accumulators()
    for row in range(tile.rows):
        for column, value in enumerate(start(row)):
            store(acc, value, tile.place(row, column), LANES)

    def some(first: ir.Expr, count: int) -> None:
        rows, columns = (tile.unit.elements * size for size in pairs)
        own = a, a_panel + first * rows
        panel = opaque_view(b, b_panel + first * columns), i64(0)
        for step in range(count):
            tile.step(acc, own, panel, i64(step))

    full = steps // unroll
    if full > 1:
        with T.serial(i64(0), i64(full)) as outer:
            some(outer * unroll, unroll)
    done = full * unroll if full > 1 else 0
    some(i64(done), steps - done)
    return acc
