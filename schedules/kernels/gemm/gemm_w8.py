# SPDX-License-Identifier: Apache-2.0
"""float32 linear layers with int8 weights: weights stay int8 in memory, and each task converts its panel to float32.

    y[m, n] = scale[n] * (sum over k of x[m, k] * w[k, n]) + bias[n]

The integers are exact in binary32, and each sum is multiplied by its scale once: the error is that of `gemm_f32`
without the rounding of weights * scale.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.registers import LANES
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.gemm import gemm_f32, widen_s8
from schedules.kernels.gemm.by_panels import (
    BeginTask,
    ByPanels,
    Multiply,
    PanelParams,
    panels,
    scaled,
)
from schedules.kernels.gemm.gemm import Call
from schedules.kernels.gemm.panel_tiling import PanelTilePosition, PanelTiling
from schedules.kernels.gemm.product import GemmProduct
from schedules.kernels.gemm.product_float import bias_of, in_full, scales_of, weight_only_product_of
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import i64, splat

NAME = "gemm_w8"


@dataclass(frozen=True)
class Params:
    """Tiling parameters of the kernel.

    Attributes:
        tile: Tiling parameters of the float32 product.
    """

    tile: gemm_f32.Params


class NarrowWeights(gemm_f32.FmlaUnit[Params]):
    """Base class of FMLA units whose weights are integers in memory; each task converts them to float32."""

    ranks_widening = False

    @abstractmethod
    def full(self, workload: Workload) -> Workload:
        """Return the same workload with float32 weights."""

    def tile_of(self, params: Params) -> PanelParams:
        """Return the tiling parameters of the float32 product."""
        return params.tile

    def params_of(self, tile: PanelParams) -> Params:
        """Return the kernel's parameters for the float32 product's tiling parameters."""
        assert isinstance(tile, gemm_f32.Params)
        return Params(tile)

    def tiles(self, workload: Workload, core: Core) -> Sequence[Params]:
        """Return the register tiles of the float32 product."""
        return [Params(tile) for tile in gemm_f32.UNIT.tiles(self.full(workload), core)]

    def epilogue_cost(self, workload: Workload, core: Core) -> Cost:
        """Return the cost of the epilogue for a vector of four outputs."""
        return epilogue_f32.cost(self.full(workload).epilogue)


class _Int8Weights(NarrowWeights):
    name = NAME

    def full(self, workload: Workload) -> Workload:
        return in_full(workload)

    def products(self, workload: Workload) -> tuple[GemmProduct, ...] | Diagnostic:
        product = weight_only_product_of(workload, NAME, "float32")
        return product if isinstance(product, Diagnostic) else (product,)

    def describe(self, workload: Workload) -> str:
        return "float32 product of int8 weights"

    def constants(
        self, workload: Workload, product: GemmProduct, params: Params
    ) -> Sequence[tuple[int, str]]:
        width = self.cut(product, params).padded_columns
        return (width * product.rows.depth, "int8"), (2 * width, "float32")

    def pack(
        self, workload: Workload, constants: Sequence[Array], product: GemmProduct, params: Params
    ) -> tuple[Array, ...]:
        cut = self.cut(product, params)
        bias = bias_of(workload, constants, product.columns).astype(np.float32)
        scales = scales_of(workload, constants, product.columns)
        b = panels(workload, constants, product, self.order(product))
        return cut.packed(b), np.concatenate([cut.by_column(scales), cut.by_column(bias)])

    def begin(self, call: Call[Params, GemmProduct], cut: PanelTiling) -> BeginTask:
        (b, columns), depth = call.packed, call.product.rows.depth

        def begin_task(column: ir.Expr, width: int) -> Multiply:
            panel = T.alloc_buffer((depth * width,), "float32", layout=None)
            widen_s8.widen(b, T.Bind(column * depth), panel, depth * width)

            def multiply(place: PanelTilePosition, rows: int, width: int) -> tirx.Buffer:
                start = [splat(0.0, "float32", LANES)] * (width // LANES)
                a_rows = [call.row(place.group, place.row + r) for r in range(rows)]
                sums = fmla_tile.multiply(call.x, a_rows, call.product.rows.segments, panel, i64(0), start)

                def total(r: int, vector: int) -> ir.Expr:
                    return sums.vload([i64(r * width + vector * LANES)], "float32x4")

                return scaled(columns, place.column, cut.padded_columns, total, rows, width)

            return multiply

        return begin_task


_KERNEL = ByPanels(_Int8Weights())
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
