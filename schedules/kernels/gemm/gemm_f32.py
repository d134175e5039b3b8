# SPDX-License-Identifier: Apache-2.0
"""fp32 linear layers and convolutions with constant weights: register tiles of FMLA by lane, epilogue inside.

Rows are read from the data without packing; see `by_panels`. Tuning may choose to sum k in blocks; see `k_blocking`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from tvm import ir, tirx

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sve
from schedules.intrinsics.opaque import opaques
from schedules.intrinsics.registers import LANES
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import TIE, Cost
from schedules.kernels.epilogues import activation_f32, epilogue_f32
from schedules.kernels.gemm import k_blocking
from schedules.kernels.gemm.by_panels import (
    BeginTask,
    ByPanels,
    PanelParams,
    PanelUnit,
    RegisterTile,
    panels,
)
from schedules.kernels.gemm.gemm import Call, P
from schedules.kernels.gemm.k_blocking import Depth
from schedules.kernels.gemm.panel_tiling import PanelTilePosition, PanelTiling
from schedules.kernels.gemm.product import GemmProduct
from schedules.kernels.gemm.product_float import bias_of, products_of
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import load

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
class Params(PanelParams):
    """Tiling parameters of the kernel.

    Attributes:
        sve: Whether activations use SVE instructions.
        k_blocks: Number of blocks of k that a task sums one after the other; see `k_blocking`.
        panels: Number of panels per task; more than one only with several blocks of k.
    """

    sve: bool = False
    k_blocks: int = 1
    panels: int = 1

    check_registers = staticmethod(fmla_tile.check_registers)


class FmlaUnit(PanelUnit[P]):
    """Base class of the units that multiply by FMLA on four float32 lanes; the weights in memory may have any dtype."""

    dtype, lanes = "float32", LANES

    def order(self, product: GemmProduct) -> Array:
        """Return the k order of `fmla_tile`."""
        return np.array(fmla_tile.order(product.rows.segments))

    def cycles(self, tile: RegisterTile, params: P, after: Cost, core: Core) -> float:
        """Return the cycles of `fmla_tile`."""
        return fmla_tile.cycles(*tile, after, core)

    def instructions(self, tile: RegisterTile, params: P, core: Core) -> float:
        """Count the instructions of `fmla_tile`."""
        return fmla_tile.instructions(*tile)


class _Float32(FmlaUnit[Params]):
    name = NAME

    def products(self, workload: Workload) -> tuple[GemmProduct, ...] | Diagnostic:
        return products_of(workload, NAME)

    def describe(self, workload: Workload) -> str:
        return "float32 product"

    def symbol(self, workload: Workload) -> str:
        steps = (step.name for step in workload.epilogue)
        return "_".join((workload.composite.replace(".", "_"), "f32", *steps))

    def tiles(self, workload: Workload, core: Core) -> Sequence[Params]:
        by_sve = sve.pays(core) and any(step.name in activation_f32.POLYNOMIALS for step in workload.epilogue)
        return [
            Params(rows, vectors, row_block=rows, parallel=False, sve=by_sve)
            for rows, vectors in TILES
            if fmla_tile.fits(rows, vectors, core)
        ]

    def constants(
        self, workload: Workload, product: GemmProduct, params: Params
    ) -> Sequence[tuple[int, str]]:
        width = product.groups * self.cut(product, params).padded_columns
        return (width * product.rows.depth, "float32"), (width, "float32")

    def pack(
        self, workload: Workload, constants: Sequence[Array], product: GemmProduct, params: Params
    ) -> tuple[Array, ...]:
        cut = self.cut(product, params)
        bias = bias_of(workload, constants, product.groups * product.columns)
        b = panels(workload, constants, product, self.order(product))
        return cut.packed(b), cut.by_column(bias)

    @contextmanager
    def scope(self, params: Params) -> Iterator[None]:
        with opaques(), sve.functions(params.sve):
            yield

    def takes_sve(self, params: Params) -> bool:
        return params.sve

    def epilogue_cost(self, workload: Workload, core: Core) -> Cost:
        return epilogue_f32.cost(workload.epilogue)

    def begin(self, call: Call[Params, GemmProduct], cut: PanelTiling) -> BeginTask:
        segments = call.product.rows.segments

        def multiply(place: PanelTilePosition, rows: int, width: int) -> tirx.Buffer:
            start = self.start(call, cut, place, width)
            a_rows = [call.row(place.group, place.row + r) for r in range(rows)]
            return fmla_tile.multiply(
                call.x, a_rows, segments, *self.panel(call, cut, place), start, constant=True
            )

        return lambda _column, _width: multiply

    def start(
        self, call: Call[Params, GemmProduct], cut: PanelTiling, place: PanelTilePosition, width: int
    ) -> list[ir.Expr]:
        """Emit the loads of the biases, one float32x4 per vector of columns; the accumulators start from them."""
        bias = cut.place_of(place) + call.before[1]
        return [load(call.packed[1], bias + LANES * v, LANES) for v in range(width // LANES)]

    def panel(
        self, call: Call[Params, GemmProduct], cut: PanelTiling, place: PanelTilePosition
    ) -> tuple[tirx.Buffer, ir.Expr]:
        """Return the buffer of B's panels and the offset of one panel."""
        return call.packed[0], cut.place_of(place) * call.product.rows.depth + call.before[0]


class _Gemm(ByPanels[Params]):
    """The float32 GEMM kernel; its tasks may sum k in blocks."""

    unit: _Float32

    def default(self, workload: Workload, core: Core) -> Params:
        """Return the best parameters without blocks of k, or these with blocks of k if the estimate is then lower."""
        params = self._whole(workload, core)
        product, *others = self.products(workload)
        if others:
            return params
        options = [
            replace(params, k_blocks=blocks, row_block=rows, panels=panels)
            for blocks, rows, panels in k_blocking.usual(
                self.unit.cut(product, params), params.parallel, core
            )
        ]
        if not options:
            return params
        usual = self.estimate(workload, options[-1], core)
        # The estimate with blocks is the estimate without blocks plus a difference that may exceed it below zero.
        if not self.estimate(workload, params, core) / usual > 1 + TIE:
            return params
        return next(
            option for option in options if self.estimate(workload, option, core) <= usual * (1 + TIE)
        )

    def _whole(self, workload: Workload, core: Core) -> Params:
        return super().default(workload, core)

    def estimate(self, workload: Workload, params: Params, core: Core) -> float:
        if params.k_blocks == 1:
            return super().estimate(workload, params, core)
        whole = replace(params, k_blocks=1, panels=1)
        return super().estimate(workload, whole, core) + self._by_blocks(workload, params, core)

    def _by_blocks(self, workload: Workload, params: Params, core: Core) -> float:
        """Return the cycles that K blocking adds to the estimate; negative if it saves waiting for L2."""
        (cut,), (usual,) = (self.cuts(workload, each) for each in (params, _default(self, workload, core)))
        k = Depth(cut.product.rows.segments, params.k_blocks).longest
        reading = k_blocking.rereading(cut, k, core)
        reading -= k_blocking.rereading(usual, cut.product.rows.depth, core)
        return reading + k_blocking.overhead(cut, params.k_blocks, params.panels, core)

    def space(self, workload: Workload, core: Core) -> tuple[Params, ...]:
        """Return the parameters for tuning: all candidates, and their K-blocked variants if a panel exceeds L1."""
        found, (product, *others) = self.candidates(workload, core), self.products(workload)
        blocked = (
            replace(tile, row_block=rows, k_blocks=blocks, panels=panels)
            for tile in found
            for blocks, rows, panels in k_blocking.variants(self.unit.cut(product, tile), core)
        )
        return found if others else (*found, *blocked)

    def emit(self, call: Call[Params, GemmProduct]) -> None:
        params = call.params
        if params.k_blocks == 1:
            super().emit(call)
            return
        cut = self.unit.cut(call.product, params)
        emit = k_blocking.Emit(
            call.x,
            call.row,
            lambda place: self.unit.panel(call, cut, place),
            lambda place, width: self.unit.start(call, cut, place, width),
            lambda *tile: self.finish(call, *tile),
        )
        depth = Depth(call.product.rows.segments, params.k_blocks)
        k_blocking.tasks(cut, depth, params.panels, params.parallel, emit)


@lru_cache(maxsize=16)
def _default(kernel: _Gemm, workload: Workload, core: Core) -> Params:
    return kernel._whole(workload, core)


UNIT = _Float32()
_KERNEL = _Gemm(UNIT)
matches, default, candidates, space = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates, _KERNEL.space
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
