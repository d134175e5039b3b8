# SPDX-License-Identifier: Apache-2.0
"""fp32 linear layers and convolutions with constant weights: register tiles of FMLA by lane, epilogue inside.

A is read where it lies: a row is an output pixel whose k run over segments of the data, and a tile loads four k of
each of its rows as one vector and takes them by lane. Data is copied only to give a convolution its border. B is
packed at compile time into panels of one tile's width, [group][N / width][K][width], and a group's last panel is as
narrow as N allows. A task is one panel times one block of rows; each element of the result is summed by one task, in an
order of k that all tiles have, so that it depends neither on tiles nor on threads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load
from schedules.intrinsics.fmla import LANES
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import copies, epilogue_f32, fmla_tile, product_f32
from schedules.kernels.product_f32 import Product
from schedules.kernels.threads import PARALLEL_CYCLES, PARALLEL_TASKS
from schedules.workload import Workload

NAME = "gemm_f32"

TILES = (
    (7, 3),
    (6, 3),
    (5, 3),
    (4, 3),
    (5, 4),
    (4, 4),
    (3, 4),
    (2, 4),
    (2, 8),
    (1, 8),
    (1, 12),
    (9, 2),
    (8, 2),
    (7, 2),
    (14, 1),
    (12, 1),
    (8, 1),
)
"""(rows, vectors) of the register tiles worth considering."""

MODEL_ERROR = 0.03
"""Estimates this close are taken as equal: where the FMLA pipes are the limit, fewer instructions leave room for what
the model leaves out."""

ROW_OVERHEAD = 6
"""Instructions that find a row of a tile where pixels are not at equal distances: two divisions by constants."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        rows: Rows of a register tile.
        vectors: Columns of a register tile, in vectors of four.
        row_block: Rows that a task multiplies by one panel, a multiple of `rows`.
        parallel: Whether tasks are spread over the runtime's threads.
    """

    rows: int
    vectors: int
    row_block: int
    parallel: bool

    def __post_init__(self) -> None:
        fmla_tile.check_registers(self.rows, self.vectors)
        if self.row_block < self.rows or self.row_block % self.rows:
            raise ValueError(f"row_block {self.row_block} is not a multiple of {self.rows} rows")


@dataclass(frozen=True)
class _Cut:
    """The sizes that follow from a product and its parameters; `width` and `tail_width` are in columns."""

    product: Product
    params: Params

    @property
    def rows(self) -> int:
        return self.product.rows.count

    @property
    def columns(self) -> int:
        return self.product.columns

    @property
    def depth(self) -> int:
        return self.product.rows.depth

    @property
    def width(self) -> int:
        return self.params.vectors * LANES

    @property
    def full_panels(self) -> int:
        return self.columns // self.width

    @property
    def tail_width(self) -> int:
        return -(-(self.columns % self.width) // LANES) * LANES

    @property
    def panels(self) -> int:
        return self.full_panels + (self.tail_width > 0)

    @property
    def padded_columns(self) -> int:
        return self.full_panels * self.width + self.tail_width

    @property
    def tiles(self) -> int:
        """Full tiles of rows in all of A; `rows % params.rows` rows follow them."""
        return self.rows // self.params.rows

    @property
    def block_tiles(self) -> int:
        return self.params.row_block // self.params.rows

    @property
    def blocks(self) -> int:
        return max(1, -(-self.tiles // self.block_tiles))

    def register_tiles(self) -> Iterator[tuple[int, int, int]]:
        """The kinds of register tile: (rows, vectors, how many)."""
        for rows, tiles in ((self.params.rows, self.tiles), (self.rows % self.params.rows, 1)):
            for width, panels in ((self.width, self.full_panels), (self.tail_width, 1)):
                if rows and width and tiles and panels:
                    yield rows, width // LANES, tiles * panels * self.product.groups


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes `arm.linear`, `arm.conv2d` and `arm.conv2d_transpose` in float32 with constant weights."""
    products = product_f32.products_of(workload, NAME)
    if isinstance(products, Rejection):
        return products
    return Match(f"float32 product {', '.join(str(product) for product in products)}")


def default(workload: Workload, core: Core) -> Params:
    """The candidate with the fewest instructions among those whose estimate is next to the lowest."""
    estimates = {params: estimate(workload, params, core) for params in candidates(workload, core)}
    limit = min(estimates.values()) * (1 + MODEL_ERROR)
    near = (params for params, cycles in estimates.items() if cycles <= limit)
    return min(near, key=lambda params: instructions(workload, params))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Every tile; a block's rows take half of L2 at most, and are fewer where threads need more tasks."""
    product = max(_products(workload), key=lambda product: product.rows.count * product.rows.depth)
    row_bytes = product.rows.depth * np.dtype(np.float32).itemsize
    found = []
    for rows, vectors in TILES:
        tiles = -(-product.rows.count // rows)
        panels = -(-product.columns // (vectors * LANES)) * product.groups
        l2_tiles = core.l2.size // 2 // row_bytes // rows
        serial = Params(rows, vectors, max(1, min(l2_tiles, tiles)) * rows, parallel=False)
        task_tiles = tiles // -(-PARALLEL_TASKS // panels)
        spread = Params(rows, vectors, max(1, min(l2_tiles, task_tiles)) * rows, parallel=True)
        big = estimate(workload, serial, core) >= PARALLEL_CYCLES
        found.append(spread if big and tiles * panels > 1 else serial)
    return tuple(found)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles on one core with all loads in L1: those of the register tiles."""
    return sum(
        count
        * fmla_tile.cycles(
            rows, vectors, product.rows.segments, _after(workload, product, rows, vectors), core
        )
        for product in _products(workload)
        for rows, vectors, count in _Cut(product, params).register_tiles()
    )


def instructions(workload: Workload, params: Params) -> float:
    """Instructions of one call; what lies outside the tiles, a few percent of small calls, is left out."""
    return sum(
        count
        * (
            fmla_tile.instructions(rows, vectors, product.rows.segments)
            + _after(workload, product, rows, vectors)
        )
        for product in _products(workload)
        for rows, vectors, count in _Cut(product, params).register_tiles()
    )


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """B in panels and the bias, both flat, with each group padded to the width of its last panel."""
    packed = [_packed(workload, _Cut(product, params), constants) for product in _products(workload)]
    return np.concatenate([b for b, _ in packed]), np.concatenate([bias for _, bias in packed])


def _packed(workload: Workload, cut: _Cut, constants: Sequence[Array]) -> tuple[Array, Array]:
    product = cut.product
    groups, full = product.groups, cut.full_panels * cut.width
    b = np.zeros((groups, cut.depth, cut.padded_columns), np.float32)
    order = fmla_tile.order(product.rows.segments)
    b[:, :, : cut.columns] = product_f32.weights_by_group(workload, constants, product)[:, order]
    panels = b[:, :, :full].reshape(groups, cut.depth, cut.full_panels, cut.width).transpose(0, 2, 1, 3)
    packed = [panels.reshape(groups, -1), b[:, :, full:].reshape(groups, -1)]
    bias = np.zeros((groups, cut.padded_columns), np.float32)
    bias[:, : cut.columns] = product_f32.bias_of(workload, constants, groups * cut.columns).reshape(
        groups, -1
    )
    return np.concatenate(packed, axis=1).ravel(), bias.ravel()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    cuts = [_Cut(product, params) for product in _products(workload)]
    widths = [cut.product.groups * cut.padded_columns for cut in cuts]
    sizes = [width * cut.depth for cut, width in zip(cuts, widths, strict=True)]
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [((sum(sizes),), "float32"), ((sum(widths),), "float32")]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = "_".join((workload.composite.replace(".", "_"), "f32", *(step.name for step in workload.epilogue)))
    with kernel_function(name, arguments) as function:
        data = workload.operands[0]
        a = function.buffers[data.index]
        pad = cuts[0].product.pad
        if pad is not None:
            a = copies.padded(a, data.shape, pad.widths, pad.value)
        for index, cut in enumerate(cuts):
            before = sum(sizes[:index]), sum(widths[:index])
            _Emitter(workload, cut, a, function.buffers, before).tasks()
    return function.prim_func


class _Emitter:
    """Emits one product, from the tasks inwards; `before` are elements of B and of the bias of those before it."""

    def __init__(
        self,
        workload: Workload,
        cut: _Cut,
        a: tirx.Buffer,
        buffers: Sequence[tirx.Buffer],
        before: tuple[int, int],
    ) -> None:
        residual = workload.step("residual")
        self.cut, self.steps = cut, workload.epilogue
        self.a, self.before = a, before
        self.b, self.bias, self.output = buffers[-3:]
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None

    def tasks(self) -> None:
        """All of them."""
        cut, groups = self.cut, self.cut.product.groups
        count = groups * cut.blocks * cut.panels
        with (T.parallel if cut.params.parallel else T.serial)(i64(0), i64(count)) as task:
            row, panel = T.Bind(tirx.floordiv(task, cut.panels)), T.Bind(tirx.floormod(task, cut.panels))
            if groups == 1:
                self.task(i64(0), row, panel)
            else:
                group, block = tirx.floordiv(row, cut.blocks), tirx.floormod(row, cut.blocks)
                self.task(T.Bind(group), T.Bind(block), panel)

    def task(self, group: ir.Expr, block: ir.Expr, panel: ir.Expr) -> None:
        """One panel by one block of rows; a group's last panel is code of its own where it is narrower."""
        cut = self.cut
        if cut.full_panels and cut.tail_width:
            with T.If(panel < i64(cut.full_panels)):
                with T.Then():
                    self.rows(group, block, panel, cut.width, cut.width)
                with T.Else():
                    self.rows(group, block, panel, cut.tail_width, cut.columns % cut.width)
        elif cut.full_panels:
            self.rows(group, block, panel, cut.width, cut.width)
        else:
            self.rows(group, block, panel, cut.tail_width, cut.columns)

    def rows(self, group: ir.Expr, block: ir.Expr, panel: ir.Expr, width: int, columns: int) -> None:
        """The tiles of one block; the rows left over at the end of A go with the last block."""
        cut, rows = self.cut, self.cut.params.rows
        column = T.Bind(panel * cut.width)
        where = (group, column)
        first = block * cut.block_tiles
        if cut.tiles:
            count = i64(cut.tiles) if cut.blocks == 1 else tirx.min(i64(cut.block_tiles), cut.tiles - first)
            with T.serial(i64(0), count) as tile:
                self.tile(where, T.Bind((first + tile) * rows), rows, width, columns)
        if cut.rows % rows:
            with T.If(block == i64(cut.blocks - 1)), T.Then():
                self.tile(where, i64(cut.tiles * rows), cut.rows % rows, width, columns)

    def tile(self, where: tuple[ir.Expr, ir.Expr], row: ir.Expr, rows: int, width: int, columns: int) -> None:
        """One register tile and its epilogue: `columns` of the panel's `width` are part of the result."""
        cut, product, (group, column) = self.cut, self.cut.product, where
        padded = group * cut.padded_columns + column
        b, bias = padded * cut.depth + self.before[0], padded + self.before[1]
        start = [load(self.bias, bias + LANES * v, LANES) for v in range(width // LANES)]
        a_rows = [product.rows.offset(row + r) + group * product.group_step for r in range(rows)]
        acc = fmla_tile.multiply(self.a, a_rows, product.rows.segments, self.b, b, start)
        left = group * cut.columns + column
        for r in range(rows):
            offset = product.target(row + r) + left
            epilogue_f32.finish(self.steps, acc, r * width, columns, self.output, offset, self.residual)


def _products(workload: Workload) -> tuple[Product, ...]:
    return taken(product_f32.products_of(workload, NAME), workload)


def _after(workload: Workload, product: Product, rows: int, vectors: int) -> float:
    """Instructions of a tile besides its sum: where its rows lie, the epilogue."""
    (_, _, pixels), (_, line, pixel) = product.rows.shape, product.rows.strides
    find = 0 if product.rows.shape[:2] == (1, 1) or line == pixels * pixel else ROW_OVERHEAD
    return rows * (find + vectors * epilogue_f32.instructions(workload.epilogue))
