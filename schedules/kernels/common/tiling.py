# SPDX-License-Identifier: Apache-2.0
"""Tiling of int8 products into tasks, each a row tile by a block of columns, with separate code for tails."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics import sve
from schedules.intrinsics.registers import VECTOR
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import TIE, rereading_cycles
from schedules.kernels.common.threads import each as each
from schedules.kernels.common.threads import fewest, part, part_sizes
from schedules.kernels.gemm.product import GemmProduct
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.tir.emit import converted, i64, store

RowTile = Callable[[ir.Expr, ir.Expr, int, ir.Expr], None]
"""Emits the work on (group, first row, number of rows, block of columns)."""


TILE_ROWS = 2
"""Overhead of a tile in units of rows: loads of weights, and an odd row that is multiplied as a pair."""

FINER = (2, 4, 8)
"""Multiples of the number of column blocks that threads need, for which L1 may hold the weights."""

Option = TypeVar("Option", bound=Any)


def tasks(product: GemmProduct, rows: int, column_blocks: int, parallel: bool, row_tile: RowTile) -> None:
    """Emit a loop over tasks, each a row tile by a block of columns of one group.

    Args:
        product: The product that is tiled.
        rows: Rows of a full tile; a last tile with fewer rows has separate code.
        column_blocks: Tasks that share the columns of a tile of rows.
        parallel: Whether the runtime's threads share the tasks.
        row_tile: Emits the code of one task.
    """
    full, rest = divmod(product.rows.count, rows)
    tiles = full + (rest > 0)

    def one(task: ir.Expr) -> None:
        group, inside = _split(task, tiles * column_blocks, product.groups)
        # Consecutive tasks are row tiles of the same block of columns, whose weights then stay in a cache.
        block, tile = _split(inside, tiles, column_blocks)
        first = T.Bind(tile * rows)
        if full and rest:
            with T.If(tile < full):
                with T.Then():
                    row_tile(group, first, rows, block)
                with T.Else():
                    row_tile(group, first, rest, block)
        else:
            row_tile(group, first, rest or rows, block)

    each(tiles * column_blocks * product.groups, parallel, one)


def shares(product: GemmProduct, rows: int, columns: int) -> tuple[int, bool]:
    """Return (number of column blocks that balances threads, whether there are several tasks) for a tile size."""
    return _shares(product.rows.count, product.columns, product.groups, rows, columns)


@lru_cache(1024)
def _shares(total: int, width: int, groups: int, rows: int, columns: int) -> tuple[int, bool]:
    full, rest = divmod(total, rows)
    row_tiles = [rows + TILE_ROWS] * full + [rest + TILE_ROWS] * (rest > 0)

    def sizes(blocks: int) -> Array:
        return np.tile(np.outer(part_sizes(width, columns, blocks), row_tiles).ravel(), groups)

    blocks = fewest(range(1, max(1, width // columns) + 1), sizes)
    return blocks, len(row_tiles) * blocks * groups > 1


def fetching(product: IntegerProduct, rows: int, blocks: int, weights: int, depth: int, core: Core) -> float:
    """Return the cycles of waiting for L2: a block's weights are read for each row tile, the data for each block.

    Args:
        product: Product of 8-bit data.
        rows: Rows of a tile.
        blocks: Number of blocks of columns.
        weights: Bytes of a group's panels.
        depth: Bytes of a row of A.
        core: Core whose caches are modelled.
    """
    data = math.prod(product.data) / product.groups
    tiles, kept = -(-product.rows.count // rows), weights / blocks + rows * depth
    by_tile = rereading_cycles(weights, tiles - 1, kept, core)
    return (by_tile + rereading_cycles(data, blocks - 1, weights / blocks + data, core)) * product.groups


def for_cache(params: Option, most: int, cycles: Callable[[Option], float]) -> Option:
    """Return a copy of the parameters with more column blocks if that is faster by more than `TIE`, else `params`.

    Args:
        params: Parameters whose `column_blocks` balances threads.
        most: Maximum number of column blocks.
        cycles: Estimates the cycles of one call.
    """
    blocks = (times * params.column_blocks for times in FINER)
    finer = (replace(params, column_blocks=count) for count in blocks if count <= most)
    best = min(finer, key=cycles, default=params)
    return best if cycles(best) * (1 + TIE) < cycles(params) else params


def column_tiles(
    columns: int, width: int, block: tuple[ir.Expr, int], tile: Callable[[ir.Expr, int], None]
) -> None:
    """Emit a loop over the column tiles of one block of columns.

    Args:
        columns: Columns of a group.
        width: Width of a tile.
        block: Index of the block, and number of blocks; the last block includes the tile that is not full.
        tile: Emits one tile, given its index in the group and its number of columns without padding.
    """
    index, blocks = block
    full, rest = divmod(columns, width)
    if full:
        start, stop = (i64(0), i64(full)) if blocks == 1 else part(index, full, blocks)
        with T.serial(i64(0), stop - start) as inside:
            tile(T.Bind(start + inside), width)
    if rest and blocks == 1:
        tile(i64(full), rest)
    elif rest:
        with T.If(index == blocks - 1), T.Then():
            tile(i64(full), rest)


def staged(
    source: tirx.Buffer, starts: Sequence[ir.Expr], length: int, pitch: int, dtype: str = ""
) -> tuple[tirx.Buffer, list[ir.Expr]]:
    """Emit a copy of rows into a buffer where vectors may read past a row's end, or that has another dtype.

    Returns:
        The buffer, with `pitch` elements per row of which `length` are copied, and each row's offset in it.
    """
    stage = T.alloc_buffer((pitch * len(starts),), dtype or source.dtype, layout=None)
    for row, start in enumerate(starts):
        copies.copy(source, start, stage, i64(row * pitch), length)
    return stage, [i64(row * pitch) for row in range(len(starts))]


def store_part(
    output: tirx.Buffer, value: ir.Expr, offset: ir.Expr, count: int, *, by_sve: bool = False
) -> None:
    """Emit the store of a vector's first `count` lanes, cast to the dtype of the output.

    Args:
        output: Flat buffer.
        value: The vector to store.
        offset: Offset in the output of the first lane.
        count: Number of lanes to store.
        by_sve: Whether bytes may be stored by SVE, within the context manager `sve.functions`.
    """
    value = converted(value, str(output.dtype))
    lanes = int(str(value.ty.dtype).rpartition("x")[2])
    if count == lanes:
        store(output, value, offset, lanes)
        return
    parts = copies.pieces(count, lanes)
    if by_sve and len(parts) > 1:
        whole = T.Bind(tirx.Shuffle([value, value], list(range(VECTOR))) if lanes < VECTOR else value)
        sve.store_first(output, whole, offset, count)
        return
    for at, size in parts:
        store(output, tirx.Shuffle([value], list(range(at, at + size))), offset + at, size)


def by_group(values: Array, product: GemmProduct, width: int) -> Array:
    """Pad one value per column, [groups * columns], with zeros to [groups * width]."""
    padded = np.zeros((product.groups, width), values.dtype)
    padded[:, : product.columns] = values.reshape(product.groups, product.columns)
    return padded.ravel()


def _split(index: ir.Expr, inner: int, outer: int) -> tuple[ir.Expr, ir.Expr]:
    """Return (index / inner, index % inner); the quotient is less than `outer`."""
    if outer == 1:
        return i64(0), index
    if inner == 1:
        return index, i64(0)
    return T.Bind(tirx.floordiv(index, inner)), T.Bind(tirx.floormod(index, inner))
