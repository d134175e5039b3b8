# SPDX-License-Identifier: Apache-2.0
"""fp32 linear layers and convolutions with constant weights: register tiles of FMLA by lane, epilogue inside.

A is read where it lies: a row is an output pixel whose k run over segments of the data, and a tile loads four k of
each of its rows as one vector and takes them by lane. Data is copied only to give a convolution its border. B is
packed at compile time into panels of one tile's width, [group][N / width][K][width], and a group's last panel is as
narrow as N allows. A task is one panel times one block of rows; each element of the result is summed by one task, in an
order of k that all tiles have, so that it depends neither on tiles nor on threads.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from tvm import ir, tirx

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.intrinsics import sve
from schedules.intrinsics.fmla import LANES
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, Match, Rejection, taken
from schedules.kernels.epilogues import activation_f32, epilogue_f32
from schedules.kernels.gemm import k_blocking, panel_selection, product_float
from schedules.kernels.gemm.k_blocking import Depth
from schedules.kernels.gemm.panel_tiling import Cut, Place
from schedules.kernels.gemm.product import Product
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import kernel_function, load

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


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        rows: Rows of a register tile.
        vectors: Columns of a register tile, in vectors of four.
        row_block: Rows that a task multiplies by one panel, a multiple of `rows`.
        parallel: Whether tasks are spread over the runtime's threads.
        sve: Whether activations take instructions of SVE.
        depth_blocks: Blocks of k that a task sums one after the other; see `k_blocking`.
        panels: That a task of more than one block of k has.
    """

    rows: int
    vectors: int
    row_block: int
    parallel: bool
    sve: bool = False
    depth_blocks: int = 1
    panels: int = 1

    def __post_init__(self) -> None:
        fmla_tile.check_registers(self.rows, self.vectors)
        if self.row_block < self.rows or self.row_block % self.rows:
            raise ValueError(f"row_block {self.row_block} is not a multiple of {self.rows} rows")


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes `arm.linear`, `arm.conv2d` and `arm.conv2d_transpose` in float32 with constant weights."""
    products = product_float.products_of(workload, NAME)
    if isinstance(products, Rejection):
        return products
    return Match(f"float32 product {', '.join(str(product) for product in products)}")


def default(workload: Workload, core: Core) -> Params:
    """The candidate with the fewest instructions among those whose estimate is next to the lowest."""
    return panel_selection.best(workload, core, candidates, estimate, instructions)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Every tile, in blocks of rows for caches and threads; see `panel_choice.blocked`."""
    return candidates_by(workload, core, lambda params: estimate(workload, params, core))


def candidates_by(workload: Workload, core: Core, cycles: Callable[[Params], float]) -> tuple[Params, ...]:
    """The candidates of a kernel that takes other cycles."""
    product = max(_products(workload), key=lambda product: product.rows.count * product.rows.depth)
    by_sve = sve.pays(core) and any(step.name in activation_f32.POLYNOMIALS for step in workload.epilogue)
    return tuple(
        panel_selection.blocked(
            Params(rows, vectors, row_block=rows, parallel=False, sve=by_sve),
            lambda params: _cut(product, params),
            cycles,
            "float32",
            core,
        )
        for rows, vectors in TILES
        if fmla_tile.fits(rows, vectors, core)
    )


def space(workload: Workload, core: Core) -> tuple[Params, ...]:
    """For tuning: the candidates, and where L1 does not keep a panel, each also in blocks of k."""
    found, (product, *others) = candidates(workload, core), _products(workload)
    blocked = (
        replace(tile, row_block=rows, depth_blocks=blocks, panels=panels)
        for tile in found
        for blocks, rows, panels in k_blocking.variants(_cut(product, tile), core)
    )
    return found if others else (*found, *blocked)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles on one core: those of the register tiles, and what L1 does not keep for the next of them."""
    if params.depth_blocks > 1:
        whole = replace(params, depth_blocks=1, panels=1)
        return estimate(workload, whole, core) + _by_blocks(workload, params, core)
    data = math.prod(workload.operands[0].shape)
    fetching = sum(
        panel_selection.fetching(_cut(product, params), data, "float32", core)
        for product in _products(workload)
    )
    return fetching + sum(
        count * fmla_tile.cycles(rows, vectors, segments, after, core)
        for rows, vectors, segments, after, count in _register_tiles(workload, params)
    )


def _by_blocks(workload: Workload, params: Params, core: Core) -> float:
    """Cycles that blocks of k add to a tile's estimate: below 0 where the default's panels come from L2 again."""
    (product,) = _products(workload)
    cut, usual = _cut(product, params), _cut(product, _default(workload, core))
    k = Depth(product.rows.segments, params.depth_blocks).longest
    reading = k_blocking.rereading(cut, k, core)
    reading -= k_blocking.rereading(usual, product.rows.depth, core)
    return reading + k_blocking.overhead(cut, params.depth_blocks, params.panels, core)


_default = lru_cache(maxsize=16)(default)


def instructions(workload: Workload, params: Params) -> float:
    """Instructions of one call; what lies outside the tiles, a few percent of small calls, is left out."""
    return sum(
        count * (fmla_tile.instructions(rows, vectors, segments) + after)
        for rows, vectors, segments, after, count in _register_tiles(workload, params)
    )


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """B in panels and the bias, both flat, with each group padded to the width of its last panel."""
    panels, biases = [], []
    for product in _products(workload):
        cut, order = _cut(product, params), fmla_tile.order(product.rows.segments)
        panels.append(cut.packed(product_float.weights_by_group(workload, constants, product)[:, order]))
        bias = product_float.bias_of(workload, constants, product.groups * product.columns)
        biases.append(cut.by_column(bias))
    return np.concatenate(panels), np.concatenate(biases)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    cuts = [_cut(product, params) for product in _products(workload)]
    widths = [cut.product.groups * cut.padded_columns for cut in cuts]
    sizes = [width * cut.product.rows.depth for cut, width in zip(cuts, widths, strict=True)]
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [((sum(sizes),), "float32"), ((sum(widths),), "float32")]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = "_".join((workload.composite.replace(".", "_"), "f32", *(step.name for step in workload.epilogue)))
    with kernel_function(name, arguments) as function, sve.functions(params.sve):
        data = workload.operands[0]
        a = function.buffers[data.index]
        pad = cuts[0].product.pad
        if pad is not None:
            a = copies.padded(a, data.shape, pad.widths, pad.value)
        for index, cut in enumerate(cuts):
            before = sum(sizes[:index]), sum(widths[:index])
            emitter = _Emitter(workload, cut, params, a, function.buffers, before)
            emitter.tasks()
    return function.prim_func


class _Emitter:
    """Emits the tiles of one product; `before` are elements of B and of the bias of those before it."""

    def __init__(
        self,
        workload: Workload,
        cut: Cut,
        params: Params,
        a: tirx.Buffer,
        buffers: Sequence[tirx.Buffer],
        before: tuple[int, int],
    ) -> None:
        residual = workload.step("residual")
        self.cut, self.steps, self.params = cut, workload.epilogue, params
        self.a, self.before = a, before
        self.b, self.bias, self.output = buffers[-3:]
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None

    def tasks(self) -> None:
        """All of them."""
        params, segments = self.params, self.cut.product.rows.segments
        if params.depth_blocks == 1:
            self.cut.tasks(parallel=params.parallel, begin=lambda _column, _width: self.tile)
            return
        depth = k_blocking.Depth(segments, params.depth_blocks)
        emit = k_blocking.Emit(self.a, self.row, self.panel, self.start, self.finish)
        k_blocking.tasks(self.cut, depth, params.panels, params.parallel, emit)

    def tile(self, place: Place, rows: int, width: int, columns: int) -> None:
        """One register tile and its epilogue: `columns` of the panel's `width` are part of the result."""
        segments, start = self.cut.product.rows.segments, self.start(place, width)
        a_rows = [self.row(place.group, place.row + r) for r in range(rows)]
        acc = fmla_tile.multiply(self.a, a_rows, segments, *self.panel(place), start)
        self.finish(place, rows, width, columns, acc)

    def start(self, place: Place, width: int) -> list[ir.Expr]:
        """The bias of each vector of columns."""
        bias = self._padded(place) + self.before[1]
        return [load(self.bias, bias + LANES * v, LANES) for v in range(width // LANES)]

    def row(self, group: ir.Expr, row: ir.Expr) -> ir.Expr:
        """Where a row of A begins."""
        product = self.cut.product
        return product.rows.offset(row) + group * product.group_step

    def panel(self, place: Place) -> tuple[tirx.Buffer, ir.Expr]:
        """The panel of B."""
        return self.b, self._padded(place) * self.cut.product.rows.depth + self.before[0]

    def finish(self, place: Place, rows: int, width: int, columns: int, acc: tirx.Buffer) -> None:
        """The epilogue."""
        left = place.group * self.cut.columns + place.column
        for r in range(rows):
            to = self.output, self.cut.product.target(place.row + r) + left, self.residual
            epilogue_f32.finish(self.steps, acc, r * width, columns, *to, sve=self.params.sve)

    def _padded(self, place: Place) -> ir.Expr:
        return place.group * self.cut.padded_columns + place.column


def _cut(product: Product, params: Params) -> Cut:
    return Cut(product, params.rows, params.vectors * LANES, params.row_block, LANES)


def _products(workload: Workload) -> tuple[Product, ...]:
    return taken(product_float.products_of(workload, NAME), workload)


def _register_tiles(
    workload: Workload, params: Params
) -> Iterator[tuple[int, int, Sequence[tuple[int, int]], float, int]]:
    """The kinds of register tile: rows, vectors, segments of k, instructions besides the sum, how many."""
    of_vector = epilogue_f32.instructions(workload.epilogue)
    for product in _products(workload):
        for rows, width, count in _cut(product, params).register_tiles():
            vectors = width // LANES
            after = rows * (panel_selection.finding(product) + vectors * of_vector)
            yield rows, vectors, product.rows.segments, after, count
