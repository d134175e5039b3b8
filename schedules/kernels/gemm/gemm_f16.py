# SPDX-License-Identifier: Apache-2.0
"""fp16 linear layers and convolutions with constant weights: register tiles of FMLA on eight lanes, epilogue inside.

Rows are read from the data without packing; see `by_panels`. `fmla_f16_tile` bounds the error of the sums; bias,
activation and residual are computed in binary32, and the result is rounded once.

int8 weights stay int8 in memory: each task converts its panel to float16, and the sums in binary32 are multiplied by
the scales.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.fmla_f16 import FEATURE, LANES, WIDENING_FEATURE
from schedules.intrinsics.registers import LANES as WIDE_LANES
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic
from schedules.kernels.gemm import widen_s8
from schedules.kernels.gemm.by_panels import (
    BeginTask,
    ByPanels,
    Multiply,
    PanelParams,
    PanelUnit,
    RegisterTile,
    panels,
    scaled,
)
from schedules.kernels.gemm.gemm import Call
from schedules.kernels.gemm.panel_tiling import PanelTilePosition, PanelTiling
from schedules.kernels.gemm.product import GemmProduct
from schedules.kernels.gemm.product_float import (
    WEIGHT_ONLY,
    bias_of,
    half_products_of,
    scales_of,
    weight_only_product_of,
)
from schedules.kernels.tiles import fmla_f16_tile, fmla_tile
from schedules.kernels.tiles.half_sums import HalfSums
from schedules.tir.emit import i64

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

AROUND = 1.14
"""Cycles of the kernel over those of its tiles' blocks: tiles of few chunks do not overlap. By llvm-mca for Neoverse
N1, the median of the products of four models of the zoo (1.09 to 1.21)."""


@dataclass(frozen=True)
class Params(PanelParams):
    """Tiling parameters of the kernel.

    Attributes:
        widening: Whether FMLAL adds binary16 sums to binary32.
    """

    widening: bool

    check_registers = staticmethod(fmla_tile.check_registers)


class _Float16(PanelUnit[Params]):
    name, feature, dtype, lanes = NAME, FEATURE, "float16", LANES
    counts_fetching = False

    def products(self, workload: Workload) -> tuple[GemmProduct, ...] | Diagnostic:
        if workload.composite == WEIGHT_ONLY:
            product = weight_only_product_of(workload, NAME, "float16")
            return product if isinstance(product, Diagnostic) else (product,)
        return half_products_of(workload, NAME, "float16")

    def describe(self, workload: Workload) -> str:
        return f"float16 product{' of int8 weights' if workload.composite == WEIGHT_ONLY else ''}"

    def tiles(self, workload: Workload, core: Core) -> Sequence[Params]:
        widening = WIDENING_FEATURE in core.features
        return [
            Params(rows, vectors, row_block=rows, parallel=False, widening=widening)
            for rows, vectors in TILES
        ]

    def order(self, product: GemmProduct) -> Array:
        return fmla_f16_tile.order(product.rows.segments)

    def cycles(self, tile: RegisterTile, params: Params, after: Cost, core: Core) -> float:
        return AROUND * fmla_f16_tile.cycles(*tile, after, core, widening=params.widening)

    def epilogue_cost(self, workload: Workload, core: Core) -> Cost:
        # FMLA overwrites its addend, which is the bias at first: each row needs a copy of the bias.
        return arithmetic(1) + super().epilogue_cost(workload, core)

    def instructions(self, tile: RegisterTile, params: Params, core: Core) -> float:
        return fmla_f16_tile.cost(*tile, core, widening=params.widening).instructions

    def constants(
        self, workload: Workload, product: GemmProduct, params: Params
    ) -> Sequence[tuple[int, str]]:
        width = product.groups * self.cut(product, params).padded_columns
        return (width * len(self.order(product)), workload.operands[1].dtype), (2 * width + 1, "float32")

    def pack(
        self, workload: Workload, constants: Sequence[Array], product: GemmProduct, params: Params
    ) -> tuple[Array, ...]:
        """Return B in panels, each column scaled by a power of two, and the float32 constants of all columns.

        These are the inverse scales of all columns, then the biases of all columns, then a 0.
        """
        cut, b = self.cut(product, params), panels(workload, constants, product, self.order(product))
        scale: Array
        if workload.composite == WEIGHT_ONLY:
            scale = scales_of(workload, constants, product.columns) * np.exp2(widen_s8.FRACTION)
        else:
            powers = fmla_f16_tile.column_powers(b)
            b = (b.astype(np.float32) * powers[:, None]).astype(np.float16)
            scale = 1 / powers
        bias = bias_of(workload, constants, product.groups * product.columns).astype(np.float32)
        columns = [cut.by_column(scale.astype(np.float32)), cut.by_column(bias), np.zeros(1, np.float32)]
        return cut.packed(b), np.concatenate(columns)

    def begin(self, call: Call[Params, GemmProduct], cut: PanelTiling) -> BeginTask:
        (weights, columns), (held, before) = call.packed, call.before
        depth, padded = len(self.order(call.product)), call.product.groups * cut.padded_columns
        zero = T.Bind(tirx.Cast("int64", columns.vload([i64(before + 2 * padded)], "float32")))

        def begin_task(column: ir.Expr, width: int) -> Multiply:
            sums = HalfSums(call.params.rows * call.params.vectors * LANES)
            b, start = weights, T.Bind(column * depth + held)
            if str(b.dtype) == "int8":
                b, start = T.alloc_buffer((depth * width,), "float16", layout=None), i64(0)
                widen_s8.widen(weights, column * depth + held, b, depth * width)

            def multiply(place: PanelTilePosition, rows: int, width: int) -> tirx.Buffer:
                first = T.Bind(cut.place_of(place) + before)
                a_rows = [call.row(place.group, place.row + r) for r in range(rows)]
                totals = fmla_f16_tile.multiply(
                    call.x,
                    a_rows,
                    call.product.rows.segments,
                    b,
                    start,
                    width // LANES,
                    sums,
                    zero,
                    widening=call.params.widening,
                )
                vectors = width // WIDE_LANES
                return scaled(columns, first, padded, lambda r, v: totals[r * vectors + v], rows, width)

            return multiply

        return begin_task


_KERNEL = ByPanels(_Float16())
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
