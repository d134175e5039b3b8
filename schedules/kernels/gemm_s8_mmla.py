# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on SMMLA: implicit GEMM with packed panels, requantised in registers.

A task packs the k of one tile of rows, straight from where they lie, into a panel that L1 keeps, and multiplies it
by every panel of columns. Weights are packed at compile time. Integer sums have no order: the result depends neither on
tiles nor on threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function
from schedules.intrinsics.mmla import BLOCK, FEATURE
from schedules.intrinsics.vector import high, low, unzip
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import mmla_rows, mmla_tile, product_s8, threads, tiling
from schedules.kernels.columns_s8 import HEADER, Header, Panels
from schedules.kernels.cost import VECTOR, Cost, arithmetic, cheapest, requantization, scalar
from schedules.kernels.product_s8 import Product
from schedules.kernels.requantize_tile import Form, requantize16
from schedules.workload import Workload

NAME = "gemm_s8_mmla"

TILES = ((6, 4), (3, 8), (5, 4), (4, 4), (3, 4), (2, 8), (2, 4), (1, 8), (1, 4))
"""(row pairs, column pairs) of the register tiles worth considering; columns in eights, as channels are."""

UNROLL = ((32, 8), (0, 4))
"""(at least as many k steps, k steps of a loop iteration): eight where the code left over for the rest is small."""

ROW_OVERHEAD = 12
"""Scalar instructions of a row of a tile: where it begins, and where it is stored."""

TILE_OVERHEAD = 8
"""Scalar instructions of a tile: where its constants and its outputs lie, and the loop over tiles."""

UNROLLED_STEPS = 8
"""LLVM makes straight code of loops of as many k steps, and mixes it with the requantisation behind it."""

UNROLLED_TILE = 16
"""Accumulators that leave registers for both there."""

SPILLS = 60
"""Loads and stores of the stack in such code of larger tiles: 54 and more are seen with 24 accumulators."""

HALF_ROWS = 4
"""Column pairs whose rows are eight bytes."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        row_pairs: Row pairs of a register tile.
        column_pairs: Column pairs of a register tile, a multiple of 4.
        column_blocks: How many tasks share the columns of one tile of rows.
        parallel: Whether tasks are spread over the runtime's threads.
    """

    row_pairs: int
    column_pairs: int
    column_blocks: int = 1
    parallel: bool = False

    def __post_init__(self) -> None:
        mmla_tile.check_registers(self.row_pairs, self.column_pairs)
        if self.column_pairs not in (4, 8):
            raise ValueError(f"column_pairs {self.column_pairs} is not 4 or 8, whose rows are 8 or 16 bytes")

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return BLOCK * self.row_pairs

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return BLOCK * self.column_pairs


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes integer convolutions and linear layers with constant weights, on cores with i8mm."""
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
    total = Cost()
    for row_pairs, tiles in _row_tiles(product, params):
        packing = Cost(*mmla_rows.instructions(product)) * row_pairs + scalar(
            BLOCK * row_pairs * ROW_OVERHEAD
        )
        columns = _tile_cost(product, params, row_pairs) * _panels(product, params).tiles
        total += (packing * params.column_blocks + columns) * tiles
    return total * product.groups


def _tile_cost(product: Product, params: Params, row_pairs: int) -> Cost:
    steps, pairs = mmla_rows.steps_of(product), params.column_pairs
    outputs = BLOCK * BLOCK * row_pairs * pairs
    # Rows of eight bytes are halves of vectors: one moves, and each is stored.
    stores = outputs / VECTOR * (3 if pairs == HALF_ROWS else 1)
    loop = Cost(*mmla_tile.instructions(row_pairs, pairs, steps, _unroll(steps)))
    finish = requantization(outputs, product.form, product.to) + arithmetic(outputs / VECTOR + stores)
    spills = SPILLS if steps <= UNROLLED_STEPS and row_pairs * pairs > UNROLLED_TILE else 0
    return loop + finish + scalar(HEADER * pairs / 2 + TILE_OVERHEAD + spills)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Panels of weights, and their headers."""
    packed = []
    for product in _products(workload):
        by_column = product_s8.weights_by_column(workload, constants, product)
        weights = mmla_rows.packed_weights(product, by_column)
        packed.append(
            _panels(product, params).pack(
                workload,
                constants,
                weights,
                lambda columns: mmla_tile.pack_columns(columns, params.column_pairs),
                mmla_tile.in_blocks,
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
    name = workload.composite.replace(".", "_") + "_mmla"
    with kernel_function(name, arguments) as function:
        x, *rest = function.buffers
        if products[0].pad is not None or any(map(mmla_rows.reads_past_the_data, products)):
            x = product_s8.padded(x, workload, products[0])
        for index, product in enumerate(products):
            before = [sum(each) for each in zip((0, 0), *sizes[:index], strict=True)]
            emitter = _Emitter(product, params, x, rest, before)
            tiling.tasks(product, params.rows, params.column_blocks, params.parallel, emitter.row_tile)
    return function.prim_func


class _Emitter:
    """Emits one product, from the tasks inwards; `before` are bytes of panels and of headers of those before it."""

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
        self.panels, self.steps = _panels(product, params), mmla_rows.steps_of(product)

    def row_tile(self, group: ir.Expr, first: ir.Expr, count: int, block: ir.Expr) -> None:
        """Packs `count` rows from row `first` and multiplies them by a block of columns."""
        product, params = self.product, self.params
        pairs = -(-count // BLOCK)
        panel = T.alloc_buffer((pairs * VECTOR * self.steps,), "int8", layout=None)
        # An odd last row is multiplied twice, and stored once.
        at = product.rows.offsets(first, count, params.rows)
        starts = [T.Bind(start + group * product.group_offset()) for start in at]
        mmla_rows.pack_rows(product, self.x, panel, starts)
        tiling.column_tiles(
            product.columns,
            params.columns,
            (block, params.column_blocks),
            lambda tile, columns: self.tile(panel, pairs, (group, first, count), tile, columns),
        )

    def tile(
        self, panel: tirx.Buffer, pairs: int, where: tuple[ir.Expr, ir.Expr, int], tile: ir.Expr, columns: int
    ) -> None:
        """One register tile, requantised and stored; `columns` of its columns are part of the result."""
        params, product, (group, first, count) = self.params, self.product, where
        index = T.Bind(group * self.panels.tiles + tile)
        header = Header(self.panels, self.header, index, self.before[1])
        acc = mmla_tile.multiply(
            panel,
            i64(0),
            self.b,
            index * self.panels.weight_bytes + self.before[0],
            (pairs, params.column_pairs),
            self.steps,
            _unroll(self.steps),
            header.offsets(),
        )
        left = group * product.columns + tile * params.columns

        def put(row: int, value: ir.Expr, at: int, lanes: int) -> None:
            if row < count:
                tiling.store_part(
                    self.output, value, product.target(first + row) + (left + at), min(lanes, columns - at)
                )

        header.requantized(lambda form, m, addend: self.rows_of(acc, pairs, (form, m, addend), put))

    def rows_of(
        self,
        acc: tirx.Buffer,
        pairs: int,
        how: tuple[Form, Sequence[ir.Expr], Sequence[ir.Expr]],
        put: Callable[[int, ir.Expr, int, int], None],
    ) -> None:
        """Requantises a tile and hands each row to `put`: (row, values, first column, lanes)."""
        form, m, addend = how

        def quarter(pair: int, first: int) -> ir.Expr:
            at = (pair * self.params.column_pairs + first) * 4
            block = [acc.vload([i64(at + 4 * c)], "int32x4") for c in range(4)]
            own = slice(first, first + 4)
            return T.Bind(requantize16(form, block, m[own], self.product.to, addend[own]))

        for pair in range(pairs if self.params.column_pairs == 8 else 0):
            even, odd = unzip(quarter(pair, 0), quarter(pair, 4), "int16x8")
            put(2 * pair, T.Bind(even), 0, 16)
            put(2 * pair + 1, T.Bind(odd), 0, 16)
        for pair in range(0, pairs if self.params.column_pairs == 4 else 0, 2):
            first = quarter(pair, 0)
            second = quarter(pair + 1, 0) if pair + 1 < pairs else first
            even, odd = (T.Bind(half) for half in unzip(first, second, "int16x8"))
            for row, half, value in ((0, low, even), (1, low, odd), (2, high, even), (3, high, odd)):
                put(2 * pair + row, half(value), 0, 8)


def _products(workload: Workload) -> tuple[Product, ...]:
    return taken(product_s8.products_of(workload, NAME), workload)


def _unroll(steps: int) -> int:
    return next(unroll for least, unroll in UNROLL if steps >= least)


def _panels(product: Product, params: Params) -> Panels:
    return Panels(product, params.columns, params.column_pairs, mmla_rows.steps_of(product))


def _row_tiles(product: Product, params: Params) -> list[tuple[int, int]]:
    """The kinds of tile: (row pairs, how many)."""
    full, rest = divmod(product.rows.count, params.rows)
    return [(params.row_pairs, full), *([(-(-rest // BLOCK), 1)] if rest else [])]
