# SPDX-License-Identifier: Apache-2.0
"""The products of `gemm_blocks` for many rows, by SMMLA: equal results, from the same packed weights.

SMMLA multiplies two rows by two columns, eight k at a time. Rows are quantised in tiles of eight, and a task first zips
the weights of its panel and widens their scales, in L1, once for all rows. Both are byte buffers, so that all that a
block of a tile reads is at constant distances from two addresses:

    data       [tile][block], each  [pair of rows][eight k's][row][k], then scales (and more) of [pair][row][2]
    weights    [vector][block], each  [two columns][eight k's][column][k], then scales (and offsets) of [two columns]
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from schedules.intrinsics.vector import high, low, zip_halves
from schedules.kernels.common import threads
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.gemm import gemm_blocks
from schedules.kernels.gemm.gemm_blocks import (
    COLUMNS,
    VECTORS,
    Buffers,
    Layer,
    each_panel,
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

UNROLL = 2
"""Blocks of one iteration: increments of addresses and the branch are 7 % of the instructions of one block."""

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
    return KernelMatch(layer.described)


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
        each_panel(layer, params.parallel, tiles.allocated, tiles.panel)
    assert function.prim_func is not None
    return function.prim_func


@dataclass(frozen=True)
class _Data:
    """Quantised rows.

    Attributes:
        held: Flat int8, as the module describes it.
        facts: Number of facts of a row, 1 or 3: the scale, and if weights have a shift or offsets, the scaled sum of
            the block, and what the shift adds to sums of products, the bits of an int32.
    """

    held: tirx.Buffer
    facts: int

    @property
    def block(self) -> int:
        """Bytes of a block of a tile."""
        return PAIRS * (_OF_PAIR + self.facts * _BYTES)

    def fact(self, number: int, pair: int) -> int:
        """Return the offset in a block of a fact of a pair of rows, float32 [row][2]."""
        return PAIRS * _OF_PAIR + (number * PAIRS + pair) * _BYTES


def _quantized(layer: Layer, x: tirx.Buffer, parallel: bool) -> _Data:
    """Emit the quantisation of all rows; a row that completes the last pair is 0."""
    data = _Data(x, 3 if layer.offsets or layer.shift else 1)
    tiles = -(-layer.rows // ROWS)
    data = replace(data, held=T.alloc_buffer((tiles * layer.blocks * data.block,), "int8", layout=None))

    def stored(row: ir.Expr, block: ir.Expr, halves: Sequence[ir.Expr], facts: Sequence[ir.Expr]) -> None:
        tile, within = T.Bind(tirx.floordiv(row, ROWS)), T.Bind(tirx.floormod(row, ROWS))
        pair, side = T.Bind(tirx.floordiv(within, PAIR)), T.Bind(tirx.floormod(within, PAIR))
        start = T.Bind((tile * layer.blocks + block) * data.block)
        to = T.Bind(start + pair * _OF_PAIR + side * mmla.K_STEP)
        for step in range(_STEPS):
            half = low if step % PAIR == 0 else high
            store(data.held, T.Bind(half(halves[step // PAIR])), to + step * _BYTES, mmla.K_STEP)
        to = T.Bind(start + pair * _BYTES + side * mmla.K_STEP)
        for number, fact in enumerate(facts):
            twice = tirx.reinterpret("int8x8", T.Bind(tirx.Broadcast(fact, PAIR)))
            store(data.held, twice, to + data.fact(number, 0), mmla.K_STEP)

    def write(row: ir.Expr, block: ir.Expr, quantized: QuantizedBlock) -> None:
        facts = [quantized.scale]
        if data.facts > 1:
            facts += [quantized.scaled_total, quantized.shifted(layer.scaled_shift)]
        stored(row, block, quantized.halves, facts)

    each_block(x, (layer.rows, layer.depth), write, parallel=parallel, sums=data.facts > 1, a64=True)
    if layer.rows % PAIR:
        with T.serial(i64(0), i64(layer.blocks)) as block:
            none = tirx.Broadcast(tirx.IntImm("int8", 0), _BYTES)
            zero = T.Bind(tirx.FloatImm("float32", 0.0))
            stored(i64(layer.rows), block, (none, none), [zero] * data.facts)
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

    def allocated(self) -> tirx.Buffer:
        """Allocate the zipped weights of a panel."""
        return T.alloc_buffer((VECTORS * self.layer.blocks * self._block,), "int8", layout=None)

    def panel(self, panel: ir.Expr, columns: int, zipped: tirx.Buffer) -> None:
        """Emit the tiles of a panel that has so many columns without padding; its weights are zipped to `zipped`."""
        layer = self.layer
        self._zip(panel, zipped)

        def vector(v: ir.Expr, width: int) -> None:
            def tile(row: ir.Expr, rows: int) -> None:
                acc = self._product(row, rows, v, zipped)
                self._finish(acc, row, rows, T.Bind(panel * COLUMNS + v * LANES), width)

            threads.each_tile(layer.rows, ROWS, False, tile)

        full, rest = divmod(columns, LANES)
        if full:
            with T.serial(i64(0), i64(full)) as v:
                vector(v, LANES)
        if rest:
            vector(i64(full), rest)

    @property
    def _block(self) -> int:
        """Bytes of a block of the zipped weights."""
        return PAIR * (_OF_PAIR + len(self.buffers.by_group) * _BYTES)

    def _zip(self, panel: ir.Expr, zipped: tirx.Buffer) -> None:
        """Emit the weights of a panel for SMMLA with their scales and offsets, as the module describes it."""
        layer = self.layer
        size = layer.block_bytes // VECTORS
        with T.serial(i64(0), i64(VECTORS)) as v:
            start = T.Bind(panel * (layer.blocks * layer.block_bytes) + v * size)
            to = T.Bind(v * (layer.blocks * self._block))
            of_panel = T.Bind(panel * (layer.groups * COLUMNS) + v * LANES)
            with T.serial(i64(0), i64(layer.blocks)) as block:
                held = parts_of(self.buffers.weights, T.Bind(start + block * layer.block_bytes), layer.bits)
                parts = {(half, four): part for four, half, part in held}
                at = T.Bind(to + block * self._block)
                for step in range(_STEPS):
                    half, four = step // PAIR, PAIR * (step % PAIR)
                    zips = zip_halves(parts[half, four], parts[half, four + 1], "int32x4")
                    for columns, each in enumerate(zips):
                        store(zipped, T.Bind(each), at + columns * _OF_PAIR + step * _BYTES, _BYTES)
                group = T.Bind(of_panel + tirx.floordiv(block, layer.blocks_of_group) * COLUMNS)
                for number, each in enumerate(self.buffers.by_group):
                    four = converted(load(each, group, LANES), "float32")
                    for pair in range(PAIR):
                        both = T.Bind(tirx.Shuffle([four], [PAIR * pair, PAIR * pair + 1] * PAIR))
                        store(
                            zipped, tirx.reinterpret("int8x16", both), at + self._factor(number, pair), _BYTES
                        )

    @staticmethod
    def _factor(number: int, pair: int) -> int:
        """Return the offset in a block of the scales (0) or offsets (1) of two columns, float32 [row][column]."""
        return PAIR * _OF_PAIR + (number * PAIR + pair) * _BYTES

    def _product(self, row: ir.Expr, rows: int, v: ir.Expr, weights: tirx.Buffer) -> tirx.Buffer:
        """Emit the totals of a tile, flat float32 [pair of rows][two columns][row][column]."""
        layer, pairs = self.layer, -(-rows // PAIR)
        acc = T.alloc_buffer((pairs * PAIR * LANES,), "float32", layout=None)
        for at in range(0, pairs * PAIR * LANES, LANES):
            store(acc, splat(0.0, "float32", LANES), i64(at), LANES)
        first = T.Bind(tirx.floordiv(row, ROWS) * layer.blocks)

        def blocks(start: ir.Expr, count: int) -> None:
            weights_at = opaque_offset((start + v * layer.blocks) * self._block)
            data_at = opaque_offset((first + start) * self.data.block)
            for index in range(count):
                place = weights_at + index * self._block, data_at + index * self.data.block
                self._block_of_tile(place, pairs, weights, acc)

        with T.serial(i64(0), i64(layer.blocks // UNROLL)) as index:
            blocks(index * UNROLL, UNROLL)
        if rest := layer.blocks % UNROLL:
            blocks(i64(layer.blocks - rest), rest)
        return acc

    def _block_of_tile(
        self, place: tuple[ir.Expr, ir.Expr], pairs: int, weights: tirx.Buffer, acc: tirx.Buffer
    ) -> None:
        """Emit the addition of a block's products to the totals; `place` is where its weights and data begin."""
        start, data = place
        factors = [
            [_floats(weights, start + self._factor(number, pair)) for pair in range(PAIR)]
            for number in range(len(self.buffers.by_group))
        ]
        columns = [
            [load(weights, start + pair * _OF_PAIR + step * _BYTES, _BYTES) for step in range(_STEPS)]
            for pair in range(PAIR)
        ]
        for pair in range(pairs):
            self._pair(data, pair, columns, factors, acc)

    def _pair(
        self,
        start: ir.Expr,
        rows: int,
        columns: Sequence[Sequence[ir.Expr]],
        factors: Sequence[Sequence[ir.Expr]],
        acc: tirx.Buffer,
    ) -> None:
        """Emit the addition of a block's products of a pair of rows and four columns to their totals."""
        held = self.data.held
        data = [load(held, start + rows * _OF_PAIR + step * _BYTES, _BYTES) for step in range(_STEPS)]
        facts = [_floats(held, start + self.data.fact(number, rows)) for number in range(self.data.facts)]
        first = zeros("int32x4") if self.data.facts == 1 else T.Bind(tirx.reinterpret("int32x4", facts[2]))
        for pair in range(PAIR):
            total = first
            for step in range(_STEPS):
                total = T.Bind(mmla.smmla(total, data[step], columns[pair][step]))
            if self.data.facts > 1:
                # Without the pin LLVM computes all pairs of columns at once, and spills.
                total = T.Bind(pinned(total))
            floats = scvtf(total, 4) if self.layer.bits == _FOUR else tirx.Cast("float32x4", total)
            to = i64((rows * PAIR + pair) * LANES)
            value = T.Bind(fma(floats, T.Bind(factors[0][pair] * facts[0]), load(acc, to, LANES)))
            for offset in factors[1:]:
                value = T.Bind(fma(offset[pair], facts[1], value))
            store(acc, value, to, LANES)

    def _finish(self, acc: tirx.Buffer, row: ir.Expr, rows: int, column: ir.Expr, columns: int) -> None:
        """Emit the epilogue and the stores of a tile."""
        by_row = T.alloc_buffer((rows * LANES,), "float32", layout=None)
        for r in range(rows):
            parts = [load(acc, i64((r // PAIR * PAIR + c) * LANES), LANES) for c in range(PAIR)]
            side = PAIR * (r % PAIR)
            order = [side, side + 1, LANES + side, LANES + side + 1]
            store(by_row, T.Bind(tirx.Shuffle(parts, order)), i64(r * LANES), LANES)
        for r in range(rows):
            self.buffers.finish(by_row, r * LANES, T.Bind(row + r), column, columns)


def _floats(held: tirx.Buffer, at: ir.Expr) -> ir.Expr:
    """Emit the load of a float32x4 from bytes."""
    return T.Bind(tirx.reinterpret("float32x4", load(held, at, _BYTES)))
