# SPDX-License-Identifier: Apache-2.0
"""bf16 linear layers and convolutions on BFMMLA: implicit GEMM with packed panels, sums and epilogue in binary32.

A task packs one tile of rows directly from the data (no im2col) into a panel that stays in L1; see `by_rows`.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import bfloat
from schedules.intrinsics.bfloat import FEATURE, LANES
from schedules.intrinsics.mmla import BLOCK
from schedules.intrinsics.registers import LANES as WIDE_LANES
from schedules.kernels.common import tiling
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import TIE, Cost, arithmetic, scalar
from schedules.kernels.epilogues import epilogue_f32, epilogue_half
from schedules.kernels.gemm.by_rows import (
    ROW_OVERHEAD,
    TILE_OVERHEAD,
    ByRows,
    EmitTile,
    Ready,
    RowTilePosition,
    RowUnit,
    TileSize,
)
from schedules.kernels.gemm.gemm import Call
from schedules.kernels.gemm.product import GemmProduct, reordered, weights_by_column
from schedules.kernels.gemm.product_float import bias_of, half_product_of
from schedules.kernels.tiles import bfmmla_tile, mmla_tile
from schedules.tir.emit import i64, load

NAME = "gemm_bf16"

TILES = ((6, 4), (4, 6), (3, 8), (5, 4), (4, 4), (3, 4), (2, 8), (2, 4), (1, 8), (1, 4))
"""(row pairs, column pairs) of the register tiles worth considering."""


@dataclass(frozen=True)
class Params:
    """Tiling parameters of the kernel.

    Attributes:
        row_pairs: Row pairs of a register tile.
        column_pairs: Column pairs of a register tile, an even number: a row of outputs is whole vectors of four.
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
    def tile(self) -> TileSize:
        """The register tile."""
        return TileSize(BLOCK * self.row_pairs, BLOCK * self.column_pairs, self.column_pairs)


class _Bfmmla(RowUnit[Params, GemmProduct]):
    name, feature, tie = NAME, FEATURE, TIE

    def products(self, workload: Workload) -> tuple[GemmProduct, ...] | Diagnostic:
        product = half_product_of(workload, NAME, "bfloat16")
        return product if isinstance(product, Diagnostic) else (product,)

    def describe(self, workload: Workload) -> str:
        return "bfloat16 product"

    def symbol(self, workload: Workload) -> str:
        return "_".join((workload.composite.replace(".", "_"), *(step.name for step in workload.epilogue)))

    def tiles(self, workload: Workload, core: Core) -> Sequence[Params]:
        return [Params(*tile) for tile in TILES]

    def ready_cost(self, product: GemmProduct, rows: int) -> Cost:
        pairs = -(-rows // BLOCK)
        packing = Cost(*bfmmla_tile.packing_instructions(product.rows.segments)) * pairs
        return packing + scalar(BLOCK * pairs * ROW_OVERHEAD)

    def tile_cost(
        self, workload: Workload, product: GemmProduct, params: Params, rows: int, core: Core
    ) -> Cost:
        pairs, columns, steps = (
            -(-rows // BLOCK),
            params.column_pairs,
            bfmmla_tile.steps_of(product.rows.segments),
        )
        # Accumulators hold 2 x 2 blocks; one ZIP per vector collects the outputs of a row.
        after = 1 + epilogue_half.instructions(workload.epilogue, workload.output_dtype)
        loop = Cost(*bfmmla_tile.instructions(pairs, columns, steps))
        return loop + arithmetic(pairs * columns * after) + scalar(columns / 2 + TILE_OVERHEAD)

    def constants(
        self, workload: Workload, product: GemmProduct, params: Params
    ) -> Sequence[tuple[int, str]]:
        width = product.groups * self.column_tiles(product, params) * params.tile.columns
        depth = len(bfmmla_tile.order(product.rows.segments))
        return (width * depth, "int16"), (BLOCK * width + 1, "float32")

    def pack(
        self, workload: Workload, constants: Sequence[Array], product: GemmProduct, params: Params
    ) -> tuple[Array, ...]:
        """Return the panels, bfloat16 bits as int16, and float32 biases in the accumulators' lane order, then a 0."""
        order = bfmmla_tile.order(product.rows.segments)
        weights = reordered(weights_by_column(workload, constants, product), order)
        width = self.column_tiles(product, params) * params.tile.columns
        b = np.zeros((product.groups, width, len(order)), weights.dtype)
        b[:, : product.columns] = weights
        panels = bfmmla_tile.pack_columns(b.reshape(-1, len(order)), params.column_pairs)
        columns = bias_of(workload, constants, product.groups * product.columns).astype(np.float32)
        bias = tiling.by_group(columns, product, width)
        return panels.ravel(), np.append(mmla_tile.in_blocks(bias), np.float32(0))

    def scope(self, params: Params) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = bfloat.functions()
        return scope

    def ready(self, call: Call[Params, GemmProduct], starts: Sequence[ir.Expr], count: int) -> Ready:
        segments = call.product.rows.segments
        # If the number of rows is odd, the last row is multiplied twice and stored once.
        size = len(starts) // BLOCK * LANES * bfmmla_tile.steps_of(segments)
        panel = T.alloc_buffer((size,), "int16", layout=None)
        bfmmla_tile.pack_rows(segments, call.x, panel, starts)
        return Ready(panel, starts)

    def begin(self, call: Call[Params, GemmProduct]) -> EmitTile:
        (b, bias), columns = call.packed, call.params.column_pairs
        steps = bfmmla_tile.steps_of(call.product.rows.segments)
        last = bias.vload([i64(int(bias.shape[0]) - 1)], "float32")
        hidden_steps = T.Bind(tirx.Cast("int64", last) + i64(steps))

        def tile(a: Ready, index: ir.Expr, place: RowTilePosition) -> None:
            start = [load(bias, (index * columns + c) * WIDE_LANES, WIDE_LANES) for c in range(columns)]
            acc = bfmmla_tile.multiply(
                a[0],
                b,
                index * (columns * LANES * steps),
                (-(-place.rows // BLOCK), columns),
                hidden_steps,
                bfmmla_tile.unroll_of(steps),
                start,
            )
            for row in range(place.rows):
                epilogue_half.finish(
                    call.workload.epilogue,
                    acc,
                    row * call.params.tile.columns,
                    place.columns,
                    call.output,
                    call.target(place.row + row, place.column),
                    call.residual,
                    epilogue_f32.slopes_at(call.slopes, place.column),
                )

        return tile


_KERNEL = ByRows(_Bfmmla())
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
