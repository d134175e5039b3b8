# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on SMMLA: implicit GEMM with packed panels, requantised in registers.

A task packs one tile of rows directly from the data (no im2col) into a panel that stays in L1, and multiplies it by
every panel of columns; see `gemm_s8`.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.intrinsics.mmla import BLOCK
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.intrinsics.reload import reloads
from schedules.kernels.common.contract import Array, taken
from schedules.kernels.common.cost_model import Cost, arithmetic, chained, requantization, scalar, waiting
from schedules.kernels.gemm import packed_rows_mmla, product_s8
from schedules.kernels.gemm.by_rows import ROW_OVERHEAD, ByRows, Ready, TileSize
from schedules.kernels.gemm.gemm import Call
from schedules.kernels.gemm.gemm_s8 import IntegerUnit, TilingParams, in_planes
from schedules.kernels.gemm.packed_columns_s8 import Starts
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.kernels.tiles import mmla_tile
from schedules.kernels.tiles.packed_tile import SMMLA
from schedules.kernels.tiles.tile_stores import Accumulator, of_blocks
from schedules.tir.emit import i64

NAME = "gemm_s8_mmla"

TILES = ((6, 4), (3, 8), (5, 4), (4, 4), (3, 4), (2, 8), (2, 4), (1, 8), (1, 4))
"""(row pairs, column pairs) of the register tiles worth considering; columns in eights, as channels are."""

UNROLL = ((32, 8), (0, 4))
"""(least number of k steps, k steps of a loop iteration): eight if the sum is so long that the code for the remaining
steps is small beside it."""

UNROLLINGS = (1, 2, 3, 4, 6, 8, 16)
"""k steps of a loop iteration that tuning tries: if no steps remain and LLVM finds registers, up to 8 % of a call."""

UNROLLED_STEPS = 8
"""Most k steps of a loop that LLVM unrolls completely; it then mixes the code with the requantisation behind it."""

UNROLLED_TILE = 16
"""Most accumulators of a tile that leave registers for both products and requantisation in such code."""

SPILLS = 60
"""Loads from and stores to the stack in unrolled code of larger tiles: 54 and more are seen with 24 accumulators."""

UNROLLED_REGISTERS = 22
"""Most accumulators and vectors of packed rows together that stay in registers in unrolled code; with more, the packed
rows are kept on the stack."""

PACKED = 12
"""Instructions that store packed rows to the stack and load them again, and as many cycles of waiting for them, which a
requantisation of one instruction an accumulator does not hide."""

FUSED = ((8, 8.0), (16, 7.0), (20, 5.0), (24, 4.0))
"""(most accumulators, vector instructions for 16 outputs that the fused requantisation saves): larger tiles spill in
part of the code, as a tile has code for both forms. Counted in layers of MobileNetV2 and DS-CNN on Neoverse N2."""

HALF_ROWS = 4
"""Column pairs whose rows are eight bytes."""


@dataclass(frozen=True)
class Params(TilingParams):
    """Tiling parameters of the kernel.

    Attributes:
        row_pairs: Row pairs of a register tile.
        column_pairs: Column pairs of a register tile, a multiple of 4.
        unroll: Number of k steps per loop iteration; 0 for the default of `UNROLL`.
    """

    row_pairs: int
    column_pairs: int
    unroll: int = 0

    def __post_init__(self) -> None:
        mmla_tile.check_registers(self.row_pairs, self.column_pairs)
        if self.column_pairs not in (4, 8):
            raise ValueError(f"column_pairs {self.column_pairs} is not 4 or 8, whose rows are 8 or 16 bytes")

    @property
    def tile(self) -> TileSize:
        """The register tile."""
        return TileSize(BLOCK * self.row_pairs, BLOCK * self.column_pairs, self.column_pairs)


class _Smmla(IntegerUnit[Params]):
    name, suffix, feature, lines = NAME, "mmla", SMMLA.feature, SMMLA.lines
    finish = staticmethod(of_blocks)
    order = staticmethod(packed_rows_mmla.k_order)
    in_lanes = staticmethod(mmla_tile.in_blocks)
    reads_past_the_data = staticmethod(packed_rows_mmla.reads_past_the_data)

    def register_tiles(self, workload: Workload, planes: int) -> Sequence[Params]:
        return [Params(*tile) for tile in in_planes(TILES, planes)]

    def pack_columns(self, columns: Array, product: IntegerProduct, params: Params, vectors: int) -> Array:
        return mmla_tile.pack_columns(columns, vectors)

    def rows_cost(self, product: IntegerProduct, rows: int) -> Cost:
        pairs = -(-rows // BLOCK)
        return (packed_rows_mmla.cost(product) + scalar(BLOCK * ROW_OVERHEAD)) * pairs

    def loop_cost(self, product: IntegerProduct, params: Params, rows: int, core: Core) -> Cost:
        steps, pairs, row_pairs = packed_rows_mmla.steps_of(product), params.column_pairs, -(-rows // BLOCK)
        outputs = BLOCK * BLOCK * row_pairs * pairs
        # Rows of eight bytes: a vector holds two rows, whose halves are stored after one move.
        stores = outputs / VECTOR * (3 if pairs == HALF_ROWS else 1)
        lines = row_pairs * product.planes
        loop = Cost(*mmla_tile.instructions(lines, pairs, steps, _unroll(steps, params.unroll)))
        finish = requantization(outputs, product.form, product.to) + arithmetic(outputs / VECTOR + stores)
        if product.fused:
            saved = next(saved for most, saved in FUSED if row_pairs * pairs <= most)
            finish += arithmetic(-saved * outputs / VECTOR)
        stack = Cost()
        if steps <= UNROLLED_STEPS and lines * pairs > UNROLLED_TILE:
            stack = scalar(SPILLS)
        elif steps <= UNROLLED_STEPS and product.fused and row_pairs * (pairs + steps) > UNROLLED_REGISTERS:
            stack = waiting(PACKED, PACKED, core)
        return chained(loop, lines * pairs, core.dot_latency, core) + finish + stack

    def registers(self) -> AbstractContextManager[None]:
        return reloads()

    def rows(self, call: Call[Params, IntegerProduct], starts: Sequence[ir.Expr]) -> Ready:
        # If the number of rows is odd, the last row is multiplied twice and stored once.
        size = len(starts) // BLOCK * VECTOR * packed_rows_mmla.steps_of(call.product)
        panel = T.alloc_buffer((size,), "int8", layout=None)
        packed_rows_mmla.pack_rows(call.product, call.x, panel, starts)
        return Ready(panel, starts)

    def multiply(
        self,
        product: IntegerProduct,
        params: Params,
        a: Ready,
        b: tuple[tirx.Buffer, ir.Expr],
        header: Starts,
        vectors: int,
    ) -> Accumulator:
        steps = packed_rows_mmla.steps_of(product)
        pairs = (len(a.starts) // BLOCK, vectors)
        acc = mmla_tile.multiply(
            a.source, i64(0), *b, pairs, steps, _unroll(steps, params.unroll), header.starts
        )
        return lambda pair, column: acc.vload([i64((pair * vectors + column) * LANES)], "int32x4")


def space(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the parameters that tuning may try: each candidate with every unroll factor that changes the code."""
    products = taken(product_s8.products_of(workload, NAME), workload)
    steps = max(packed_rows_mmla.steps_of(product) for product in products)
    others = [u for u in UNROLLINGS if steps > UNROLLED_STEPS and u != _unroll(steps, 0)]
    return tuple(replace(each, unroll=u) for each in candidates(workload, core) for u in (0, *others))


def _unroll(steps: int, wanted: int) -> int:
    return wanted or next(unroll for least, unroll in UNROLL if steps >= least)


_KERNEL = ByRows(_Smmla())
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, cost, pack, build = _KERNEL.estimate, _KERNEL.cost, _KERNEL.pack, _KERNEL.build
