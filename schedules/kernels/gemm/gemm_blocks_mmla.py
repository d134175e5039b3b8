# SPDX-License-Identifier: Apache-2.0
"""The products of `gemm_blocks` for many rows, by SMMLA: equal results, from the same packed weights.

SMMLA multiplies two rows by two columns, eight k at a time. Rows are quantised as pairs, [tile][block][pair][eight k's]
[row][k]. A task takes a panel: it zips the panel's weights to [vector][block][two columns][eight k's][column][k] and
widens its scales in L1, once for all rows; then it computes tiles of 8 rows by 4 columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import mmla
from schedules.intrinsics.narrow import fma, scvtf
from schedules.intrinsics.opaque import opaque_offset, opaques
from schedules.intrinsics.pin import pinned, pins
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector import combine, high, low, zip_halves
from schedules.kernels.common import threads
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.gemm import gemm_blocks
from schedules.kernels.gemm.gemm_blocks import (
    COLUMNS,
    VECTORS,
    Buffers,
    Layer,
    function_of,
    parts_of,
    read,
    zeros,
)
from schedules.kernels.gemm.quantize_blocks import INSTRUCTIONS, QuantizedBlock, each_block
from schedules.numerics.blocks import BLOCK
from schedules.tir.emit import converted, i64, load, splat, store

NAME = "gemm_blocks_mmla"

ROWS = 8
"""Rows of a tile: 8 totals and 8 registers of weights; a tile of 8 columns spills 40 times."""

PAIR = 2
"""Rows and columns that SMMLA multiplies."""

PAIRS = ROWS // PAIR
"""Pairs of rows of a tile."""

FEWEST = 4
"""Fewest rows: with fewer, half of a tile is idle, and `gemm_blocks` needs no second layout."""

_BYTES = 16
_STEPS = BLOCK // mmla.K_STEP
"""SMMLA of a block."""

_OF_PAIR = PAIR * BLOCK
"""Bytes of a block of two rows, or of two columns."""

_FOUR = 4
"""Bits of the smaller weights."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        parallel: Whether panels are spread over the runtime's threads.
    """

    parallel: bool = False


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept the products of `gemm_blocks` of several rows, on cores with i8mm."""
    layer = read(workload, NAME)
    if isinstance(layer, Diagnostic):
        return layer
    if mmla.FEATURE not in core.features or core.is_microcontroller:
        return missing_feature(NAME, mmla.FEATURE, core)
    if layer.rows < FEWEST:
        return declined(NAME, "too few rows for tiles", str(FEWEST), str(layer.rows))
    sizes = f"{layer.rows} x {layer.depth} x {layer.columns}"
    return KernelMatch(f"product of {layer.bits}-bit weights and blocks of data {sizes}")


def default(workload: Workload, core: Core) -> Params:
    """Return the only parameters; long calls are parallel."""
    layer = taken(read(workload, NAME), workload)
    return Params(layer.panels > 1 and _cost(layer).cycles(core) >= threads.PARALLEL_CYCLES)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the default: there is nothing to tune."""
    return (default(workload, core),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1."""
    return _cost(taken(read(workload, NAME), workload)).cycles(core)


def _cost(layer: Layer) -> Cost:
    pairs, blocks = -(-layer.rows // PAIR), layer.panels * VECTORS * layer.blocks
    tiles = -(-layer.rows // ROWS)
    # Of two rows and four columns: 8 SMMLA, 2 each of MOVI, SCVTF, FMUL and FMLA; 5 loads, half of them LDP.
    pair = arithmetic(8 + 8 + (4 if layer.offsets or layer.shift else 0)) + scalar(3)
    zipped = arithmetic((8 if layer.bits == _FOUR else 0) + 8 + 8) + scalar(5)
    rows = (arithmetic(INSTRUCTIONS - 12) + scalar(14)) * (layer.rows * layer.blocks)
    return (pair * pairs + scalar(7) * tiles + zipped) * blocks + rows


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the constants as `gemm_blocks` packs them: functions for one row read the same."""
    return gemm_blocks.pack(workload, gemm_blocks.Params(1), constants)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    layer = taken(read(workload, NAME), workload)
    with function_of(workload, layer, "arm_linear_blocks_mmla") as (function, buffers), opaques(), pins():
        data = _quantized(layer, buffers.x, params.parallel)
        tiles = _Tiles(buffers, data)
        rest = layer.columns % COLUMNS

        def panel(index: ir.Expr) -> None:
            if not rest or layer.panels == 1:
                tiles.panel(index, rest or COLUMNS)
                return
            with T.If(index < i64(layer.panels - 1)):
                with T.Then():
                    tiles.panel(index, COLUMNS)
                with T.Else():
                    tiles.panel(index, rest)

        threads.each(layer.panels, params.parallel, panel)
    assert function.prim_func is not None
    return function.prim_func


@dataclass(frozen=True)
class _Data:
    """Quantised pairs of rows, flat.

    Attributes:
        integers: int8 [tile][block][pair][eight k's][row][k].
        facts: float32 [tile][block][pair][1 or 3][row][2]: the scale, and if weights have a shift or offsets, the
            scaled sum of the block, and what the shift adds to sums of products, the bits of an int32. Each stands
            twice, for two columns.
        count: The number of facts, 1 or 3.
    """

    integers: tirx.Buffer
    facts: tirx.Buffer
    count: int


def _quantized(layer: Layer, x: tirx.Buffer, parallel: bool) -> _Data:
    """Emit the quantisation of all rows; a row that completes the last pair is 0."""
    count = 3 if layer.offsets or layer.shift else 1
    places = -(-layer.rows // ROWS) * layer.blocks * PAIRS
    data = _Data(
        T.alloc_buffer((places * _OF_PAIR,), "int8", layout=None),
        T.alloc_buffer((places * count * LANES,), "float32", layout=None),
        count,
    )

    def stored(row: ir.Expr, block: ir.Expr, halves: Sequence[ir.Expr], facts: Sequence[ir.Expr]) -> None:
        tile, within = T.Bind(tirx.floordiv(row, ROWS)), T.Bind(tirx.floormod(row, ROWS))
        pair, side = T.Bind(tirx.floordiv(within, PAIR)), T.Bind(tirx.floormod(within, PAIR))
        place = T.Bind((tile * layer.blocks + block) * PAIRS + pair)
        for step in range(_STEPS):
            part = halves[step // PAIR]
            eight = T.Bind(low(part) if step % PAIR == 0 else high(part))
            store(data.integers, eight, place * _OF_PAIR + step * _BYTES + side * mmla.K_STEP, mmla.K_STEP)
        for number, fact in enumerate(facts):
            at = (place * count + number) * LANES + side * PAIR
            store(data.facts, T.Bind(tirx.Broadcast(fact, PAIR)), at, PAIR)

    def write(row: ir.Expr, block: ir.Expr, quantized: QuantizedBlock) -> None:
        facts = [quantized.scale]
        if count > 1:
            facts += [quantized.scaled_total, quantized.shifted(layer.scaled_shift)]
        stored(row, block, quantized.halves, facts)

    each_block(x, (layer.rows, layer.depth), write, parallel=parallel, sums=count > 1, a64=True)
    if layer.rows % PAIR:
        with T.serial(i64(0), i64(layer.blocks)) as block:
            none, zero = tirx.Broadcast(tirx.IntImm("int8", 0), _BYTES), tirx.FloatImm("float32", 0.0)
            stored(i64(layer.rows), block, (none, none), [zero] * count)
    return data


@dataclass(frozen=True)
class _Tiles:
    """Emits the tiles of panels."""

    buffers: Buffers
    data: _Data

    @property
    def layer(self) -> Layer:
        """The product."""
        return self.buffers.layer

    def panel(self, panel: ir.Expr, columns: int) -> None:
        """Emit the tiles of a panel that has so many columns without padding."""
        layer = self.layer
        weights = self._zipped(panel)
        by_group = [self._widened(each, panel) for each in self.buffers.by_group]

        def vector(v: ir.Expr, width: int) -> None:
            def tile(row: ir.Expr, rows: int) -> None:
                acc = self._product(row, rows, v, weights, by_group)
                self._finish(acc, row, rows, T.Bind(panel * COLUMNS + v * LANES), width)

            threads.each_tile(layer.rows, ROWS, False, tile)

        full, rest = divmod(columns, LANES)
        if full:
            with T.serial(i64(0), i64(full)) as v:
                vector(v, LANES)
        if rest:
            vector(i64(full), rest)

    def _zipped(self, panel: ir.Expr) -> tirx.Buffer:
        """Emit the weights of a panel for SMMLA, flat int8 [vector][block][two columns][eight k's][column][k]."""
        layer = self.layer
        zipped = T.alloc_buffer((layer.blocks * COLUMNS * BLOCK,), "int8", layout=None)
        with T.serial(i64(0), i64(VECTORS * layer.blocks)) as index:
            v, block = T.Bind(tirx.floordiv(index, layer.blocks)), T.Bind(tirx.floormod(index, layer.blocks))
            size = layer.block_bytes // VECTORS
            start = T.Bind((panel * layer.blocks + block) * layer.block_bytes + v * size)
            parts = {
                (half, four): part for four, half, part in parts_of(self.buffers.weights, start, layer.bits)
            }
            to = T.Bind(index * (PAIR * _OF_PAIR))
            for step in range(_STEPS):
                half, four = step // PAIR, PAIR * (step % PAIR)
                zips = zip_halves(parts[half, four], parts[half, four + 1], "int32x4")
                for columns, each in enumerate(zips):
                    store(zipped, T.Bind(each), to + columns * _OF_PAIR + step * _BYTES, _BYTES)
        return zipped

    def _widened(self, held: tirx.Buffer, panel: ir.Expr) -> tirx.Buffer:
        """Emit scales or offsets of a panel, flat float32 [vector][group][two columns][row][column]."""
        groups = self.layer.groups
        wide = T.alloc_buffer((groups * COLUMNS * PAIR,), "float32", layout=None)
        with T.serial(i64(0), i64(VECTORS * groups)) as index:
            v, group = T.Bind(tirx.floordiv(index, groups)), T.Bind(tirx.floormod(index, groups))
            at = T.Bind((panel * groups + group) * COLUMNS + v * LANES)
            four = converted(load(held, at, LANES), "float32")
            for pair in range(PAIR):
                both = tirx.Shuffle([four], [PAIR * pair, PAIR * pair + 1] * PAIR)
                store(wide, T.Bind(both), T.Bind(index * (PAIR * LANES)) + pair * LANES, LANES)
        return wide

    def _product(
        self,
        row: ir.Expr,
        rows: int,
        v: ir.Expr,
        weights: tirx.Buffer,
        by_group: Sequence[tirx.Buffer],
    ) -> tirx.Buffer:
        """Emit the totals of a tile, flat float32 [pair of rows][two columns][row][column]."""
        layer, pairs = self.layer, -(-rows // PAIR)
        acc = T.alloc_buffer((pairs * PAIR * LANES,), "float32", layout=None)
        for at in range(0, pairs * PAIR * LANES, LANES):
            store(acc, splat(0.0, "float32", LANES), i64(at), LANES)
        first = T.Bind(tirx.floordiv(row, ROWS) * layer.blocks)
        with T.serial(i64(0), i64(layer.blocks)) as block:
            group = T.Bind(tirx.floordiv(block, layer.blocks_of_group) + v * layer.groups)
            factors = [
                [load(each, group * (PAIR * LANES) + pair * LANES, LANES) for pair in range(PAIR)]
                for each in by_group
            ]
            start = opaque_offset((block + v * layer.blocks) * (PAIR * _OF_PAIR))
            columns = [
                [load(weights, start + pair * _OF_PAIR + step * _BYTES, _BYTES) for step in range(_STEPS)]
                for pair in range(PAIR)
            ]
            data = opaque_offset((first + block) * (PAIRS * _OF_PAIR))
            facts = opaque_offset((first + block) * (PAIRS * self.data.count * LANES))
            for pair in range(pairs):
                places = data + pair * _OF_PAIR, facts + pair * (self.data.count * LANES)
                self._pair(places, columns, factors, acc, pair * PAIR * LANES)
        return acc

    def _pair(
        self,
        place: tuple[ir.Expr, ir.Expr],
        columns: Sequence[Sequence[ir.Expr]],
        factors: Sequence[Sequence[ir.Expr]],
        acc: tirx.Buffer,
        first: int,
    ) -> None:
        """Emit the addition of a block's products of two rows and four columns to their totals."""
        data = [load(self.data.integers, place[0] + step * _BYTES, _BYTES) for step in range(_STEPS)]
        facts = [load(self.data.facts, place[1] + number * LANES, LANES) for number in range(self.data.count)]
        start = zeros("int32x4") if self.data.count == 1 else T.Bind(tirx.reinterpret("int32x4", facts[2]))
        for pair in range(PAIR):
            total = start
            for step in range(_STEPS):
                total = T.Bind(mmla.smmla(total, data[step], columns[pair][step]))
            if self.data.count > 1:
                # Else LLVM computes all pairs at once, and spills.
                total = T.Bind(pinned(total))
            floats = scvtf(total, 4) if self.layer.bits == _FOUR else tirx.Cast("float32x4", total)
            to = i64(first + pair * LANES)
            value = T.Bind(fma(floats, T.Bind(factors[0][pair] * facts[0]), load(acc, to, LANES)))
            for offset in factors[1:]:
                value = T.Bind(fma(offset[pair], facts[1], value))
            store(acc, value, to, LANES)

    def _finish(self, acc: tirx.Buffer, row: ir.Expr, rows: int, column: ir.Expr, columns: int) -> None:
        """Emit the epilogue and the stores of a tile."""
        by_row = T.alloc_buffer((rows * LANES,), "float32", layout=None)
        for r in range(rows):
            pair, half = r // PAIR, low if r % PAIR == 0 else high
            parts = [T.Bind(half(load(acc, i64((pair * PAIR + c) * LANES), LANES))) for c in range(PAIR)]
            store(by_row, T.Bind(combine(*parts)), i64(r * LANES), LANES)
        for r in range(rows):
            self.buffers.finish(by_row, r * LANES, T.Bind(row + r), column, columns)
