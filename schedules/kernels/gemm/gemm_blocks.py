# SPDX-License-Identifier: Apache-2.0
"""Linear layers with 4-bit or 8-bit weights by data that is quantised in blocks of 32; see `schedules.numerics.blocks`.

The data is quantised first. A task then multiplies all rows by panels of 16 columns. A panel is blocks of 32 k; a block
of a panel is, for each four columns and each four k from 0 to 15, 16 bytes [column][k]. 4-bit weights hold k from 16 to
31 in their high four bits; 8-bit weights have them as the next 16 bytes. Both forms are read by SDOT by element.

Few rows widen 4-bit weights in registers. More rows than those of a register tile first widen a panel to 8 bits in L1,
once for all rows. The layout of the weights is the same for any number of rows, so that functions for prompts and for
single tokens share the weights. A total is one chain of FMA in both, so that the results are equal bit by bit.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sdot, smull
from schedules.intrinsics.narrow import fma, scvtf
from schedules.intrinsics.opaque import opaque_offset, opaque_view, opaques
from schedules.intrinsics.pin import pinned, pins
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector import high, lanes_of, low
from schedules.kernels.common import threads
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.common.cost_model import Cost, arithmetic, cheapest, scalar
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.gemm.quantize_blocks import INSTRUCTIONS, QuantizedBlock, each_block
from schedules.numerics.blocks import BLOCK, unpacked
from schedules.tir.emit import Function, TensorSpec, converted, i64, kernel_function, load, splat, store

NAME = "gemm_blocks"

COMPOSITE = "arm.linear_blocks"

COLUMNS = 16
"""Columns of a panel."""

VECTORS = COLUMNS // LANES
"""Vectors of columns of a panel."""

TILE = 4
"""Most rows of a register tile: of 8 columns, 8 totals, 4 integer sums, 8 registers of data, 4 of weights and facts."""

_VECTORS = {1: 4, 2: 2, 3: 2, 4: 2}
"""Rows of a register tile → its vectors of columns; with more, LLVM spills on some cores."""

UNROLL = 2
"""Blocks of one iteration: increments of addresses and the branch are 6 % of the instructions of one block."""

_FLOAT = 4
"""Bytes of a float32."""

_BYTES = 16
"""Bytes of a register, and k of half a block."""

_FOUR, _EIGHT = 4, 8
"""Bits of a weight."""

_ATTRIBUTES = ("bits", "depth", "group", "shift")

Instruction = Literal["sdot", "smull", "vector"]


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        rows: Rows of a register tile, 1 to `TILE`.
        vectors: Vectors of columns of a register tile, 2 or 4.
        dot: The instruction that multiplies; "vector" stands for vector operations that every target has.
        parallel: Whether panels are spread over the runtime's threads.
    """

    rows: int
    dot: Instruction = "sdot"
    vectors: int = VECTORS
    parallel: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= TILE:
            raise ValueError(f"{self.rows} rows of a register tile; expected 1 to {TILE}")


@dataclass(frozen=True)
class Layer:
    """A product of data that is quantised in blocks by constant weights of 4 or 8 bits.

    Attributes:
        rows: Rows of the data.
        depth: K.
        columns: Columns of the result.
        bits: Bits of a weight.
        group: Elements of k that share a scale.
        scale: Dtype of the scales.
        offsets: Whether weights have offsets.
        shift: Added to each integer.
    """

    rows: int
    depth: int
    columns: int
    bits: int
    group: int
    scale: str
    offsets: bool
    shift: int

    @property
    def described(self) -> str:
        """What a kernel computes, for reports."""
        sizes = f"{self.rows} x {self.depth} x {self.columns}"
        return f"product of {self.bits}-bit weights and blocks of data {sizes}"

    @property
    def blocks(self) -> int:
        """Number of blocks of k."""
        return -(-self.depth // BLOCK)

    @property
    def blocks_of_group(self) -> int:
        """Blocks that share a scale of the weights."""
        return min(self.group // BLOCK, self.blocks)

    @property
    def groups(self) -> int:
        """Groups of k."""
        return -(-self.blocks // self.blocks_of_group)

    @property
    def panels(self) -> int:
        """Panels of columns, the last of which may be padded."""
        return -(-self.columns // COLUMNS)

    @property
    def scaled_shift(self) -> int:
        """The shift in units of the integers that kernels multiply by: 4-bit weights are multiplied by 16."""
        return self.shift * (16 if self.bits == _FOUR else 1)

    @property
    def block_bytes(self) -> int:
        """Bytes of the weights of a block of a panel."""
        return COLUMNS * BLOCK * self.bits // 8


def read(workload: Workload, kernel: str = NAME) -> Layer | Diagnostic:
    """Return the product of a workload; `kernel` is who asks."""
    if workload.composite != COMPOSITE:
        reason = "composite is no product of weights and data quantised in blocks"
        return declined(kernel, reason, COMPOSITE, workload.composite, unfit=True)
    return layer_of(kernel, workload, math.prod(workload.operands[0].shape[:-1]))


def layer_of(kernel: str, workload: Workload, rows: int) -> Layer | Diagnostic:
    """Return the layer of a workload whose operands from the second on are weights, scales and perhaps offsets."""
    _, held, scales, *offsets = workload.operands
    if any(operand.kind != "constant" for operand in workload.operands[1:]):
        return declined(kernel, "weights are not constant", "constant", "computed at run time")
    attributes = {name: int(value) for name, value in workload.attributes if name in _ATTRIBUTES}
    group, depth, columns = attributes["group"], attributes["depth"], held.shape[0]
    if 0 in (rows, depth, columns):
        return declined(kernel, "a dimension is 0", "1 or more", str((rows, depth, columns)))
    if group % BLOCK and group < depth:
        return declined(kernel, "a group is no multiple of a block", str(BLOCK), str(group))
    group = max(group, BLOCK) if group < depth else -(-depth // BLOCK) * BLOCK
    bits, shift = attributes["bits"], attributes["shift"]
    return Layer(rows, depth, columns, bits, group, scales.dtype, bool(offsets), shift)


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept products of constant weights whose groups are multiples of a block."""
    layer = read(workload)
    if isinstance(layer, Diagnostic):
        return layer
    if core.is_microcontroller:
        return missing_feature(NAME, "neon", core)
    return KernelMatch(layer.described)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the register tiles of one row up to `TILE` rows."""
    layer = taken(read(workload), workload)
    dot: Instruction = "sdot" if sdot.FEATURE in core.features else "smull" if core.neon else "vector"
    tiles = [Params(rows, dot, _VECTORS[rows]) for rows in range(1, min(TILE, layer.rows) + 1)]
    long = max(_cost(layer, params).cycles(core) for params in tiles) >= threads.PARALLEL_CYCLES
    return tuple(replace(params, parallel=long and layer.panels > 1) for params in tiles)


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    layer = taken(read(workload), workload)
    return cheapest(candidates(workload, core), lambda params: _cost(layer, params), core)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1."""
    return _cost(taken(read(workload), workload), params).cycles(core)


def _cost(layer: Layer, params: Params) -> Cost:
    widens_first = layer.rows > params.rows and layer.bits == _FOUR
    packed = layer.bits == _FOUR and not widens_first
    products = 1.0 if params.dot == "sdot" else 2.4
    vectors, cost = layer.panels * VECTORS * layer.blocks, Cost(0.0, 0.0)
    full, rest = divmod(layer.rows, params.rows)
    for rows, count in ((params.rows, full), (rest, 1)):
        if not rows or not count:
            continue
        tile = arithmetic(8 * products * rows + 4 * rows + (8 if packed else 0))
        # Loads of weights and scales, half of them LDP; those of data, and the loop, once for all vectors.
        tile += scalar((4 if packed else 8) / 2 + 1 + (rows + 6) / params.vectors)
        if layer.offsets:
            tile += arithmetic(rows + 1) + scalar(1)
        cost += tile * (vectors * count)
    if widens_first:
        cost += (arithmetic(12) + scalar(2)) * vectors
    return cost + (arithmetic(INSTRUCTIONS - 12) + scalar(12)) * (layer.rows * layer.blocks)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return weights and scales in panels, then the offsets in panels and the bias, if there are any."""
    layer = taken(read(workload), workload)
    held, scales, *offsets = (constants[operand.index] for operand in workload.operands[1:])
    bias = workload.step("bias")
    by_column = [] if bias is None or bias.operand is None else [constants[bias.operand.index]]
    return (
        *packed(layer, held, (scales, *offsets)),
        *(_by_panel(layer, each.astype(np.float32).reshape(-1, 1)) for each in by_column),
    )


def packed(layer: Layer, held: Array, by_group: Sequence[Array]) -> tuple[Array, ...]:
    """Return weights [columns, bytes of K], and scales and offsets [columns, groups], in panels, flat."""
    integers = unpacked(held, layer.depth) if layer.bits == _FOUR else held
    padded = np.zeros((layer.panels * COLUMNS, layer.blocks * BLOCK), np.int8)
    padded[: layer.columns, : layer.depth] = integers
    # [panel, vector, column, block, half, four k's, k] → [panel, block, vector, four k's, half, column, k]
    split = padded.reshape(layer.panels, VECTORS, LANES, layer.blocks, 2, _BYTES // 4, 4)
    ordered = split.transpose(0, 3, 1, 5, 4, 2, 6)
    if layer.bits == _FOUR:
        ordered = (ordered[:, :, :, :, 0] & 15) | (ordered[:, :, :, :, 1] << 4)
    return np.ascontiguousarray(ordered).ravel(), *(_by_panel(layer, each) for each in by_group)


def _by_panel(layer: Layer, values: Array) -> Array:
    """Return [columns, groups] as [panel, group, column], flat."""
    padded = np.zeros((layer.panels * COLUMNS, values.shape[1]), values.dtype)
    padded[: layer.columns] = values
    return np.ascontiguousarray(padded.reshape(layer.panels, COLUMNS, -1).transpose(0, 2, 1)).ravel()


@dataclass(frozen=True)
class Buffers:
    """Flat buffers of a function.

    Attributes:
        workload: What the function computes.
        layer: Its product.
        x: The data.
        weights: Packed weights.
        by_group: Packed scales, and offsets if there are any.
        bias: Packed bias; None if there is none.
        residual: The tensor that a step "residual" adds; None if there is no such step.
        output: The result.
    """

    workload: Workload
    layer: Layer
    x: tirx.Buffer
    weights: tirx.Buffer
    by_group: Sequence[tirx.Buffer]
    bias: tirx.Buffer | None
    residual: tirx.Buffer | None
    output: tirx.Buffer

    def finish(self, acc: tirx.Buffer, at: int, row: ir.Expr, column: ir.Expr, columns: int) -> None:
        """Emit the epilogue and the stores of the columns of a row from `column` on, whose totals are at `acc[at]`."""
        if self.bias is not None:
            for first in range(0, columns, LANES):
                place = i64(at + first)
                biased = load(acc, place, LANES) + load(self.bias, column + first, LANES)
                store(acc, biased, place, LANES)
        target = T.Bind(row * self.layer.columns + column)
        epilogue_f32.finish(self.workload.epilogue, acc, at, columns, self.output, target, self.residual)


@contextmanager
def function_of(workload: Workload, layer: Layer, name: str) -> Iterator[tuple[Function, Buffers]]:
    """Open the PrimFunc of a workload; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    arguments: list[TensorSpec] = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments.append(((layer.panels * layer.blocks * layer.block_bytes,), "int8"))
    arguments += [((layer.panels * layer.groups * COLUMNS,), layer.scale)] * (1 + layer.offsets)
    has_bias, residual = workload.step("bias") is not None, workload.step("residual")
    arguments += [((layer.panels * COLUMNS,), "float32")] * has_bias
    arguments.append((workload.output_shape, workload.output_dtype))
    symbol = "_".join((f"{name}_w{layer.bits}", *(step.name for step in workload.epilogue)))
    with kernel_function(symbol, arguments) as function:
        inputs, packed = function.buffers[: len(workload.inputs)], function.buffers[len(workload.inputs) : -1]
        yield (
            function,
            Buffers(
                workload,
                layer,
                inputs[workload.operands[0].index],
                packed[0],
                packed[1 : len(packed) - has_bias],
                packed[-1] if has_bias else None,
                inputs[residual.operand.index] if residual and residual.operand else None,
                function.buffers[-1],
            ),
        )


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    layer = taken(read(workload), workload)
    with function_of(workload, layer, "arm_linear_blocks") as (function, buffers):
        data = _quantized(layer, buffers.x, params)
        with opaques(), pins():
            _Panels(buffers, params, data).emit()
    assert function.prim_func is not None
    return function.prim_func


@dataclass(frozen=True)
class _Data:
    """Quantised rows, so that all that a tile reads of a block is at constant distances from one address.

    Attributes:
        held: Flat bytes, [tile][block], each the integers [row][32], and facts in float32x4: the scales of up to four
            rows. If weights have a shift or offsets, then the scaled sums of the block, and what the shift adds to sums
            of products, the bits of an int32; of tiles of one row, all three are in one float32x4.
        blocks: Blocks of a row.
        rows: Rows of a tile.
        several: Whether there are more facts than scales.
    """

    held: tirx.Buffer
    blocks: int
    rows: int
    several: bool

    @property
    def block(self) -> int:
        """Bytes of a block of a tile."""
        return self.rows * BLOCK + (3 if self.several and self.rows > 1 else 1) * _BYTES

    def fact(self, number: int, row: int) -> int:
        """Return the offset in a block of a fact of a row: 0 is its scale, 1 its sum, 2 what the shift adds."""
        return self.rows * BLOCK + self._lane(number, row) * _FLOAT

    def _lane(self, number: int, row: int) -> int:
        """Return the index of a fact of a row among the floats of a block."""
        return number if self.rows == 1 else number * LANES + row

    def load(self, start: ir.Expr, count: int) -> "_Rows":
        """Emit the loads of a block of a tile of `count` rows."""
        data = [
            [load(self.held, start + r * BLOCK + half * _BYTES, _BYTES) for half in range(2)]
            for r in range(count)
        ]
        numbers = 3 if self.several and self.rows > 1 else 1
        vectors = [load(self.held, start + self.rows * BLOCK + n * _BYTES, _BYTES) for n in range(numbers)]
        floats = [T.Bind(tirx.reinterpret("float32x4", each)) for each in vectors]

        def splats(number: int) -> list[ir.Expr]:
            lanes = [divmod(self._lane(number, r), LANES) for r in range(count)]
            return [T.Bind(tirx.Shuffle([floats[vector]], [lane] * LANES)) for vector, lane in lanes]

        if not self.several:
            return _Rows(data, [zeros("int32x4")] * count, splats(0), [])
        starts = [T.Bind(tirx.reinterpret("int32x4", each)) for each in splats(2)]
        return _Rows(data, starts, splats(0), splats(1))


@dataclass(frozen=True)
class _Rows:
    """32 elements of k of each row of a tile; each list has one entry a row.

    Attributes:
        data: Two int8x16.
        starts: The int32x4 with which sums of products start.
        scales: The scale in all lanes.
        sums: The scaled sum of the block in all lanes; empty without offsets and shift.
    """

    data: list[list[ir.Expr]]
    starts: list[ir.Expr]
    scales: list[ir.Expr]
    sums: list[ir.Expr]


def _quantized(layer: Layer, x: tirx.Buffer, params: Params) -> _Data:
    """Emit the quantisation of all rows."""
    data = _Data(x, layer.blocks, params.rows, several=layer.offsets or bool(layer.shift))
    tiles = -(-layer.rows // params.rows)
    data = replace(data, held=T.alloc_buffer((tiles * layer.blocks * data.block,), "int8", layout=None))

    def write(row: ir.Expr, block: ir.Expr, quantized: QuantizedBlock) -> None:
        tile, within = T.Bind(tirx.floordiv(row, params.rows)), T.Bind(tirx.floormod(row, params.rows))
        start = T.Bind((tile * layer.blocks + block) * data.block)
        for half, values in enumerate(quantized.halves):
            store(data.held, values, start + within * BLOCK + half * _BYTES, _BYTES)
        facts = [quantized.scale]
        if data.several:
            facts += [quantized.scaled_total, quantized.shifted(layer.scaled_shift)]
        for number, fact in enumerate(facts):
            place = start + (data.fact(number, 0) + within * (_FLOAT if params.rows > 1 else 0))
            store(data.held, tirx.reinterpret("int8x4", fact), place, _FLOAT)

    several = params.parallel and layer.rows > TILE
    a64 = params.dot != "vector"
    each_block(x, (layer.rows, layer.depth), write, parallel=several, sums=data.several, a64=a64)
    return data


def each_panel(
    layer: Layer,
    parallel: bool,
    begin: Callable[[], threads.Held],
    panel: Callable[[ir.Expr, int, threads.Held], None],
) -> None:
    """Emit a loop over the panels of a product; the last one has code of its own if it is padded.

    Args:
        layer: The product.
        parallel: Whether threads share the panels.
        begin: As for `threads.each_with`.
        panel: Emits (index of a panel, its columns without padding, what `begin` returned).
    """
    rest = layer.columns % COLUMNS

    def one(index: ir.Expr, held: threads.Held) -> None:
        if not rest or layer.panels == 1:
            panel(index, rest or COLUMNS, held)
            return
        with T.If(index < i64(layer.panels - 1)):
            with T.Then():
                panel(index, COLUMNS, held)
            with T.Else():
                panel(index, rest, held)

    threads.each_with(layer.panels, parallel, begin, one)


@dataclass(frozen=True)
class _Panels:
    """The loop over panels, with what it reads and writes."""

    buffers: Buffers
    params: Params
    data: _Data

    @property
    def layer(self) -> Layer:
        """The product."""
        return self.buffers.layer

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.params.vectors * LANES

    def emit(self) -> None:
        """Emit the loop over panels."""
        each_panel(self.layer, self.params.parallel, self._allocated, self._panel)

    def _allocated(self) -> tirx.Buffer | None:
        """Allocate a panel of 4-bit weights as 8 bits, if there are more rows than those of a tile."""
        if self.layer.bits == _EIGHT or self.layer.rows <= self.params.rows:
            return None
        return T.alloc_buffer((self.layer.blocks * COLUMNS * BLOCK,), "int8", layout=None)

    def _panel(self, panel: ir.Expr, columns: int, wide: tirx.Buffer | None) -> None:
        layer = self.layer
        weights = opaque_view(self.buffers.weights, T.Bind(panel * (layer.blocks * layer.block_bytes)))
        if wide is not None:
            self._widen(weights, wide)
            weights = wide
        bits = layer.bits if wide is None else _EIGHT
        scales = [
            opaque_view(each, T.Bind(panel * (layer.groups * COLUMNS))) for each in self.buffers.by_group
        ]

        def tile(row: ir.Expr, rows: int) -> None:
            for first in range(0, -(-columns // LANES), self.params.vectors):
                acc = self._product((row, rows), weights, bits, scales, first)
                for r in range(rows):
                    place = T.Bind(panel * COLUMNS + first * LANES)
                    width = min(self.width, columns - first * LANES)
                    self.buffers.finish(acc, r * self.width, T.Bind(row + r), place, width)

        threads.each_tile(layer.rows, self.params.rows, False, tile)

    def _widen(self, weights: tirx.Buffer, wide: tirx.Buffer) -> None:
        """Emit the conversion of a panel to 8 bits."""
        with T.serial(i64(0), i64(self.layer.blocks * VECTORS)) as part:
            for index in range(4):
                held = load(weights, part * (4 * _BYTES) + index * _BYTES, _BYTES)
                for half, each in enumerate(halves_of(held)):
                    store(wide, each, part * (8 * _BYTES) + (2 * index + half) * _BYTES, _BYTES)

    def _product(
        self,
        rows: tuple[ir.Expr, int],
        weights: tirx.Buffer,
        bits: int,
        scales: Sequence[tirx.Buffer],
        first: int,
    ) -> tirx.Buffer:
        """Emit the totals of a tile (first row, number of rows) from vector `first` on, flat float32 [row][columns]."""
        layer, count = self.layer, self.layer.blocks_of_group
        acc = T.alloc_buffer((rows[1] * self.width,), "float32", layout=None)
        for at in range(0, rows[1] * self.width, LANES):
            store(acc, splat(0.0, "float32", LANES), i64(at), LANES)

        def of_group(group: ir.Expr) -> list[list[ir.Expr]]:
            """Emit the loads of a group: for each vector of columns its scales, and its offsets if there are any."""
            held = [
                load(each, group * COLUMNS + first * LANES + 2 * LANES * pair, 2 * LANES)
                for each in scales
                for pair in range(self.params.vectors // 2)
            ]
            vectors = [converted(T.Bind(half(each)), "float32") for each in held for half in (low, high)]
            return [vectors[v :: self.params.vectors] for v in range(self.params.vectors)]

        def part(block: ir.Expr, blocks: int, by_vector: Sequence[Sequence[ir.Expr]] | None) -> None:
            """Emit consecutive blocks, whose addresses are at constant distances."""
            weights_at = block * (COLUMNS * BLOCK * bits // 8)
            data_at = (tirx.floordiv(rows[0], self.data.rows) * layer.blocks + block) * self.data.block
            # Where LLVM would recompute an address for each access, an opaque offset is computed once.
            places = [
                opaque_offset(weights_at) if bits != layer.bits else T.Bind(weights_at),
                opaque_offset(data_at) if self.data.rows > 1 else T.Bind(data_at),
            ]
            for index in range(blocks):
                factors = of_group(T.Bind(block + index)) if by_vector is None else by_vector
                start = (
                    places[0] + index * (COLUMNS * BLOCK * bits // 8) + first * (BLOCK * LANES * bits // 8)
                )
                data = self.data.load(places[1] + index * self.data.block, rows[1])
                self._block(data, weights, bits, start, factors, acc)

        if count == 1:
            # With several facts of each row, LLVM would spill.
            step = 1 if self.data.several and rows[1] > 1 else UNROLL
            with T.serial(i64(0), i64(layer.blocks // step)) as index:
                part(T.Bind(index * step), step, None)
            if rest := layer.blocks % step:
                part(i64(layer.blocks - rest), rest, None)
            return acc
        with T.serial(i64(0), i64(layer.groups)) as group:
            begin, held = T.Bind(group * count), of_group(group)
            whole = layer.blocks % count == 0
            last = i64(count) if whole else tirx.min(i64(count), layer.blocks - begin)
            with T.serial(i64(0), last) as inner:
                part(T.Bind(begin + inner), 1, held)
        return acc

    def _block(
        self,
        data: _Rows,
        weights: tirx.Buffer,
        bits: int,
        start: ir.Expr,
        by_vector: Sequence[Sequence[ir.Expr]],
        acc: tirx.Buffer,
    ) -> None:
        """Emit the addition of a block's products to the totals; `by_vector` has scales and offsets of columns."""
        dot, step = _DOTS[self.params.dot], BLOCK * LANES * bits // 8
        for v in range(self.params.vectors):
            dots = dot(data.data, parts_of(weights, start + v * step, bits), data.starts)
            if self.params.dot != "vector":
                # Without the pin LLVM multiplies all vectors of columns at once, and spills.
                dots = [*dots[:-1], T.Bind(pinned(dots[-1]))]
            scale, *offset = by_vector[v]
            for r, integers in enumerate(dots):
                at = i64(r * self.width + v * LANES)
                by = T.Bind(scale * data.scales[r])
                total = T.Bind(fma(self._floats(integers), by, load(acc, at, LANES)))
                for each in offset:
                    total = T.Bind(fma(each, data.sums[r], total))
                store(acc, total, at, LANES)

    def _floats(self, sums: ir.Expr) -> ir.Expr:
        """Emit the conversion of sums to float32; 4-bit weights were multiplied by 16."""
        if self.layer.bits == _EIGHT:
            return tirx.Cast("float32x4", sums)
        if self.params.dot == "vector":
            return T.Bind(tirx.Cast("float32x4", sums) * splat(1 / 16, "float32", LANES))
        return scvtf(sums, 4)


def parts_of(weights: tirx.Buffer, start: ir.Expr, bits: int) -> Iterator[tuple[int, int, ir.Expr]]:
    """Emit the loads of four columns of a block: (four k's, half, int8x16 [column][k])."""
    for four in range(_BYTES // 4):
        if bits == _FOUR:
            halves = halves_of(load(weights, start + four * _BYTES, _BYTES))
            yield from ((four, half, each) for half, each in enumerate(halves))
        else:
            for half in range(2):
                yield four, half, load(weights, start + (2 * four + half) * _BYTES, _BYTES)


def halves_of(held: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
    """Emit 16 times the weights in the low and in the high four bits."""
    shift, mask = (tirx.Broadcast(tirx.IntImm("int8", value), _BYTES) for value in (4, -16))
    return T.Bind(held << shift), T.Bind(tirx.bitwise_and(held, mask))


Parts = Iterable[tuple[int, int, ir.Expr]]


def _by_sdot(data: list[list[ir.Expr]], parts: Parts, starts: list[ir.Expr]) -> list[ir.Expr]:
    """Emit, for each row, the int32x4 sums of four columns over a block, added to `starts`."""
    totals = list(starts)
    for four, half, weights in parts:
        for r, row in enumerate(data):
            totals[r] = T.Bind(sdot.sdot_lane(totals[r], weights, row[half], four))
    return totals


def _by_smull(data: list[list[ir.Expr]], parts: Parts, starts: list[ir.Expr]) -> list[ir.Expr]:
    """Emit the same with SMLAL; two products fit 16 bits, as data is never -128."""
    totals = [[zeros("int32x4")] * 2 for _ in data]
    pairs: list[list[ir.Expr]] = [[] for _ in data]
    for four, half, weights in parts:
        columns = T.Bind(low(weights)), T.Bind(high(weights))
        for r, row in enumerate(data):
            k = T.Bind(low(sdot.splat_word(row[half], four)))
            products = [smull.smull(each, k) for each in columns]
            if not pairs[r]:
                pairs[r] = [T.Bind(product) for product in products]
                continue
            sums = [T.Bind(a + b) for a, b in zip(pairs[r], products, strict=True)]
            totals[r] = [T.Bind(smull.sadalp(t, s)) for t, s in zip(totals[r], sums, strict=True)]
            pairs[r] = []
    return [T.Bind(smull.addp(*each) + start) for each, start in zip(totals, starts, strict=True)]


def _by_vectors(data: list[list[ir.Expr]], parts: Parts, starts: list[ir.Expr]) -> list[ir.Expr]:
    """Emit the same with operations on vectors that every target has."""

    def pairs(x: ir.Expr) -> ir.Expr:
        """Emit the sums of neighbouring lanes; after a product of 16-bit lanes LLVM selects PMADDWD."""
        lanes = lanes_of(x)
        even, odd = (tirx.Shuffle([x], list(range(first, lanes, 2))) for first in range(2))
        return T.Bind(even + odd)

    totals: list[ir.Expr] = [zeros("int32x8") for _ in data]
    for four, half, weights in parts:
        wide = T.Bind(tirx.Cast("int32x16", T.Bind(tirx.Cast("int16x16", weights))))
        for r, row in enumerate(data):
            k = T.Bind(tirx.Cast("int16x16", sdot.splat_word(row[half], four)))
            totals[r] = T.Bind(totals[r] + pairs(T.Bind(wide * tirx.Cast("int32x16", k))))
    return [T.Bind(pairs(total) + start) for total, start in zip(totals, starts, strict=True)]


_DOTS: dict[Instruction, Callable[[list[list[ir.Expr]], Parts, list[ir.Expr]], list[ir.Expr]]] = {
    "sdot": _by_sdot,
    "smull": _by_smull,
    "vector": _by_vectors,
}


def zeros(dtype: str) -> ir.Expr:
    """Return a vector of zeros, such as "int32x4"."""
    element, lanes = dtype.split("x")
    return tirx.Broadcast(tirx.IntImm(element, 0), int(lanes))
