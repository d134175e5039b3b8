# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on SDOT: implicit GEMM on rows as they lie, requantised in registers.

A register tile loads 16 k of each of its rows as one vector and takes them by lane, so nothing of A is packed. Weights
are packed at compile time. Integer sums have no order: the result depends neither on tiles nor on threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function
from schedules.intrinsics.sdot import FEATURE
from schedules.intrinsics.vector import high, low
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import copies, product_s8, sdot_rows, sdot_tile, threads, tiling
from schedules.kernels.columns_s8 import HEADER, Header, Panels
from schedules.kernels.cost import VECTOR, VECTOR_PIPES, Cost, arithmetic, cheapest, requantization, scalar
from schedules.kernels.product_s8 import Product
from schedules.kernels.requantize_tile import Form, requantize16
from schedules.kernels.sdot_rows import K_STEP
from schedules.kernels.sdot_tile import LANES
from schedules.workload import Workload

NAME = "gemm_s8_sdot"

TILES = ((6, 4), (5, 4), (4, 4), (3, 4), (2, 4), (1, 4), (8, 2), (4, 2), (2, 8), (1, 8))
"""(rows, vectors of four columns) of the register tiles worth considering."""

ROW_OVERHEAD = 12
"""Scalar instructions of a row of a tile: where it begins, and where it is stored."""

TILE_OVERHEAD = 8
"""Scalar instructions of a tile: where its constants and its outputs lie, and the loop over tiles."""

LATENCY = 3
"""Cycles from one SDOT to the next on the same accumulator, as LLVM models Neoverse N2; the guides forward in one."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        rows: Rows of a register tile.
        vectors: Columns of a register tile, in vectors of four; a multiple of 2.
        column_blocks: How many tasks share the columns of one tile of rows.
        parallel: Whether tasks are spread over the runtime's threads.
    """

    rows: int
    vectors: int
    column_blocks: int = 1
    parallel: bool = False

    def __post_init__(self) -> None:
        sdot_tile.check_registers(self.rows, self.vectors)
        if self.vectors % 2:
            raise ValueError(f"vectors {self.vectors} is not even: columns are stored in eights")

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return LANES * self.vectors


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes integer convolutions and linear layers with constant weights, on cores with dotprod."""
    products = product_s8.products_of(workload, NAME)
    if isinstance(products, Rejection):
        return products
    if FEATURE not in core.features:
        return Rejection(NAME, "the core lacks a feature", FEATURE, core.name)
    return Match(f"int8 product {', '.join(str(product) for product in products)}")


def default(workload: Workload, core: Core) -> Params:
    """The cheapest candidate."""
    return cheapest(candidates(workload, core), lambda params: cost(workload, params), core)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Every tile; calls that are worth it in tasks for the threads."""
    product = max(_products(workload), key=lambda product: product.macs)
    found = []
    for tile in TILES:
        params = Params(*tile)
        if estimate(workload, params, core) >= threads.PARALLEL_CYCLES:
            blocks, parallel = tiling.shares(product, params.rows, params.columns)
            params = Params(*tile, column_blocks=blocks, parallel=parallel)
        found.append(params)
    return tuple(found)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core with all loads in L1."""
    return cost(workload, params).cycles(core)


def cost(workload: Workload, params: Params) -> Cost:
    """Instructions of one call; what lies outside the tiles, a few percent of small calls, is left out."""
    products = _products(workload)
    total = sum((_product_cost(product, params) for product in products), Cost())
    return total + product_s8.padding_cost(products[0])


def _product_cost(product: Product, params: Params) -> Cost:
    staging = 0
    if sdot_rows.is_staged(product):
        staging = sum(len(copies.pieces(length, VECTOR)) for _, length in product.rows.segments)
    row = arithmetic(staging) + scalar(staging + ROW_OVERHEAD)
    total = Cost()
    full, rest = divmod(product.rows.count, params.rows)
    for rows, tiles in ((params.rows, full), (rest, 1)):
        if rows and tiles:
            columns = _tile_cost(product, params, rows) * _panels(product, params).tiles
            total += (row * (rows * params.column_blocks) + columns) * tiles
    return total * product.groups


def _tile_cost(product: Product, params: Params, rows: int) -> Cost:
    outputs = rows * params.columns
    # Of each row vectors of 16 outputs, and perhaps one of eight, half of a vector that two rows share.
    stores = rows * (params.vectors // 4) + (2 * rows if params.vectors % 4 else 0)
    loop = sdot_tile.cost(rows, params.vectors, sdot_rows.chunks_of(product))
    # A chain of one accumulator's products is not shortened by other columns.
    if rows * params.vectors < LATENCY * VECTOR_PIPES:
        loop = Cost(loop.instructions, loop.vector * LATENCY * VECTOR_PIPES / (rows * params.vectors))
    finish = requantization(outputs, product.form, product.to) + arithmetic(stores)
    return loop + finish + scalar(HEADER * params.vectors / 2 + TILE_OVERHEAD)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Panels of weights, and their headers."""
    packed = []
    for product in _products(workload):
        by_column = product_s8.weights_by_column(workload, constants, product)
        weights = sdot_rows.packed_weights(product, by_column)
        packed.append(
            _panels(product, params).pack(
                workload, constants, weights, lambda columns: sdot_tile.pack_columns(columns, params.vectors)
            )
        )
    return tuple(np.concatenate(parts) for parts in zip(*packed, strict=True))


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    products = _products(workload)
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    sizes = [_panels(product, params).sizes for product in products]
    arguments += [((sum(each),), "int8") for each in zip(*sizes, strict=True)]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = workload.composite.replace(".", "_") + "_sdot"
    with kernel_function(name, arguments) as function:
        x, *rest = function.buffers
        if products[0].pad is not None:
            x = product_s8.padded(x, workload, products[0])
        for index, product in enumerate(products):
            before = [sum(each) for each in zip((0, 0), *sizes[:index], strict=True)]
            emitter = _Emitter(product, params, x, rest, before)
            tiling.tasks(product, params.rows, params.column_blocks, params.parallel, emitter.row_tile)
    return function.prim_func


class _Emitter:
    """Emits one product, from a tile of rows inwards; `before` are bytes of panels and headers of those before it."""

    def __init__(
        self,
        product: Product,
        params: Params,
        x: tirx.Buffer,
        rest: Sequence[tirx.Buffer],
        before: Sequence[int],
    ) -> None:
        self.product, self.params, self.x, self.before = product, params, x, before
        self.b, self.header, self.output = rest
        self.chunks = sdot_rows.chunks_of(product)
        self.panels = _panels(product, params)

    def row_tile(self, group: ir.Expr, first: ir.Expr, count: int, block: ir.Expr) -> None:
        """Multiplies `count` rows from row `first` by a block of columns."""
        product, params = self.product, self.params
        at = product.rows.offsets(first, count, params.rows)[:count]
        starts = [T.Bind(start + group * product.group_offset()) for start in at]
        source = self.x
        if sdot_rows.is_staged(product):
            source, starts = sdot_rows.staged(product, self.x, starts)
        tiling.column_tiles(
            product.columns,
            params.columns,
            (block, params.column_blocks),
            lambda tile, columns: self.tile(source, starts, (group, first), tile, columns),
        )

    def tile(
        self,
        source: tirx.Buffer,
        starts: Sequence[ir.Expr],
        where: tuple[ir.Expr, ir.Expr],
        tile: ir.Expr,
        columns: int,
    ) -> None:
        """One register tile, requantised and stored; `columns` of its columns are part of the result."""
        params, product, (group, first) = self.params, self.product, where
        index = T.Bind(group * self.panels.tiles + tile)
        header = Header(self.panels, self.header, index, self.before[1])
        acc = sdot_tile.multiply(
            source,
            starts,
            self.b,
            index * self.panels.weight_bytes + self.before[0],
            self.chunks,
            header.offsets(),
            flipped=product.flipped,
        )
        left = group * product.columns + tile * params.columns

        def put(row: int, value: ir.Expr, at: int, lanes: int) -> None:
            if at < columns:
                tiling.store_part(
                    self.output, value, product.target(first + row) + (left + at), min(lanes, columns - at)
                )

        header.requantized(lambda form, m, addend: self.rows_of(acc, len(starts), (form, m, addend), put))

    def rows_of(
        self,
        acc: tirx.Buffer,
        rows: int,
        how: tuple[Form, Sequence[ir.Expr], Sequence[ir.Expr]],
        put: Callable[[int, ir.Expr, int, int], None],
    ) -> None:
        """Requantises a tile and hands each row to `put`: (row, values, first column, lanes)."""
        vectors, (form, m, addend) = self.params.vectors, how

        def quarter(places: Sequence[tuple[int, int]]) -> ir.Expr:
            """Four accumulators, (row, vector), as 16 values."""
            block = [acc.vload([i64((row * vectors + v) * LANES)], "int32x4") for row, v in places]
            own = [[each[v] for _, v in places] if each else [] for each in (m, addend)]
            return T.Bind(requantize16(form, block, own[0], self.product.to, own[1]))

        for v in range(0, vectors // 4 * 4, 4):
            for row in range(rows):
                put(row, quarter([(row, v + i) for i in range(4)]), LANES * v, VECTOR)
        if vectors % 4:
            v = vectors - 2
            for row in range(0, rows, 2):
                below = min(row + 1, rows - 1)
                values = quarter([(row, v), (row, v + 1), (below, v), (below, v + 1)])
                put(row, low(values), LANES * v, VECTOR // 2)
                if below > row:
                    put(below, high(values), LANES * v, VECTOR // 2)


def _products(workload: Workload) -> tuple[Product, ...]:
    return taken(product_s8.products_of(workload, NAME), workload)


def _panels(product: Product, params: Params) -> Panels:
    steps = len(sdot_rows.k_order(product)) // K_STEP
    return Panels(product, params.columns, params.vectors, steps)
