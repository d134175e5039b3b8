# SPDX-License-Identifier: Apache-2.0
"""K blocking of fp32 products of long k, so that a block of A and B stays in the caches while it is used.

Without blocks a panel of B is read again for each tile of rows. Where it is larger than L1 (12 columns, k of 680 for
32 KB) it comes from L2 for each, and where a tile's rows of A do not leave L2 room for it, from memory. Here a task
goes through the blocks of k: of each it copies its rows of A side by side, as rows of a long k often lie in the same
sets of a cache, and goes through its panels and their tiles, whose sums wait in a workspace meanwhile. A block is a run
of iterations of the tile's loop over k, so that the sum has the same order, and the same bits, as one without blocks,
and B is packed alike.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics.registers import LANES
from schedules.kernels.common import copies
from schedules.kernels.common.cost_model import KEPT, again
from schedules.kernels.gemm.panel_tiling import PanelTilePosition, PanelTiling, Tile
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import i64, load, store

Segments = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Depth:
    """The division of k into blocks of loop iterations; k has segments of one length at equal distances.

    Attributes:
        segments: Contiguous pieces of a row's k, as for `fmla_tile.multiply`.
        blocks: How many; a multiple of the number of segments, of which each has an equal share.
    """

    segments: Segments
    blocks: int

    def __post_init__(self) -> None:
        if not fits(self.segments, self.blocks):
            raise ValueError(f"a k of {list(self.segments)} cannot be cut into {self.blocks} blocks")

    @property
    def run(self) -> tuple[int, int, int, int]:
        """The segments: (first offset, distance, number of segments, length)."""
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
        """Number of loop iterations in a block, but for a longer last one."""
        return fmla_tile.unrolled(self.run[3])[1] // self.each

    def trips_of(self, block: ir.Expr | int) -> int:
        """Return the number of iterations in a block; the last one of a single segment may have more."""
        left = fmla_tile.unrolled(self.run[3])[1] - self.trips * (self.each - 1)
        return left if isinstance(block, int) and block == self.blocks - 1 else self.trips

    @property
    def longest(self) -> int:
        """Extent of the longest block along k."""
        return self.trips_of(self.blocks - 1) * self.parts * LANES

    def begin(self, block: ir.Expr | int) -> tuple[ir.Expr, ir.Expr]:
        """Return the offset of a block's segment in a row, and the block's first iteration in the segment."""
        first, step, count, _ = self.run
        at = i64(block) if isinstance(block, int) else block
        if count == 1:
            return i64(first), at * self.trips
        return tirx.floordiv(at, self.each) * step + first, tirx.floormod(at, self.each) * self.trips


def fits(segments: Segments, blocks: int) -> bool:
    """Whether k can be divided into that many blocks."""
    (_, _, count, length), *others = fmla_tile.runs(segments)
    parts, trips = fmla_tile.unrolled(length)
    if others or blocks < 2 or blocks % count or blocks // count > trips:
        return False
    return count == 1 or (trips % (blocks // count) == 0 and trips * parts * LANES == length)


def fewest(segments: Segments, most: int) -> int | None:
    """Return the smallest number of blocks of at most `most` k each; None if there is none."""
    _, _, count, length = fmla_tile.runs(segments)[0]
    numbers = range(count, count * fmla_tile.unrolled(length)[1] + 1, count)
    fitting = (blocks for blocks in numbers if fits(segments, blocks))
    return next((blocks for blocks in fitting if Depth(segments, blocks).longest <= most), None)


@dataclass(frozen=True)
class Emit:
    """Callbacks with which a kernel emits the code around the sum of a tile.

    Attributes:
        a: A, flat float32.
        row: Returns the offset in `a` of a row: (group, row).
        panel: Returns B and the offset of a panel.
        start: Returns the start values of a row's accumulators: (buffer offset, width).
        finish: Emits what follows the sum: (where, rows, width, columns, accumulators).
    """

    a: tirx.Buffer
    row: Callable[[ir.Expr, ir.Expr], ir.Expr]
    panel: Callable[[PanelTilePosition], tuple[tirx.Buffer, ir.Expr]]
    start: Callable[[PanelTilePosition, int], Sequence[ir.Expr]]
    finish: Callable[[PanelTilePosition, int, int, int, tirx.Buffer], None]


def tasks(cut: PanelTiling, depth: Depth, panels: int, parallel: bool, emit: Emit) -> None:
    """Emit a loop over all tasks, each a block of rows by `panels` panels, shared by threads if `parallel`."""

    def task(group: ir.Expr, block: ir.Expr, index: ir.Expr) -> None:
        first = T.Bind(index * panels)
        count = i64(panels) if cut.panels % panels == 0 else tirx.min(i64(panels), cut.panels - first)
        _Task(cut, depth, emit, group, block, first, count, panels).all()

    cut.by_block(-(-cut.panels // panels), parallel, task)


class _Task:
    """Emits one task: `count` panels, `panels` at most, from panel `first`."""

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
        """Emit all blocks of k; those between the first and the last are one loop."""
        self.block_of_k(0)
        if self.depth.blocks > 2:
            with T.serial(i64(1), i64(self.depth.blocks - 1)) as k:
                self.block_of_k(k)
        self.block_of_k(self.depth.blocks - 1)

    def block_of_k(self, k: ir.Expr | int) -> None:
        """Emit one block of k: the copy of its rows, then panel by panel."""
        self.copy(k)
        with T.serial(i64(0), self.count) as own:
            panel = T.Bind(self.first + own)
            sums = T.Bind(own * self.size)
            self.cut.panel(self.group, self.block, panel, lambda _column, _width: self.tile(k, sums))

    def copy(self, k: ir.Expr | int) -> None:
        """Emit the copy of a block of each row, its parts one after the other."""
        depth, (segment, trip) = self.depth, self.depth.begin(k)
        length, distance = depth.trips_of(k) * LANES, fmla_tile.unrolled(depth.run[3])[1] * LANES
        with T.serial(i64(0), self.rows) as row:
            source = T.Bind(self.emit.row(self.group, self.begin + row) + segment + trip * LANES)
            to = T.Bind(row * (depth.parts * length))
            for part in range(depth.parts):
                copies.copy(self.emit.a, source + part * distance, self.data, to + part * length, length)

    def tile(self, k: ir.Expr | int, sums: ir.Expr) -> Tile:
        """Return the function that emits a tile's share of one block of k."""
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
        """Emit the sum over one block of a tile's k; `own` is the tile's first row within the task."""
        depth, trips = self.depth, self.depth.trips_of(k)
        first, _, count, length = depth.run
        b, panel = self.emit.panel(place)
        vectors = int(acc.shape[0]) // rows // LANES
        tile = fmla_tile.Tile(self.data, b, acc, vectors, constant=True)
        before = i64(k) if isinstance(k, int) else k
        pitch = depth.parts * trips * LANES
        data = [T.Bind((own + row) * pitch) for row in range(rows)]
        # All blocks except the last have the same size.
        part = T.Bind(panel + before * (depth.trips * depth.parts * LANES * tile.row_step))
        with T.serial(i64(0), i64(trips)) as trip:
            tile.iteration(data, trips, part, depth.parts, trip)
        if count == 1 and isinstance(k, int) and k == depth.blocks - 1:
            tile = fmla_tile.Tile(self.emit.a, b, acc, vectors)
            left = [self.emit.row(place.group, place.row + row) + first for row in range(rows)]
            tile.rest(left, panel, length)


L1_SHARES = (8, 4, 2)
"""Parts of L1 that a block's panel takes. For k = 4096, 12 columns and rows by six on Cortex-A55, a third of L1 takes
24.9 M estimated cycles, three quarters 31.2, and no blocks 41.3."""

L2_SHARES = (4, 2)
"""Parts of L2 that a block's rows take."""

PANELS = (4, 16, 64)
"""Panels of a task: more, and data is copied less often, and more sums wait in the workspace."""

_FLOAT = 4
_TILE = 20
# Instructions around a tile: where its rows, its panel and its sums lie.


def variants(cut: PanelTiling, core: Core) -> Iterator[tuple[int, int, int]]:
    """Yield the (blocks of k, rows of a block, panels of a task) that tuning may try.

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


def rereading(cut: PanelTiling, k: int, core: Core) -> float:
    """Return the cycles of waiting for panels that each row tile reads again, with blocks of `k`.

    Estimates without blocks leave that out: it is a part of the cycles of good tiles that differs little.
    """
    tiles, line = -(-cut.rows // cut.tile_rows), (cut.tile_rows + cut.width) * _FLOAT
    weights = cut.padded_columns * cut.product.rows.depth * _FLOAT
    return again(weights, tiles - 1, line * k, core) * cut.product.groups


def overhead(cut: PanelTiling, blocks: int, panels: int, core: Core) -> float:
    """Return the cycles that blocks of k add: partial sums in memory, and copies of rows."""
    tiles, vectors = -(-cut.rows // cut.tile_rows), cut.padded_columns / LANES
    waiting = (blocks - 1) * (cut.rows * vectors + tiles * cut.panels * _TILE)
    copied = -(-cut.panels // panels) * cut.rows * cut.product.rows.depth / LANES
    return (waiting + copied) / core.issue_width * cut.product.groups
