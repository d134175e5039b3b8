# SPDX-License-Identifier: Apache-2.0
"""GEMM loop order for instructions that multiply by one lane of an unpacked vector of A: row blocks by column panels.

A tile loads, for each of its rows, a vector of consecutive elements of k, and multiplies panel rows by its lanes. The
data is copied only to add a convolution's border. A panel holds the columns of B that one register tile multiplies: B
is packed at compile time as [group][N / width][K][width], and a group's last panel is as narrow as N allows. A task
multiplies one block of rows by one panel.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.intrinsics.narrow import fma
from schedules.intrinsics.registers import LANES as WIDE_LANES
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, scalar
from schedules.kernels.epilogues import epilogue_f32, epilogue_half
from schedules.kernels.gemm import panel_selection, widen_s8
from schedules.kernels.gemm.gemm import Call, Gemm, P, Unit
from schedules.kernels.gemm.panel_tiling import PanelTilePosition, PanelTiling, Tile
from schedules.kernels.gemm.product import GemmProduct, reordered, weights_by_column
from schedules.kernels.gemm.product_float import WEIGHT_ONLY
from schedules.tir.emit import i64, load, store

Segments = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class PanelParams:
    """Tiling parameters of `ByPanels` kernels.

    Attributes:
        rows: Rows of a register tile.
        vectors: Number of vectors of columns of a register tile.
        row_block: Rows that a task multiplies by one panel, a multiple of `rows`.
        parallel: Whether tasks are spread over the runtime's threads.
    """

    rows: int
    vectors: int
    row_block: int
    parallel: bool

    check_registers: ClassVar[Any]
    """Raises ValueError if a tile of so many rows and vectors has no registers."""

    def __post_init__(self) -> None:
        self.check_registers(self.rows, self.vectors)
        if self.row_block < self.rows or self.row_block % self.rows:
            raise ValueError(f"row_block {self.row_block} is not a multiple of {self.rows} rows")


Multiply = Callable[[PanelTilePosition, int, int], tirx.Buffer]
"""Emits the sum over k of a tile, bias included: (position, rows, width) → flat float32 buffer [rows][width]."""

BeginTask = Callable[[ir.Expr, int], Multiply]
"""Emits the beginning of a task for a panel, given its first column (counted through all groups' padded columns) and
its width; returns the function that emits the sum of a tile."""


class RegisterTile(NamedTuple):
    """The size of a register tile, and the contiguous pieces of which a row of A consists in memory.

    Attributes:
        rows: Number of rows.
        vectors: Number of vectors of columns.
        segments: (offset from the row's start, length) of each of these pieces.
    """

    rows: int
    vectors: int
    segments: Segments


class PanelUnit(Unit[P, GemmProduct]):
    """The instruction-specific part of a `ByPanels` kernel.

    Attributes:
        dtype: Dtype of the data.
        lanes: Columns of an accumulator.
        ranks_widening: Whether tiles whose estimates tie are also ranked by their conversions of int8 weights, which
            are repeated for each block of rows.
    """

    dtype: str
    lanes: int
    ranks_widening: bool = True
    tie = panel_selection.MODEL_ERROR

    def tile_of(self, params: P) -> PanelParams:
        """Return the tiling parameters that a kernel's parameters contain."""
        return params

    def params_of(self, tile: Any) -> P:
        """Return the kernel parameters for tiling parameters; the inverse of `tile_of`."""
        return tile  # type: ignore[no-any-return] # a subclass whose parameters are other ones overrides both

    @abstractmethod
    def order(self, product: GemmProduct) -> Array:
        """Return the k index of each row of a packed panel of B, int array."""

    @abstractmethod
    def cycles(self, tile: RegisterTile, params: P, after: Cost, core: Core) -> float:
        """Return the cycles of one tile with all loads in L1; `after` is the cost of its epilogue and stores."""

    @abstractmethod
    def instructions(self, tile: RegisterTile, params: P, core: Core) -> float:
        """Count the instructions of one tile's sum over k."""

    def epilogue_cost(self, workload: Workload, core: Core) -> Cost:
        """Return the cost of the epilogue for a vector of four outputs."""
        return epilogue_half.cost(workload.epilogue, workload.output_dtype, core)

    @abstractmethod
    def begin(self, call: Call[P, GemmProduct], cut: PanelTiling) -> BeginTask:
        """Emit the code before the loop over tasks; return the function that emits the start of a task."""

    def cut(self, product: GemmProduct, params: P) -> PanelTiling:
        """Return the tiling of a product."""
        tile = self.tile_of(params)
        return PanelTiling(product, tile.rows, tile.vectors * self.lanes, tile.row_block, self.lanes)

    def symbol(self, workload: Workload) -> str:
        """Return the name of the PrimFunc."""
        return "_".join((workload.composite.replace(".", "_"), *(step.name for step in workload.epilogue)))

    def takes_sve(self, params: P) -> bool:
        """Whether epilogue steps use SVE instructions."""
        return False

    def widening(self, workload: Workload, cut: PanelTiling) -> float:
        """Count the instructions that convert int8 weights to floats; each task converts its panel once."""
        if workload.composite != WEIGHT_ONLY:
            return 0.0
        weights = cut.padded_columns * cut.product.rows.depth
        return cut.blocks * weights * widen_s8.INSTRUCTIONS[self.dtype]


class ByPanels(Gemm[P, GemmProduct], Generic[P]):
    """A GEMM kernel in the loop order that the module describes: blocks of rows by panels of columns."""

    unit: PanelUnit[P]

    def find_candidates(self, workload: Workload, core: Core) -> tuple[P, ...]:
        """Return the parameters of each register tile, with row blocks chosen by `panel_selection.blocked`."""
        product = max(self.products(workload), key=lambda product: product.rows.count * product.rows.depth)
        return tuple(
            self.unit.params_of(
                panel_selection.blocked(
                    self.unit.tile_of(params),
                    lambda tile: self.unit.cut(product, self.unit.params_of(tile)),
                    lambda tile: self.estimate(workload, self.unit.params_of(tile), core),
                    self.unit.dtype,
                    core,
                )
            )
            for params in self.unit.tiles(workload, core)
        )

    def estimate(self, workload: Workload, params: P, core: Core) -> float:
        """Return the cycles of one call on one core: register tiles, widening, and loads that miss L1."""
        cuts = self.cuts(workload, params)
        data = math.prod(workload.operands[0].shape)
        fetched = cuts if self.unit.counts_fetching else ()
        fetching = sum(panel_selection.fetching(cut, data, self.unit.dtype, core) for cut in fetched)
        cycles = sum(
            count * self.unit.cycles(tile, params, after, core)
            for tile, after, count in self._register_tiles(workload, cuts, core)
        )
        widening = sum(self.unit.widening(workload, cut) for cut in cuts)
        return fetching + cycles + widening / core.issue_width

    def instructions(self, workload: Workload, params: P, core: Core) -> float:
        """Count the instructions of one call inside register tiles; others are a few percent in small calls."""
        cuts = self.cuts(workload, params)
        widened = cuts if self.unit.ranks_widening else ()
        return sum(self.unit.widening(workload, cut) for cut in widened) + sum(
            count * (self.unit.instructions(tile, params, core) + after.instructions)
            for tile, after, count in self._register_tiles(workload, cuts, core)
        )

    def cuts(self, workload: Workload, params: P) -> list[PanelTiling]:
        """Return the tiling of each product."""
        return [self.unit.cut(product, params) for product in self.products(workload)]

    def emit(self, call: Call[P, GemmProduct]) -> None:
        """Emit the loop over tasks."""
        cut = self.unit.cut(call.product, call.params)
        begin_task = self.unit.begin(call, cut)

        def begin(column: ir.Expr, width: int) -> Tile:
            multiply = begin_task(column, width)

            def tile(place: PanelTilePosition, rows: int, width: int, columns: int) -> None:
                self.finish(call, place, rows, width, columns, multiply(place, rows, width))

            return tile

        cut.tasks(parallel=self.unit.tile_of(call.params).parallel, begin=begin)

    def finish(
        self,
        call: Call[P, GemmProduct],
        place: PanelTilePosition,
        rows: int,
        width: int,
        columns: int,
        acc: tirx.Buffer,
    ) -> None:
        """Emit the epilogue and stores of a tile; the columns from `columns` to `width` are padding and not stored."""
        left = place.group * call.product.columns + place.column
        for r in range(rows):
            epilogue_half.finish(
                call.workload.epilogue,
                acc,
                r * width,
                columns,
                call.output,
                call.target(place.row + r, left),
                call.residual,
                epilogue_f32.slopes_at(call.slopes, left),
                sve=self.unit.takes_sve(call.params),
            )

    def _register_tiles(
        self, workload: Workload, cuts: Sequence[PanelTiling], core: Core
    ) -> Iterator[tuple[RegisterTile, Cost, int]]:
        """Yield (tile, cost of its offsets and epilogue, number of such tiles) for each size of register tile."""
        of_vector = self.unit.epilogue_cost(workload, core)
        for cut in cuts:
            for rows, width, count in cut.register_tiles():
                after = scalar(panel_selection.row_offset_instructions(cut.product)) + of_vector * (
                    width // WIDE_LANES
                )
                tile = RegisterTile(rows, width // self.unit.lanes, cut.product.rows.segments)
                yield tile, after * rows, count


def panels(workload: Workload, constants: Sequence[Array], product: GemmProduct, order: Array) -> Array:
    """Return the weights packed into panels, [groups, k in the given order, columns]."""
    return reordered(weights_by_column(workload, constants, product), order).transpose(0, 2, 1)


def scaled(
    columns: tirx.Buffer,
    first: ir.Expr,
    distance: int,
    total: Callable[[int, int], ir.Expr],
    rows: int,
    width: int,
) -> tirx.Buffer:
    """Emit the multiplication of each column's sums by its scale, and the addition of its bias.

    Args:
        columns: Flat float32: one scale per column, then from `distance` on one bias per column.
        first: Index in `columns` of the scale of the tile's first column.
        distance: Number of columns of all panels.
        total: Returns four sums, float32x4, for (row, vector of columns).
        rows: Rows of the tile.
        width: Columns of the tile.

    Returns:
        float32 [rows][width], flat.
    """
    acc = T.alloc_buffer((rows * width,), "float32", layout=None)
    for column in range(width // WIDE_LANES):
        at = first + column * WIDE_LANES
        scale, bias = (load(columns, at + part * distance, WIDE_LANES) for part in range(2))
        for r in range(rows):
            store(acc, fma(total(r, column), scale, bias), i64(r * width + column * WIDE_LANES), WIDE_LANES)
    return acc
