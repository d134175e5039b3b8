# SPDX-License-Identifier: Apache-2.0
"""Selection of the row block of a register tile, for products whose A is read unpacked."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from schedules.cores import Core
from schedules.kernels.common.cost_model import TIE, rereading_cycles
from schedules.kernels.common.threads import PARALLEL_CYCLES, block_tiles
from schedules.kernels.gemm.panel_tiling import PanelTiling
from schedules.kernels.gemm.product import GemmProduct

MODEL_ERROR = 0.03
"""Estimates this close are taken as equal: where the FMLA pipes are the limit, fewer instructions leave room for what
the model leaves out."""

ROW_OVERHEAD = 6
"""Instructions that find a row of a tile where pixels are not at equal distances: two divisions by constants."""

FINER = (2, 4, 8, 16, 32)
"""Multiples of the number of row blocks that L2 and threads need, for which L1 may hold the data."""

Option = TypeVar("Option", bound=Any)


def blocked(
    params: Option,
    cut: Callable[[Option], PanelTiling],
    cycles: Callable[[Option], float],
    dtype: str,
    core: Core,
) -> Option:
    """Return a copy of a tile's parameters with `row_block` and `parallel` chosen.

    The rows of a block take at most half of L2; fewer rows are chosen if threads need more tasks or if the block then
    fits L1.

    Args:
        params: Parameters of a tile, a dataclass with these two fields.
        cut: Returns the tiling for parameters.
        cycles: Estimates the cycles of one call, waiting for L2 included.
        dtype: Dtype of the data.
        core: Core whose L2 is modelled.
    """
    first = cut(params)
    params = replace(params, row_block=rows_in_l2(first.product, first.tile_rows, dtype, core))
    if rows := rows_for_threads(cut(params), cycles(params)):
        params = replace(params, row_block=rows, parallel=True)
    tiles = (params.row_block // first.tile_rows // times for times in FINER)
    finer = (replace(params, row_block=count * first.tile_rows) for count in tiles if count)
    best = min(finer, key=cycles, default=params)
    return best if cycles(best) * (1 + TIE) < cycles(params) else params


def fetching(cut: PanelTiling, data: int, dtype: str, core: Core) -> float:
    """Return the cycles of waiting: a block's rows are read, and its results written, for each panel.

    All panels are read for each block.

    Args:
        cut: The tiling, with its block of rows.
        data: Number of elements of the data, all groups together.
        dtype: Dtype of data and weights.
        core: Core whose caches are modelled.
    """
    size, groups = np.dtype(dtype).itemsize, cut.product.groups
    rows = data / groups * size
    share = min(1.0, cut.row_block / cut.rows)
    panel = cut.product.rows.depth * size * cut.width
    weights = cut.product.rows.depth * size * cut.padded_columns
    # The results of a row by one panel begin in the cache line in which those by the previous panel end.
    shared = cut.rows * core.l1d.line if cut.width * size % core.l1d.line else 0
    written = cut.rows * cut.width * size + shared
    kept = share * (rows + written) + panel
    by_panel = rereading_cycles(rows + shared, cut.panels - 1, kept, core)
    return (by_panel + rereading_cycles(weights, cut.blocks - 1, weights + share * rows, core)) * groups


def rows_in_l2(product: GemmProduct, tile_rows: int, dtype: str, core: Core) -> int:
    """Return the maximum number of rows per block, a multiple of `tile_rows`, that takes at most half of L2."""
    row_bytes = product.rows.depth * np.dtype(dtype).itemsize
    tiles = min(core.l2.size // 2 // row_bytes // tile_rows, -(-product.rows.count // tile_rows))
    return max(1, tiles) * tile_rows


def rows_for_threads(cut: PanelTiling, cycles: float) -> int | None:
    """Return the number of rows per block that balances threads; None if the call is too short for threads.

    Args:
        cut: The tiling with the largest block of rows.
        cycles: Cycles of the call on one thread.
    """
    tiles = -(-cut.rows // cut.tile_rows)
    if tiles * cut.panels * cut.product.groups == 1 or cycles < PARALLEL_CYCLES:
        return None
    widths = cut.panel_widths() * cut.product.groups
    return block_tiles(cut.rows, cut.tile_rows, widths, cut.row_block // cut.tile_rows) * cut.tile_rows


def row_offset_instructions(product: GemmProduct) -> int:
    """Count the instructions that compute the offset of a tile's row; 0 if rows have equal distances."""
    (_, _, pixels), (_, line, pixel) = product.rows.shape, product.rows.strides
    return 0 if product.rows.shape[:2] == (1, 1) or line == pixels * pixel else ROW_OVERHEAD
