# SPDX-License-Identifier: Apache-2.0
"""Which blocks of k are worth trying, and what they cost and save by the estimate; see `depth_blocks`."""

from collections.abc import Iterator

from schedules.cores import Core
from schedules.intrinsics.fmla import LANES
from schedules.kernels.cost import KEPT, again
from schedules.kernels.depth_blocks import Depth, fewest
from schedules.kernels.panel_cut import Cut

L1_SHARES = (8, 4, 2)
"""Parts of L1 that a block's panel takes. Of a k of 4096, 12 columns and rows by six on Cortex-A55 a third takes 24.9 M
estimated cycles, three quarters 31.2, and no blocks 41.3."""

L2_SHARES = (4, 2)
"""Parts of L2 that a block's rows take."""

PANELS = (4, 16, 64)
"""Panels of a task: more, and data is copied less often, and more sums wait in the workspace."""

_FLOAT = 4
_TILE = 20
# Instructions around a tile: where its rows, its panel and its sums lie.


def variants(cut: Cut, core: Core) -> Iterator[tuple[int, int, int]]:
    """Blocks of k, rows of a block and panels of a task.

    Args:
        cut: Without blocks of k.
        core: Whose caches.
    """
    column, segments = cut.width * _FLOAT, cut.product.rows.segments
    if column * cut.product.rows.depth <= KEPT * core.l1d.size:
        return
    counts = {fewest(segments, core.l1d.size // share // column) for share in L1_SHARES}
    rows = -(-cut.rows // cut.tile_rows) * cut.tile_rows
    for blocks in sorted(count for count in counts if count and count > 1):
        k = Depth(segments, blocks).longest * _FLOAT
        fitting = {core.l2.size // share // k // cut.tile_rows * cut.tile_rows for share in L2_SHARES}
        for row_block in sorted({max(cut.tile_rows, min(rows, each)) for each in fitting}):
            for panels in sorted({min(each, cut.panels) for each in PANELS}):
                yield blocks, row_block, panels


def rereading(cut: Cut, k: int, core: Core) -> float:
    """Cycles of waiting for panels that each tile of rows reads anew, in blocks of so many k.

    Estimates without blocks leave that out: it is a part of the cycles of good tiles that differs little.
    """
    tiles, line = -(-cut.rows // cut.tile_rows), (cut.tile_rows + cut.width) * _FLOAT
    weights = cut.padded_columns * cut.product.rows.depth * _FLOAT
    return again(weights, tiles - 1, line * k, core) * cut.product.groups


def overhead(cut: Cut, blocks: int, panels: int, core: Core) -> float:
    """Cycles of what blocks of k add: sums that wait, and copies of rows; `panels` are those of a task."""
    tiles, vectors = -(-cut.rows // cut.tile_rows), cut.padded_columns / LANES
    waiting = (blocks - 1) * (cut.rows * vectors + tiles * cut.panels * _TILE)
    copied = -(-cut.panels // panels) * cut.rows * cut.product.rows.depth / LANES
    return (waiting + copied) / core.issue_width * cut.product.groups
