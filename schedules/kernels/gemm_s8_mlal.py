# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on SMULL and SMLAL, for cores without dotprod: implicit GEMM, requantised.

A register tile loads 16 k of each of its rows as one vector, so nothing of A is packed. Weights are packed at compile
time. Integer sums have no order: the result depends neither on tiles nor on threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import kernel_function, load
from schedules.intrinsics.pin import pins
from schedules.intrinsics.vector import high, low
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import copies, mlal_rows, mlal_tile, product_s8, threads, tiling
from schedules.kernels.chains import chain_of
from schedules.kernels.cost import VECTOR, Cost, arithmetic, cheapest, requantization, scalar
from schedules.kernels.mlal_tile import LANES
from schedules.kernels.product_s8 import Product
from schedules.kernels.requantize_tile import requantize16
from schedules.workload import Workload

NAME = "gemm_s8_mlal"

TILES = ((2, 8), (1, 8))
"""(rows, columns) of the register tiles worth considering."""

COLUMNS = 8
"""Columns of a tile are a multiple of it: what is stored at once."""

ROW_OVERHEAD = 12
"""Scalar instructions of a row of a tile: where it begins, and where it is stored."""

TILE_OVERHEAD = 8
"""Scalar instructions of a tile: where its constants and its outputs lie, and the loop over tiles."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        rows: Rows of a register tile.
        columns: Columns of a register tile, a multiple of 8.
        chain: Products that are summed in 16 bits before they are widened: 2 is exact only for weights of which no
            two that meet in a lane are -128 (see `mlal_tile`), 1 for all.
        column_blocks: How many tasks share the columns of one tile of rows.
        parallel: Whether tasks are spread over the runtime's threads.
    """

    rows: int
    columns: int
    chain: int = 1
    column_blocks: int = 1
    parallel: bool = False

    def __post_init__(self) -> None:
        mlal_tile.check_registers(self.rows, self.columns)
        if self.columns % COLUMNS:
            raise ValueError(f"columns {self.columns} is no multiple of {COLUMNS}: they are stored in eights")
        if self.chain not in (1, 2):
            raise ValueError(f"chain {self.chain} is not 1 or 2: three products do not fit 16 bits")


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes integer convolutions and linear layers with constant weights, on every core with NEON."""
    products = product_s8.products_of(workload, NAME)
    if isinstance(products, Rejection):
        return products
    if not core.neon:
        return Rejection(NAME, "the core lacks a feature", "neon", core.name)
    return Match(f"int8 product {', '.join(str(product) for product in products)}")


def default(workload: Workload, core: Core) -> Params:
    """The cheapest candidate."""
    return cheapest(candidates(workload, core), lambda params: cost(workload, params), core)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Every tile; calls that are worth it in tasks for the threads."""
    product = max(_products(workload), key=lambda product: product.macs)
    chain = chain_of(workload)
    found = []
    for rows, columns in TILES:
        params = Params(rows, columns, chain)
        if estimate(workload, params, core) >= threads.PARALLEL_CYCLES:
            blocks, parallel = tiling.shares(product, params.rows, params.columns)
            params = Params(rows, columns, chain, column_blocks=blocks, parallel=parallel)
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
    if mlal_rows.is_staged(product):
        staging = sum(len(copies.pieces(length, VECTOR)) for _, length in product.rows.segments)
    row = arithmetic(staging) + scalar(staging + ROW_OVERHEAD)
    total = Cost()
    full, rest = divmod(product.rows.count, params.rows)
    for rows, tiles in ((params.rows, full), (rest, 1)):
        if rows and tiles:
            columns = _tile_cost(product, params, rows) * _column_tiles(product, params)
            total += (row * (rows * params.column_blocks) + columns) * tiles
    return total * product.groups


def _tile_cost(product: Product, params: Params, rows: int) -> Cost:
    # Two rows are requantised together; an odd last one with itself.
    outputs = -(-rows // 2) * 2 * params.columns
    # The offset of each vector of four, the upper half moved, and a store of eight.
    finish = outputs / LANES + 1.5 * outputs / COLUMNS
    loop = mlal_tile.cost(rows, params.columns, mlal_rows.chunks_of(product), params.chain)
    constants = scalar(2 * params.columns / LANES / 2 + TILE_OVERHEAD)
    return loop + requantization(outputs, product.form, product.to) + arithmetic(finish) + constants


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Panels of weights; offsets; multipliers.

    Raises:
        ValueError: Two weights of -128 meet in a lane, and `params.chain` is 2.
    """
    packed = [_packed(workload, product, params, constants) for product in _products(workload)]
    return tuple(np.concatenate(parts) for parts in zip(*packed, strict=True))


def _packed(
    workload: Workload, product: Product, params: Params, constants: Sequence[Array]
) -> tuple[Array, Array, Array]:
    width = _column_tiles(product, params) * params.columns
    segments = mlal_rows.chunks_of(product)
    weights = mlal_rows.packed_weights(product, product_s8.weights_by_column(workload, constants, product))
    if params.chain > 1 and not mlal_tile.pairs_fit(weights, segments):
        raise ValueError(
            f"{NAME}: two weights of -128 meet in a lane, whose products do not fit; take chain 1"
        )
    padded = np.zeros((product.groups, width, weights.shape[-1]), np.int8)
    padded[:, : product.columns] = weights
    panels = mlal_tile.pack_columns(padded.reshape(-1, weights.shape[-1]), params.columns, segments)
    offset, m = product_s8.offsets_and_multipliers(workload, constants, product)
    return panels.ravel(), tiling.by_group(offset, product, width), tiling.by_group(m, product, width)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    products = _products(workload)
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    sizes = [_sizes(product, params) for product in products]
    weights, columns = (sum(each) for each in zip(*sizes, strict=True))
    arguments += [((weights,), "int8"), ((columns,), "int32"), ((columns,), "float32")]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = workload.composite.replace(".", "_") + "_mlal"
    with kernel_function(name, arguments) as function:
        x, *rest = function.buffers
        if products[0].pad is not None:
            x = product_s8.padded(x, workload, products[0])
        for index, product in enumerate(products):
            before = [sum(each) for each in zip((0, 0), *sizes[:index], strict=True)]
            emitter = _Emitter(product, params, x, rest, before)
            with pins():
                tiling.tasks(product, params.rows, params.column_blocks, params.parallel, emitter.row_tile)
    return function.prim_func


class _Emitter:
    """Emits one product, from a tile of rows inwards; `before` are weights and columns of those before it."""

    def __init__(
        self,
        product: Product,
        params: Params,
        x: tirx.Buffer,
        rest: Sequence[tirx.Buffer],
        before: Sequence[int],
    ) -> None:
        self.product, self.params, self.x, self.before = product, params, x, before
        self.b, self.offset, self.m, self.output = rest
        self.chunks = mlal_rows.chunks_of(product)
        self.depth = len(mlal_rows.k_order(product))

    def row_tile(self, group: ir.Expr, first: ir.Expr, count: int, block: ir.Expr) -> None:
        """Multiplies `count` rows from row `first` by a block of columns."""
        product, params = self.product, self.params
        at = product.rows.offsets(first, count, params.rows)[:count]
        starts = [T.Bind(start + group * product.group_offset()) for start in at]
        source = self.x
        if mlal_rows.is_staged(product):
            source, starts = mlal_rows.staged(product, self.x, starts)
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
        column = T.Bind((group * _column_tiles(product, params) + tile) * params.columns)
        acc = mlal_tile.multiply(
            source,
            starts,
            self.b,
            column * self.depth + self.before[0],
            params.columns,
            self.chunks,
            params.chain,
            product.flipped,
        )
        left = group * product.columns + tile * params.columns
        for v in range(0, columns, COLUMNS):
            offset, m = (
                [
                    load(values, column + (self.before[1] + v + LANES * i), LANES)
                    for i in range(COLUMNS // LANES)
                ]
                for values in (self.offset, self.m)
            )
            for row in range(0, len(starts), 2):
                below = min(row + 1, len(starts) - 1)
                totals = [
                    T.Bind(mlal_tile.sums(acc, params.columns, r, v + LANES * i) + offset[i])
                    for r in (row, below)
                    for i in range(COLUMNS // LANES)
                ]
                values = T.Bind(requantize16(product.form, totals, [*m, *m], product.to))
                real = min(COLUMNS, columns - v)
                tiling.store_part(self.output, low(values), product.target(first + row) + (left + v), real)
                if below > row:
                    to = product.target(first + below) + (left + v)
                    tiling.store_part(self.output, high(values), to, real)


def _products(workload: Workload) -> tuple[Product, ...]:
    return taken(product_s8.products_of(workload, NAME), workload)


def _sizes(product: Product, params: Params) -> tuple[int, int]:
    """Weights and columns, padded to whole tiles."""
    columns = product.groups * _column_tiles(product, params) * params.columns
    return columns * len(mlal_rows.k_order(product)), columns


def _column_tiles(product: Product, params: Params) -> int:
    """Tiles of the columns of one group."""
    return -(-product.columns // params.columns)
