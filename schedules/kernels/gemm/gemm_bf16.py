# SPDX-License-Identifier: Apache-2.0
"""bf16 linear layers and convolutions on BFMMLA: implicit GEMM with packed panels, sums and epilogue in binary32.

A task packs the k of one tile of rows, straight from where they lie, into a panel that L1 keeps, and multiplies it
by every panel of columns. Weights are packed at compile time. Each element is summed over k in order by one task: the
result depends neither on tiles nor on threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.intrinsics import bfloat
from schedules.intrinsics.bfloat import FEATURE, LANES
from schedules.intrinsics.fmla import LANES as WIDE_LANES
from schedules.intrinsics.mmla import BLOCK
from schedules.kernels.common import copies, threads, tiling
from schedules.kernels.common.contract import Array, Match, Rejection, taken
from schedules.kernels.common.cost_model import Cost, arithmetic, cheapest, scalar
from schedules.kernels.epilogues import epilogue_half
from schedules.kernels.gemm import product_float
from schedules.kernels.gemm.product import Product
from schedules.kernels.tiles import bfmmla_tile, mmla_tile
from schedules.tir.emit import i64, kernel_function, load

NAME = "gemm_bf16"

TILES = ((6, 4), (4, 6), (3, 8), (5, 4), (4, 4), (3, 4), (2, 8), (2, 4), (1, 8), (1, 4))
"""(row pairs, column pairs) of the register tiles worth considering."""

ROW_OVERHEAD = 12
"""Scalar instructions of a row of a tile: where it begins, and where it is stored."""

TILE_OVERHEAD = 8
"""Scalar instructions of a tile: where its constants and its outputs lie, and the loop over tiles."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        row_pairs: Row pairs of a register tile.
        column_pairs: Column pairs of a register tile, an even number.
        column_blocks: How many tasks share the columns of one tile of rows.
        parallel: Whether tasks are spread over the runtime's threads.
    """

    row_pairs: int
    column_pairs: int
    column_blocks: int = 1
    parallel: bool = False

    def __post_init__(self) -> None:
        mmla_tile.check_registers(self.row_pairs, self.column_pairs)
        if self.column_pairs % 2:
            raise ValueError(f"column_pairs {self.column_pairs} is not even, whose rows are vectors of four")

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return BLOCK * self.row_pairs

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return BLOCK * self.column_pairs


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes `arm.linear_bf16` and `arm.conv2d_bf16` with constant weights, on cores with bf16."""
    product = product_float.half_product_of(workload, NAME, "bfloat16")
    if isinstance(product, Rejection):
        return product
    if FEATURE not in core.features:
        return Rejection(NAME, "the core lacks a feature", FEATURE, core.name)
    return Match(f"bfloat16 product {product}")


def default(workload: Workload, core: Core) -> Params:
    """The cheapest candidate."""
    return cheapest(candidates(workload, core), lambda params: cost(workload, params), core)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Every tile; calls that are worth it in tasks for the threads."""
    product = _product(workload)
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
    product = _product(workload)
    segments = product.rows.segments
    full, rest = divmod(product.rows.count, params.rows)
    total = Cost()
    for row_pairs, tiles in ((params.row_pairs, full), (-(-rest // BLOCK), int(rest > 0))):
        packing = Cost(*bfmmla_tile.packing_instructions(segments)) * row_pairs
        packing += scalar(BLOCK * row_pairs * ROW_OVERHEAD)
        vectors = row_pairs * params.column_pairs
        # A ZIP makes a vector of a row.
        after = 1 + epilogue_half.instructions(workload.epilogue, workload.output_dtype)
        loop = Cost(*bfmmla_tile.instructions(row_pairs, params.column_pairs, bfmmla_tile.steps_of(segments)))
        tile = loop + arithmetic(vectors * after) + scalar(params.column_pairs / 2 + TILE_OVERHEAD)
        total += (packing * params.column_blocks + tile * _column_tiles(product, params)) * tiles
    return total * product.groups


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Panels of weights, bfloat16 as int16; the bias by column in the order of the accumulators' lanes, and a 0."""
    product, full = _product(workload), product_float.in_full(workload)
    order = bfmmla_tile.order(product.rows.segments)
    weights = product_float.weights_by_group(full, constants, product).transpose(0, 2, 1)
    width = _column_tiles(product, params) * params.columns
    b = np.zeros((product.groups, width, len(order)), weights.dtype)
    b[:, : product.columns] = np.where(
        order == bfmmla_tile.NOTHING, np.zeros((), weights.dtype), weights[:, :, np.maximum(order, 0)]
    )
    panels = bfmmla_tile.pack_columns(b.reshape(-1, len(order)), params.column_pairs)
    bias = np.zeros((product.groups, width), np.float32)
    columns = product_float.bias_of(full, constants, product.groups * product.columns)
    bias[:, : product.columns] = columns.reshape(product.groups, -1)
    return panels.ravel(), np.append(mmla_tile.in_blocks(bias.ravel()), np.float32(0))


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product = _product(workload)
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    width = product.groups * _column_tiles(product, params) * params.columns
    depth = len(bfmmla_tile.order(product.rows.segments))
    arguments += [((width * depth,), "int16"), ((BLOCK * width + 1,), "float32")]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = "_".join((workload.composite.replace(".", "_"), *(step.name for step in workload.epilogue)))
    with kernel_function(name, arguments) as function, bfloat.functions():
        buffers = [bfloat.bits(b) if str(b.dtype) == "bfloat16" else b for b in function.buffers]
        data = workload.operands[0]
        x = buffers[data.index]
        if product.pad is not None:
            x = copies.padded(x, data.shape, product.pad.widths, 0)
        emitter = _Emitter(workload, product, params, x, buffers)
        cut = (params.rows, params.column_blocks, params.parallel)
        tiling.tasks(product, *cut, emitter.row_tile)
    return function.prim_func


class _Emitter:
    """Emits the parts of one kernel, from the tasks inwards."""

    def __init__(
        self,
        workload: Workload,
        product: Product,
        params: Params,
        x: tirx.Buffer,
        buffers: Sequence[tirx.Buffer],
    ) -> None:
        residual = workload.step("residual")
        self.product, self.params, self.x, self.epilogue = product, params, x, workload.epilogue
        self.b, self.bias, self.output = buffers[-3:]
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None
        self.steps = bfmmla_tile.steps_of(product.rows.segments)
        last = self.bias.vload([i64(int(self.bias.shape[0]) - 1)], "float32")
        self.hidden_steps = T.Bind(tirx.Cast("int64", last) + i64(self.steps))

    def row_tile(self, group: ir.Expr, first: ir.Expr, count: int, block: ir.Expr) -> None:
        """Packs `count` rows from row `first` and multiplies them by a block of columns."""
        product, params = self.product, self.params
        pairs = -(-count // BLOCK)
        panel = T.alloc_buffer((pairs * LANES * self.steps,), "int16", layout=None)
        # An odd last row is multiplied twice, and stored once.
        at = product.rows.offsets(first, count, params.rows)
        starts = [T.Bind(start + group * product.group_step) for start in at]
        bfmmla_tile.pack_rows(product.rows.segments, self.x, panel, starts)
        tiling.column_tiles(
            product.columns,
            params.columns,
            (block, params.column_blocks),
            lambda tile, columns: self.tile(panel, (group, first, count), tile, columns),
        )

    def tile(
        self, panel: tirx.Buffer, where: tuple[ir.Expr, ir.Expr, int], tile: ir.Expr, columns: int
    ) -> None:
        """One register tile and its epilogue; `columns` of its columns are part of the result."""
        params, product, (group, first, count) = self.params, self.product, where
        index = T.Bind(group * _column_tiles(product, params) + tile)
        start = [
            load(self.bias, (index * params.column_pairs + c) * WIDE_LANES, WIDE_LANES)
            for c in range(params.column_pairs)
        ]
        acc = bfmmla_tile.multiply(
            panel,
            self.b,
            index * (params.column_pairs * LANES * self.steps),
            (-(-count // BLOCK), params.column_pairs),
            self.hidden_steps,
            bfmmla_tile.unroll_of(self.steps),
            start,
        )
        left = group * product.columns + tile * params.columns
        for row in range(count):
            offset = product.target(first + row) + left
            epilogue_half.finish(
                self.epilogue, acc, row * params.columns, columns, self.output, offset, self.residual
            )


def _product(workload: Workload) -> Product:
    return taken(product_float.half_product_of(workload, NAME, "bfloat16"), workload)


def _column_tiles(product: Product, params: Params) -> int:
    """Tiles of the columns of one group."""
    return -(-product.columns // params.columns)
