# SPDX-License-Identifier: Apache-2.0
"""K blocking of float32 products with a large K, so that blocks of A and B stay in the caches while they are used.

Without blocks, each tile of rows reads a whole panel of B. A panel larger than L1 (12 columns and K = 680 for 32 KB) is
then read from L2 each time, or from memory if the tile's rows of A fill L2. Here a task loops over the blocks of k. For
each block it copies its rows of A side by side, because rows with a large K often map to the same sets of a cache, and
loops over its panels and their tiles; partial sums are kept in a workspace. A block is consecutive iterations of the
tile's loop over k: the order of the sum, and its bits, are those of a sum without blocks, and B has the same packing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics.registers import LANES
from schedules.kernels.common import copies
from schedules.kernels.common.cost_model import KEPT, rereading_cycles
from schedules.kernels.common.threads import FEW_TASKS
from schedules.kernels.common.threads import fewest as fewest_tasks
from schedules.kernels.gemm.panel_tiling import PanelTilePosition, PanelTiling, Tile
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import i64, load, store

Segments = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Depth:
    """The division of k into blocks of loop iterations; k has segments of one length at equal distances.

    Attributes:
        segments: Contiguous pieces of a row's k, as for `fmla_tile.multiply`.
        blocks: Number of blocks; a multiple of the number of segments, as each segment has the same number of blocks.
    """

    segments: Segments
    blocks: int

    def __post_init__(self) -> None:
        if not fits(self.segments, self.blocks):
            raise ValueError(
                f"k with segments {list(self.segments)} cannot be divided into {self.blocks} blocks"
            )

    @property
    def run(self) -> tuple[int, int, int, int]:
        """The segments as (offset of the first, distance between two, number of segments, length of each)."""
        return fmla_tile.runs(self.segments)[0]

    @property
    def each(self) -> int:
        """Number of blocks in a segment."""
        return self.blocks // self.run[2]

    @property
    def parts(self) -> int:
        """Number of vectors in a loop iteration."""
        return fmla_tile.unrolled(self.run[3])[0]

    @property
    def trips(self) -> int:
        """Number of loop iterations in a block; the last block may have more."""
        return fmla_tile.unrolled(self.run[3])[1] // self.each

    def trips_of(self, block: ir.Expr | int) -> int:
        """Return the number of loop iterations in a block; the last block of a single segment may have more."""
        left = fmla_tile.unrolled(self.run[3])[1] - self.trips * (self.each - 1)
        return left if isinstance(block, int) and block == self.blocks - 1 else self.trips

    @property
    def longest(self) -> int:
        """Number of elements of k in the longest block."""
        return self.trips_of(self.blocks - 1) * self.parts * LANES

    def begin(self, block: ir.Expr | int) -> tuple[ir.Expr, ir.Expr]:
        """Return (offset in a row of the block's segment, number of the block's first iteration in the segment)."""
        first, step, count, _ = self.run
        at = i64(block) if isinstance(block, int) else block
        if count == 1:
            return i64(first), at * self.trips
        return tirx.floordiv(at, self.each) * step + first, tirx.floormod(at, self.each) * self.trips


def fits(segments: Segments, blocks: int) -> bool:
    """Whether `Depth` can divide k into this number of blocks."""
    (_, _, count, length), *others = fmla_tile.runs(segments)
    parts, trips = fmla_tile.unrolled(length)
    if others or blocks < 2 or blocks % count or blocks // count > trips:
        return False
    return count == 1 or (trips % (blocks // count) == 0 and trips * parts * LANES == length)


def fewest(segments: Segments, most: int) -> int | None:
    """Return the minimum number of blocks of at most `most` elements of k each; None if k cannot be divided so."""
    _, _, count, length = fmla_tile.runs(segments)[0]
    numbers = range(count, count * fmla_tile.unrolled(length)[1] + 1, count)
    fitting = (blocks for blocks in numbers if fits(segments, blocks))
    return next((blocks for blocks in fitting if Depth(segments, blocks).longest <= most), None)


@dataclass(frozen=True)
class Emit:
    """Callbacks with which a kernel emits the code around the sum of a tile.

    Attributes:
        a: A, flat float32.
        row: Returns the offset in `a` of (group, row).
        panel: Returns the buffer of B and the offset of the panel for a tile's position.
        start: Returns the initial accumulators of a row, for (position of the tile, width).
        finish: Emits the epilogue and stores: (position of the tile, rows, width, columns, accumulators).
    """

    a: tirx.Buffer
    row: Callable[[ir.Expr, ir.Expr], ir.Expr]
    panel: Callable[[PanelTilePosition], tuple[tirx.Buffer, ir.Expr]]
    start: Callable[[PanelTilePosition, int], Sequence[ir.Expr]]
    finish: Callable[[PanelTilePosition, int, int, int, tirx.Buffer], None]


def tasks(cut: PanelTiling, depth: Depth, panels: int, parallel: bool, emit: Emit) -> None:
    """Emit a loop over all tasks, shared by threads if `parallel`; a task is a block of rows by `panels` panels."""

    def task(group: ir.Expr, block: ir.Expr, index: ir.Expr) -> None:
        first = T.Bind(index * panels)
        count = i64(panels) if cut.panels % panels == 0 else tirx.min(i64(panels), cut.panels - first)
        _Task(cut, depth, emit, group, block, first, count, panels).all()

    cut.by_block(-(-cut.panels // panels), parallel, task)


class _Task:
    """Emits one task: a block of rows by `count` panels (at most `panels`) from panel `first` on."""

    def __init__(
        self,
        cut: PanelTiling,
        depth: Depth,
        emit: Emit,
        group: ir.Expr,
        block: ir.Expr,
        first: ir.Expr,
        count: ir.Expr,
        panels: int,
    ) -> None:
        self.cut, self.depth, self.emit = cut, depth, emit
        self.group, self.block, self.first, self.count = group, block, first, count
        last = cut.rows - cut.row_block * (cut.blocks - 1)
        self.begin = T.Bind(block * cut.row_block)
        self.rows = tirx.Select(block == i64(cut.blocks - 1), i64(last), i64(cut.row_block))
        held = last if cut.blocks == 1 else max(last, cut.row_block)
        self.size = held * cut.width
        self.sums = T.alloc_buffer((panels * self.size,), "float32", layout=None)
        self.data = T.alloc_buffer((held * depth.longest,), "float32", layout=None)

    def all(self) -> None:
        """Emit the blocks of k: code for the first, a loop over those between, code for the last."""
        self.block_of_k(0)
        if self.depth.blocks > 2:
            with T.serial(i64(1), i64(self.depth.blocks - 1)) as k:
                self.block_of_k(k)
        self.block_of_k(self.depth.blocks - 1)

    def block_of_k(self, k: ir.Expr | int) -> None:
        """Emit one block of k: the copy of the rows of A, then the tiles of each panel."""
        self.copy(k)
        with T.serial(i64(0), self.count) as own:
            panel = T.Bind(self.first + own)
            sums = T.Bind(own * self.size)
            self.cut.panel(self.group, self.block, panel, lambda _column, _width: self.tile(k, sums))

    def copy(self, k: ir.Expr | int) -> None:
        """Emit the copy of one block of k of each row of A; an iteration's vectors come from distant parts of it."""
        depth, (segment, trip) = self.depth, self.depth.begin(k)
        length, distance = depth.trips_of(k) * LANES, fmla_tile.unrolled(depth.run[3])[1] * LANES
        with T.serial(i64(0), self.rows) as row:
            source = T.Bind(self.emit.row(self.group, self.begin + row) + segment + trip * LANES)
            to = T.Bind(row * (depth.parts * length))
            for part in range(depth.parts):
                copies.copy(self.emit.a, source + part * distance, self.data, to + part * length, length)

    def tile(self, k: ir.Expr | int, sums: ir.Expr) -> Tile:
        """Return the function that emits the sum of a tile over one block of k, with partial sums in the workspace."""
        begins, ends = (isinstance(k, int) and k == edge for edge in (0, self.depth.blocks - 1))

        def one(place: PanelTilePosition, rows: int, width: int, columns: int) -> None:
            own = T.Bind(place.row - self.begin)
            at, vectors = T.Bind(sums + own * self.cut.width), range(rows * width // LANES)
            acc = T.alloc_buffer((rows * width,), "float32", layout=None)
            bias = self.emit.start(place, width) if begins else []
            for v in vectors:
                value = bias[v % len(bias)] if begins else load(self.sums, at + v * LANES, LANES)
                store(acc, value, i64(v * LANES), LANES)
            self.multiply(k, place, own, rows, acc)
            if ends:
                self.emit.finish(place, rows, width, columns, acc)
                return
            for v in vectors:
                store(self.sums, acc.vload([i64(v * LANES)], "float32x4"), at + v * LANES, LANES)

        return one

    def multiply(
        self, k: ir.Expr | int, place: PanelTilePosition, own: ir.Expr, rows: int, acc: tirx.Buffer
    ) -> None:
        """Emit the sum of a tile over one block of k; `own` is the tile's first row, counted from the task's first."""
        depth, trips = self.depth, self.depth.trips_of(k)
        first, _, count, length = depth.run
        b, panel = self.emit.panel(place)
        vectors = int(acc.shape[0]) // rows // LANES
        tile = fmla_tile.TileBuffers(self.data, b, acc, vectors, constant=True)
        before = i64(k) if isinstance(k, int) else k
        pitch = depth.parts * trips * LANES
        data = [T.Bind((own + row) * pitch) for row in range(rows)]
        # All blocks except the last have the same size.
        part = T.Bind(panel + before * (depth.trips * depth.parts * LANES * tile.row_step))
        with T.serial(i64(0), i64(trips)) as trip:
            tile.iteration(data, trips, part, depth.parts, trip)
        if count == 1 and isinstance(k, int) and k == depth.blocks - 1:
            tile = fmla_tile.TileBuffers(self.emit.a, b, acc, vectors)
            left = [self.emit.row(place.group, place.row + row) + first for row in range(rows)]
            tile.rest(left, panel, length)


L1_SHARES = (8, 4, 2)
"""Tuning tries blocks of k whose panel takes 1/8, 1/4 or 1/2 of L1. For K = 4096 and tiles of 6 rows by 12 columns on
Cortex-A55, estimates are 24.9 M cycles with a third of L1, 31.2 M with three quarters and 41.3 M without blocks."""

USUAL_SHARE = 8
"""Share of L1 that a panel's block of k takes without tuning. Of a BERT of 4 layers and 256 units, whose products with
K = 1,024 have panels as large as L1, cycles with caches on Neoverse N2 are 65.7 M with an eighth, 66.2 M with a quarter
and 68.1 M without blocks."""

USUAL_PANELS = 4
"""Panels of a task without tuning, where no other number gives threads even shares. Each task copies its rows; where
that leaves fewer tasks than `FEW_TASKS`, rows are divided further, which copies nothing more."""

L2_SHARES = (4, 2)
"""Tuning tries blocks of rows that take 1/4 or 1/2 of L2."""

PANELS = (4, 16, 64)
"""Numbers of panels per task that tuning tries: with more, data is copied less often, but the workspace is larger."""

_FLOAT = 4
_TILE = 20
# Number of instructions per tile that compute the offsets of its rows, its panel and its partial sums.


def variants(cut: PanelTiling, core: Core) -> Iterator[tuple[int, int, int]]:
    """Yield the (number of blocks of k, rows per block of rows, panels per task) that tuning may try.

    Args:
        cut: The tiling without blocks of k.
        core: Core whose caches are modelled.
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


def usual(cut: PanelTiling, parallel: bool, core: Core) -> Iterator[tuple[int, int, int]]:
    """Yield the numbers of `variants` that are worth considering without tuning; none if a panel stays in L1.

    Numbers that give threads even shares come first; their tasks may copy rows more often than `USUAL_PANELS` does.

    Args:
        cut: The tiling without blocks of k.
        parallel: Whether threads share the tasks.
        core: Core whose L1 is modelled.
    """
    column = cut.width * _FLOAT
    if cut.tiles < 2 or column * cut.product.rows.depth <= KEPT * core.l1d.size:
        return
    blocks = fewest(cut.product.rows.segments, core.l1d.size // USUAL_SHARE // column)
    if not blocks or blocks == 1:
        return
    most = min(USUAL_PANELS, cut.panels)
    groups = -(-cut.panels // most)
    parts = -(-FEW_TASKS // groups) if parallel else 1
    usual_rows = min(-(-cut.tiles // min(parts, cut.tiles)) * cut.tile_rows, cut.row_block)
    if parallel:
        options = [
            (-(-cut.panels // more), tiles * cut.tile_rows)
            for more in range(max(1, groups - 1), min(groups + 2, cut.panels) + 1)
            for tiles in dict.fromkeys(-(-cut.tiles // parts) for parts in range(1, cut.tiles + 1))
            if tiles * cut.tile_rows <= usual_rows and -(-cut.tiles // tiles) * more >= FEW_TASKS
        ]
        if options:
            best = fewest_tasks(range(len(options)), lambda index: task_sizes(cut, *options[index]))
            panels, rows = options[best]
            yield blocks, rows, panels
    yield blocks, usual_rows, most


def task_sizes(cut: PanelTiling, panels: int, rows: int) -> npt.NDArray[Any]:
    """Return the number of result elements of each task, in order; a task is `panels` panels by a block of `rows`."""
    widths = cut.panel_widths()
    columns = [sum(widths[first : first + panels]) for first in range(0, len(widths), panels)]
    blocks = replace(cut, row_block=rows).blocks
    of_rows = [rows] * (blocks - 1) + [cut.rows - rows * (blocks - 1)]
    return np.outer(of_rows * cut.product.groups, columns).ravel()


def rereading(cut: PanelTiling, k: int, core: Core) -> float:
    """Return the cycles of waiting for L2 because each row tile reads the panels again, with blocks of `k` elements.

    Estimates without blocks leave these cycles out, because they hardly differ between good tiles.
    """
    tiles, line = -(-cut.rows // cut.tile_rows), (cut.tile_rows + cut.width) * _FLOAT
    weights = cut.padded_columns * cut.product.rows.depth * _FLOAT
    return rereading_cycles(weights, tiles - 1, line * k, core) * cut.product.groups


def overhead(cut: PanelTiling, blocks: int, panels: int, core: Core) -> float:
    """Return the cycles that K blocking adds: loads and stores of partial sums, and copies of rows."""
    tiles, vectors = -(-cut.rows // cut.tile_rows), cut.padded_columns / LANES
    waiting = (blocks - 1) * (cut.rows * vectors + tiles * cut.panels * _TILE)
    copied = -(-cut.panels // panels) * cut.rows * cut.product.rows.depth / LANES
    return (waiting + copied) / core.issue_width * cut.product.groups
