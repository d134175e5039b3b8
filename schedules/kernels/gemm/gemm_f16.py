# SPDX-License-Identifier: Apache-2.0
"""fp16 linear layers and convolutions with constant weights: register tiles of FMLA on eight lanes, epilogue inside.

A is read where it lies, as in `gemm_f32`; B is packed at compile time into panels of one tile's width. What the sums
are worth stands in `fmla_f16_tile`; bias, activation and residual are added in binary32, and the result rounded once.

int8 weights stay that in memory: each task widens the panel that it reads, and their scale meets the binary32 sum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.intrinsics.fmla import LANES as WIDE_LANES
from schedules.intrinsics.fmla_f16 import FEATURE, LANES, WIDENING_FEATURE
from schedules.intrinsics.narrow import fma
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, Match, Rejection, taken
from schedules.kernels.epilogues import epilogue_half
from schedules.kernels.gemm import panel_selection, product_float, widen_s8
from schedules.kernels.gemm.panel_tiling import Cut, Place, Tile
from schedules.kernels.gemm.product import Product
from schedules.kernels.tiles import fmla_f16_tile
from schedules.kernels.tiles.half_sums import Sums
from schedules.tir.emit import i64, kernel_function, load, store

NAME = "gemm_f16"

TILES = (
    (7, 3),
    (6, 3),
    (5, 4),
    (4, 4),
    (3, 4),
    (2, 4),
    (1, 4),
    (9, 2),
    (7, 2),
    (5, 2),
    (12, 1),
    (8, 1),
    (1, 8),
)
"""(rows, vectors of eight columns) of the register tiles worth considering."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        rows: Rows of a register tile.
        vectors: Columns of a register tile, in vectors of eight.
        row_block: Rows that a task multiplies by one panel, a multiple of `rows`.
        parallel: Whether tasks are spread over the runtime's threads.
        widening: Whether FMLAL adds binary16 sums to binary32.
    """

    rows: int
    vectors: int
    row_block: int
    parallel: bool
    widening: bool

    def __post_init__(self) -> None:
        fmla_f16_tile.check_registers(self.rows, self.vectors)
        if self.row_block < self.rows or self.row_block % self.rows:
            raise ValueError(f"row_block {self.row_block} is not a multiple of {self.rows} rows")


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes products of float16 data and constant weights, float16 or int8, on cores with fp16 arithmetic."""
    product = _read(workload)
    if isinstance(product, Rejection):
        return product
    if FEATURE not in core.features:
        return Rejection(NAME, "the core lacks a feature", FEATURE, core.name)
    weights = " of int8 weights" if workload.composite == product_float.WEIGHT_ONLY else ""
    return Match(f"float16 product{weights} {product}")


def default(workload: Workload, core: Core) -> Params:
    """The candidate with the fewest instructions among those whose estimate is next to the lowest."""
    return panel_selection.best(workload, core, candidates, estimate, instructions)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Every tile; a block's rows take half of L2 at most, and are fewer where threads need more tasks."""
    product, widening = _product(workload), WIDENING_FEATURE in core.features
    return tuple(
        panel_selection.blocked(
            Params(rows, vectors, row_block=rows, parallel=False, widening=widening),
            lambda params: _cut(product, params),
            lambda params: estimate(workload, params, core),
            "float16",
            core,
        )
        for rows, vectors in TILES
    )


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles on one core with all loads in L1: those of the register tiles."""
    return _widening_instructions(workload, params) / core.issue_width + sum(
        count * fmla_f16_tile.cycles(rows, vectors, segments, after, core, widening=params.widening)
        for rows, vectors, segments, after, count in _register_tiles(workload, params)
    )


def instructions(workload: Workload, params: Params) -> float:
    """Instructions of one call; what lies outside the tiles, a few percent of small calls, is left out."""
    return _widening_instructions(workload, params) + sum(
        count * (fmla_f16_tile.instructions(rows, vectors, segments, widening=params.widening) + after)
        for rows, vectors, segments, after, count in _register_tiles(workload, params)
    )


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """B in panels, each column times its power of two; by column what undoes that, and the bias; and a 0."""
    product = _product(workload)
    cut, full = _cut(product, params), product_float.in_full(workload)
    order = fmla_f16_tile.order(product.rows.segments)
    weights = product_float.weights_by_group(full, constants, product)
    b = np.where(order[:, None] == fmla_f16_tile.NOTHING, 0, weights[:, np.maximum(order, 0)])
    scale: Array
    if workload.composite == product_float.WEIGHT_ONLY:
        panels = b.astype(np.int8)
        scale = product_float.scales_of(workload, constants, product.columns) * np.exp2(widen_s8.FRACTION)
    else:
        powers = fmla_f16_tile.column_powers(b)
        panels = (b.astype(np.float32) * powers[:, None]).astype(np.float16)
        scale = 1 / powers
    bias = product_float.bias_of(full, constants, product.groups * product.columns).astype(np.float32)
    columns = [cut.by_column(scale.astype(np.float32)), cut.by_column(bias), np.zeros(1, np.float32)]
    return cut.packed(panels), np.concatenate(columns)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product = _product(workload)
    cut = _cut(product, params)
    width = product.groups * cut.padded_columns
    depth = len(fmla_f16_tile.order(product.rows.segments))
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [((width * depth,), workload.operands[1].dtype), ((2 * width + 1,), "float32")]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = "_".join((workload.composite.replace(".", "_"), *(step.name for step in workload.epilogue)))
    with kernel_function(name, arguments) as function:
        data = workload.operands[0]
        a = function.buffers[data.index]
        if product.pad is not None:
            a = copies.padded(a, data.shape, product.pad.widths, product.pad.value)
        emitter = _Emitter(workload, cut, params, a, function.buffers)
        cut.tasks(parallel=params.parallel, begin=emitter.begin)
    return function.prim_func


class _Emitter:
    """Emits the register tiles of one kernel."""

    def __init__(
        self, workload: Workload, cut: Cut, params: Params, a: tirx.Buffer, buffers: Sequence[tirx.Buffer]
    ) -> None:
        residual = workload.step("residual")
        self.cut, self.params, self.steps, self.a = cut, params, workload.epilogue, a
        self.b, self.columns, self.output = buffers[-3:]
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None
        self.depth = len(fmla_f16_tile.order(cut.product.rows.segments))
        self.width = cut.product.groups * cut.padded_columns
        self.zero = T.Bind(tirx.Cast("int64", self.columns.vload([i64(2 * self.width)], "float32")))

    def begin(self, column: ir.Expr, width: int) -> Tile:
        """What a task has of its own: its binary32 sums and, of int8 weights, its panel in binary16."""
        sums = Sums(self.params.rows * self.params.vectors * LANES)
        b, start = self.b, T.Bind(column * self.depth)
        if str(b.dtype) == "int8":
            b, start = T.alloc_buffer((self.depth * width,), "float16", layout=None), i64(0)
            widen_s8.widen(self.b, column * self.depth, b, self.depth * width)
        return lambda place, rows, width, columns: self.tile((b, start), sums, place, rows, width, columns)

    def tile(
        self,
        b: tuple[tirx.Buffer, ir.Expr],
        sums: Sums,
        place: Place,
        rows: int,
        width: int,
        columns: int,
    ) -> None:
        """One register tile and its epilogue."""
        cut, product = self.cut, self.cut.product
        padded = T.Bind(place.group * cut.padded_columns + place.column)
        a_rows = [product.rows.offset(place.row + r) + place.group * product.group_step for r in range(rows)]
        totals = fmla_f16_tile.multiply(
            self.a,
            a_rows,
            product.rows.segments,
            *b,
            width // LANES,
            sums,
            self.zero,
            widening=self.params.widening,
        )
        acc = T.alloc_buffer((rows * width,), "float32", layout=None)
        for column in range(width // WIDE_LANES):
            at = padded + column * WIDE_LANES
            scale, bias = (load(self.columns, at + part * self.width, WIDE_LANES) for part in range(2))
            for r in range(rows):
                total = totals[(r * width) // WIDE_LANES + column]
                store(acc, fma(total, scale, bias), i64(r * width + column * WIDE_LANES), WIDE_LANES)
        left = place.group * cut.columns + place.column
        for r in range(rows):
            offset = product.target(place.row + r) + left
            epilogue_half.finish(self.steps, acc, r * width, columns, self.output, offset, self.residual)


def _cut(product: Product, params: Params) -> Cut:
    return Cut(product, params.rows, params.vectors * LANES, params.row_block, LANES)


def _read(workload: Workload) -> Product | Rejection:
    if workload.composite == product_float.WEIGHT_ONLY:
        return product_float.weight_only_product_of(workload, NAME, "float16")
    return product_float.half_product_of(workload, NAME, "float16")


def _product(workload: Workload) -> Product:
    return taken(_read(workload), workload)


def _widening_instructions(workload: Workload, params: Params) -> float:
    """Instructions that widen int8 weights, once a task."""
    if workload.composite != product_float.WEIGHT_ONLY:
        return 0.0
    product = _product(workload)
    cut = _cut(product, params)
    return cut.blocks * cut.padded_columns * product.rows.depth * widen_s8.INSTRUCTIONS["float16"]


def _register_tiles(
    workload: Workload, params: Params
) -> Iterator[tuple[int, int, Sequence[tuple[int, int]], float, int]]:
    """The kinds of register tile: rows, vectors, segments of k, instructions besides the sum, how many."""
    product = _product(workload)
    of_vector = epilogue_half.instructions(workload.epilogue, workload.output_dtype)
    for rows, width, count in _cut(product, params).register_tiles():
        after = rows * (panel_selection.finding(product) + width // WIDE_LANES * of_vector)
        yield rows, width // LANES, product.rows.segments, after, count
