# SPDX-License-Identifier: Apache-2.0
"""Choosing tile and block of rows for products whose A stays where it lies."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from schedules.cores import Core
from schedules.kernels.panel_cut import Cut
from schedules.kernels.product_f32 import Product
from schedules.kernels.threads import PARALLEL_CYCLES, block_tiles

MODEL_ERROR = 0.03
"""Estimates this close are taken as equal: where the FMLA pipes are the limit, fewer instructions leave room for what
the model leaves out."""

ROW_OVERHEAD = 6
"""Instructions that find a row of a tile where pixels are not at equal distances: two divisions by constants."""

Option = TypeVar("Option")


def best(
    options: Sequence[Option], cycles: Callable[[Option], float], instructions: Callable[[Option], float]
) -> Option:
    """The option with the fewest instructions among those whose cycles are next to the lowest."""
    estimates = {option: cycles(option) for option in options}
    limit = min(estimates.values()) * (1 + MODEL_ERROR)
    return min((option for option, each in estimates.items() if each <= limit), key=instructions)


def rows_in_l2(product: Product, tile_rows: int, dtype: str, core: Core) -> int:
    """Rows of the largest block, in whole tiles, that takes half of L2 at most."""
    row_bytes = product.rows.depth * np.dtype(dtype).itemsize
    tiles = min(core.l2.size // 2 // row_bytes // tile_rows, -(-product.rows.count // tile_rows))
    return max(1, tiles) * tile_rows


def rows_for_threads(cut: Cut, cycles: float) -> int | None:
    """Rows of the blocks that give threads even shares; none if a call of so many cycles is for one thread.

    Args:
        cut: With the largest block.
        cycles: On one thread.
    """
    tiles = -(-cut.rows // cut.tile_rows)
    if tiles * cut.panels * cut.product.groups == 1 or cycles < PARALLEL_CYCLES:
        return None
    widths = cut.panel_widths() * cut.product.groups
    return block_tiles(cut.rows, cut.tile_rows, widths, cut.row_block // cut.tile_rows) * cut.tile_rows


def finding(product: Product) -> int:
    """Instructions that find a row of a tile."""
    (_, _, pixels), (_, line, pixel) = product.rows.shape, product.rows.strides
    return 0 if product.rows.shape[:2] == (1, 1) or line == pixels * pixel else ROW_OVERHEAD
