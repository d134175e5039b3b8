# SPDX-License-Identifier: Apache-2.0
"""GEMM loop order for kernels that pack or stage rows of A, or that requantise: row tiles by blocks of columns.

A task packs or stages one tile of rows in the layout that the instruction reads, and multiplies it by every panel of a
block of columns.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.kernels.common import threads, tiling
from schedules.kernels.common.cost_model import Cost
from schedules.kernels.gemm.gemm import Call, Gemm, Q, Unit
from schedules.kernels.gemm.product import GemmProduct

ROW_OVERHEAD = 12
"""Scalar instructions of a row of a tile: where it begins, and where it is stored."""

TILE_OVERHEAD = 8
"""Scalar instructions of a tile: where its constants and its outputs lie, and the loop over tiles."""


class TileSize(NamedTuple):
    """The size of a register tile.

    Attributes:
        rows: Number of rows.
        columns: Number of columns.
        vectors: Number of vectors of accumulators per row, or per pair of rows for instructions that sum 2 x 2 blocks.
    """

    rows: int
    columns: int
    vectors: int


class RowParams(Protocol):
    """Base class of the parameters of `ByRows` kernels: tiling and threads."""

    @property
    def column_blocks(self) -> int:
        """Number of tasks that share the columns of one tile of rows."""

    @property
    def parallel(self) -> bool:
        """Whether tasks are spread over the runtime's threads."""

    @property
    def tile(self) -> TileSize:
        """Size of the register tile."""


R = TypeVar("R", bound=RowParams)


class Ready(NamedTuple):
    """The rows of a tile in the layout that the instruction reads.

    Attributes:
        source: Buffer that the tile loads the rows from.
        starts: Offset of each row in `source`.
        sums: Sum of each row's elements, int32x4 per row or pair of rows, if the kernel needs it.
        held: Whether `source` is a buffer that LLVM keeps in registers, with one vector for each load.
    """

    source: tirx.Buffer
    starts: Sequence[ir.Expr]
    sums: Sequence[ir.Expr] = ()
    held: bool = False


class RowTilePosition(NamedTuple):
    """The position of a register tile in the result.

    Attributes:
        row: First row of the tile.
        rows: Number of rows of the tile.
        column: First column of the tile, counted through all groups.
        columns: Number of columns of the tile that are part of the result.
    """

    row: ir.Expr
    rows: int
    column: ir.Expr
    columns: int


EmitTile = Callable[[Ready, ir.Expr, RowTilePosition], None]
"""Emits a register tile and the stores of its outputs: (rows, number of the column panel, position)."""


class RowUnit(Unit[R, Q]):
    """The instruction-specific part of a `ByRows` kernel."""

    @abstractmethod
    def ready_cost(self, product: Q, rows: int) -> Cost:
        """Return the cost of packing or staging the rows of a tile."""

    @abstractmethod
    def tile_cost(self, workload: Workload, product: Q, params: R, rows: int, core: Core) -> Cost:
        """Return the cost of one tile: the sum over k, the epilogue, and the stores."""

    def padding_cost(self, product: Q) -> Cost:
        """Return the cost of the padded copy of the data; 0 by default."""
        return Cost()

    def fetching(self, product: Q, params: R, core: Core) -> float:
        """Return the cycles of waiting for data and weights that L1 did not keep; 0 by default."""
        return 0.0

    @abstractmethod
    def ready(self, call: Call[R, Q], starts: Sequence[ir.Expr], count: int) -> Ready:
        """Emit the packing or staging of a tile's rows; a task does it once for all its columns.

        Args:
            call: The call whose rows are packed.
            starts: Offset of each row; if the number of rows is odd, the last offset is repeated.
            count: Number of rows.
        """

    @abstractmethod
    def begin(self, call: Call[R, Q]) -> EmitTile:
        """Emit the code before the loop over tasks; return the function that emits a tile."""

    def column_tiles(self, product: Q, params: R) -> int:
        """Return the number of column tiles in a group."""
        return -(-product.columns // params.tile.columns)


class ByRows(Gemm[R, Q], Generic[R, Q]):
    """A GEMM kernel in the loop order that the module describes: row tiles by blocks of columns."""

    unit: RowUnit[R, Q]

    def find_candidates(self, workload: Workload, core: Core) -> tuple[R, ...]:
        """Return the parameters of each register tile; long calls are split into tasks for threads and L1."""
        product = max(self.products(workload), key=lambda product: product.macs)
        found = []
        for tile in self.unit.tiles(workload, core):
            params: Any = tile
            if self.estimate(workload, params, core) >= threads.PARALLEL_CYCLES:
                blocks, parallel = tiling.shares(product, params.tile.rows, params.tile.columns)
                params = replace(params, column_blocks=blocks, parallel=parallel)
                params = tiling.for_cache(
                    params,
                    product.columns // params.tile.columns,
                    lambda option: self.estimate(workload, option, core),
                )
            found.append(params)
        return tuple(found)

    def estimate(self, workload: Workload, params: R, core: Core) -> float:
        """Return the cycles of one call on one core, with its inputs in L1 at the start."""
        fetching = sum(self.unit.fetching(product, params, core) for product in self.products(workload))
        return (self.cost(workload, params, core) + Cost(fetching=fetching)).cycles(core)

    def instructions(self, workload: Workload, params: R, core: Core) -> float:
        """Count the instructions of one call inside row tiles; see `cost`."""
        return self.cost(workload, params, core).instructions

    def cost(self, workload: Workload, params: R, core: Core) -> Cost:
        """Return the cost of one call; code outside of row tiles, a few percent of small calls, is not counted."""
        products = self.products(workload)
        total = sum((self._product_cost(workload, product, params, core) for product in products), Cost())
        return total + self.unit.padding_cost(products[0])

    def _product_cost(self, workload: Workload, product: Q, params: R, core: Core) -> Cost:
        given: Any = params
        total, alone = Cost(), replace(given, column_blocks=1, parallel=False)
        for tiles, ready, columns in _tile_costs(self.unit, workload, product, alone, core):
            ready *= params.column_blocks
            total += (ready + columns * self.unit.column_tiles(product, params)) * tiles
        return total * product.groups

    def emit(self, call: Call[R, Q]) -> None:
        """Emit the loop over tasks."""
        product, params, tile = call.product, call.params, call.params.tile
        emit_tile = self.unit.begin(call)

        def row_tile(group: ir.Expr, first: ir.Expr, count: int, block: ir.Expr) -> None:
            at = product.rows.offsets(first, count, tile.rows)
            starts = [T.Bind(start + group * product.group_step) for start in at]
            a = self.unit.ready(call, starts, count)

            def column_tile(index: ir.Expr, columns: int) -> None:
                panel = T.Bind(group * self.unit.column_tiles(product, params) + index)
                emit_tile(
                    a,
                    panel,
                    RowTilePosition(first, count, group * product.columns + index * tile.columns, columns),
                )

            tiling.column_tiles(product.columns, tile.columns, (block, params.column_blocks), column_tile)

        tiling.tasks(product, tile.rows, params.column_blocks, params.parallel, row_tile)


# Cached, because parameters that differ only in tasks or column blocks share their tile costs: five on average.
@lru_cache(1 << 14)
def _tile_costs(
    unit: RowUnit[Any, Any], workload: Workload, product: GemmProduct, params: Any, core: Core
) -> list[tuple[int, Cost, Cost]]:
    """Return (number of tiles, cost of `ready`, `tile_cost`) for full tiles and for the tile of the last rows."""
    full, rest = divmod(product.rows.count, params.tile.rows)
    return [
        (tiles, unit.ready_cost(product, rows), unit.tile_cost(workload, product, params, rows, core))
        for rows, tiles in ((params.tile.rows, full), (rest, 1))
        if rows and tiles
    ]
