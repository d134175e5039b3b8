# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on SMULL and SMLAL, for cores without dotprod: implicit GEMM, requantised.

A register tile loads 16 consecutive bytes of each of its rows as one vector, without packing A; see `gemm_s8`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.intrinsics.pin import pins
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.reload import reloads
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic
from schedules.kernels.gemm.by_rows import ByRows, Ready, TileSize
from schedules.kernels.gemm.gemm_s8 import InPlace, TilingParams, in_planes
from schedules.kernels.gemm.packed_columns_s8 import Starts
from schedules.kernels.gemm.product_s8 import IntegerProduct, requantization_cost
from schedules.kernels.tiles import mlal_tile
from schedules.kernels.tiles.int16_chains import chain_of
from schedules.kernels.tiles.tile_stores import HALF, Accumulator, of_rows

NAME = "gemm_s8_mlal"

TILES = ((2, 8), (1, 8))
"""(rows, columns) of the register tiles worth considering."""

COLUMNS = 8
"""Columns that are stored at once; a tile's columns are a multiple of it."""


@dataclass(frozen=True)
class Params(TilingParams):
    """Tiling parameters of the kernel.

    Attributes:
        rows: Rows of a register tile.
        columns: Columns of a register tile, a multiple of 8.
        chain: Number of products that are summed in 16 bits before they are widened: 1 is exact for all weights, 2
            unless both weights of a sum are -128 (see `mlal_tile`).
    """

    rows: int
    columns: int
    chain: int = 1

    def __post_init__(self) -> None:
        mlal_tile.check_registers(self.rows, self.columns)
        if self.columns % COLUMNS:
            raise ValueError(f"columns {self.columns} is no multiple of {COLUMNS}: they are stored in eights")
        if self.chain not in (1, 2):
            raise ValueError(f"chain {self.chain} is not 1 or 2: three products do not fit 16 bits")

    @property
    def tile(self) -> TileSize:
        """The register tile."""
        return TileSize(self.rows, self.columns, self.columns // LANES)


class _Smlal(InPlace[Params]):
    name, suffix, feature, step = NAME, "mlal", "neon", HALF
    finish = staticmethod(of_rows)

    def has(self, core: Core) -> bool:
        return core.neon

    def register_tiles(self, workload: Workload, planes: int) -> Sequence[Params]:
        return [Params(*tile, chain_of(workload)) for tile in in_planes(TILES, planes)]

    def pack_columns(self, columns: Array, product: IntegerProduct, params: Params, vectors: int) -> Array:
        chunks = self.reading(product).chunks()
        if params.chain > 1 and not mlal_tile.pairs_fit(columns, chunks):
            raise ValueError(
                f"{NAME}: two weights of -128 are in one 16-bit sum, which overflows; use chain=1"
            )
        return mlal_tile.pack_columns(columns, LANES * vectors, chunks)

    def loop_cost(self, product: IntegerProduct, params: Params, rows: int, core: Core) -> Cost:
        # Two rows are requantised together; if the number of rows is odd, the last one is requantised with itself.
        outputs = -(-rows // 2) * 2 * params.columns
        # Each vector of four outputs takes an addition of the offset; each eight outputs a store, and half of the
        # eights a move of the upper half.
        finish = arithmetic(outputs / LANES + 1.5 * outputs / COLUMNS)
        loop = mlal_tile.cost(
            rows * product.planes, params.columns, self.reading(product).chunks(), params.chain
        )
        return loop + requantization_cost(product, outputs, reload=params.reload) + finish

    def multiply(
        self,
        product: IntegerProduct,
        params: Params,
        a: Ready,
        b: tuple[tirx.Buffer, ir.Expr],
        header: Starts,
        vectors: int,
    ) -> Accumulator:
        chunks, columns = self.reading(product).chunks(), LANES * vectors
        acc = mlal_tile.multiply(a.source, a.starts, *b, columns, chunks, params.chain, product.flipped)
        # Load the offsets after the sum over k, because the sum uses all registers.
        offsets = header.offsets()
        return lambda row, v: T.Bind(mlal_tile.sums(acc, columns, row, LANES * v) + offsets[v])

    @contextmanager
    def registers(self) -> Iterator[None]:
        with pins(), reloads():
            yield


_KERNEL = ByRows(_Smlal())
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, cost, pack, build = _KERNEL.estimate, _KERNEL.cost, _KERNEL.pack, _KERNEL.build
