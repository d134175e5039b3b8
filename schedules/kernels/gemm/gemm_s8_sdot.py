# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on SDOT: implicit GEMM on unpacked rows, requantised in registers.

A register tile loads 16 consecutive bytes of each of its rows as one vector and multiplies by its lanes, without
packing A; see `gemm_s8`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import ir, tirx

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.intrinsics.pin import pins
from schedules.intrinsics.quad import quads
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.reload import reloads
from schedules.intrinsics.sdot import FEATURE, K_STEP
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic, chained
from schedules.kernels.gemm.by_rows import ByRows, Ready, TileSize
from schedules.kernels.gemm.gemm_s8 import InPlace, TilingParams, in_planes
from schedules.kernels.gemm.packed_columns_s8 import Starts
from schedules.kernels.gemm.product_s8 import IntegerProduct, requantization_cost
from schedules.kernels.tiles import sdot_tile
from schedules.kernels.tiles.tile_stores import Accumulator, of_rows
from schedules.tir.emit import i64

NAME = "gemm_s8_sdot"

TILES = ((6, 4), (5, 4), (4, 4), (3, 4), (2, 4), (1, 4), (8, 2), (4, 2), (4, 6), (3, 6), (2, 8), (1, 8))
"""(rows, vectors of four columns) of the register tiles worth considering."""

STREAMED = 6
"""Vectors of tiles for cores that load by quads: with LDP and copied accumulators they take a tenth more cycles than
tiles of two vectors, as Cortex-A55 is modelled."""


@dataclass(frozen=True)
class Params(TilingParams):
    """Tiling parameters of the kernel.

    Attributes:
        rows: Rows of a register tile.
        vectors: Number of vectors of four columns of a register tile; a multiple of 2.
    """

    rows: int
    vectors: int

    def __post_init__(self) -> None:
        sdot_tile.check_registers(self.rows, self.vectors)
        if self.vectors % 2:
            raise ValueError(f"vectors {self.vectors} is not even: columns are stored in eights")

    @property
    def tile(self) -> TileSize:
        """The register tile."""
        return TileSize(self.rows, LANES * self.vectors, self.vectors)


class _Sdot(InPlace[Params]):
    name, suffix, feature, step = NAME, "sdot", FEATURE, K_STEP
    by_quads = gathers = True
    finish = staticmethod(of_rows)

    def register_tiles(self, workload: Workload, planes: int) -> Sequence[Params]:
        return [Params(*tile) for tile in in_planes(TILES, planes)]

    def tiles(self, workload: Workload, core: Core) -> Sequence[Params]:
        return [each for each in super().tiles(workload, core) if each.reload or each.vectors != STREAMED]

    def pack_columns(self, columns: Array, product: IntegerProduct, params: Params, vectors: int) -> Array:
        return sdot_tile.pack_columns(columns, vectors)

    def loop_cost(self, product: IntegerProduct, params: Params, rows: int, core: Core) -> Cost:
        outputs = rows * params.tile.columns
        # A row is stored in vectors of 16 outputs; a remainder of eight shares its vector with the next row.
        stores = rows * (params.vectors // 4) + (2 * rows if params.vectors % 4 else 0)
        lines = rows * product.planes
        loop = sdot_tile.cost(
            lines, params.vectors, self.reading(product), core, reload=params.reload, by_quads=params.reload
        )
        loop = chained(loop, lines * params.vectors, core.dot_latency, core)
        return loop + requantization_cost(product, outputs, reload=params.reload) + arithmetic(stores)

    @contextmanager
    def registers(self) -> Iterator[None]:
        with pins(), reloads(), quads():
            yield

    def multiply(
        self,
        product: IntegerProduct,
        params: Params,
        a: Ready,
        b: tuple[tirx.Buffer, ir.Expr],
        header: Starts,
        vectors: int,
    ) -> Accumulator:
        chunks = self.reading(product).chunks()
        acc = sdot_tile.multiply(
            a.source,
            a.starts,
            *b,
            vectors,
            chunks,
            header.starts,
            flipped=product.flipped,
            by_quads=params.reload,
            held=a.held,
        )
        return lambda row, v: acc.vload([i64((row * vectors + v) * LANES)], "int32x4")


_KERNEL = ByRows(_Sdot())
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, cost, pack, build = _KERNEL.estimate, _KERNEL.cost, _KERNEL.pack, _KERNEL.build
