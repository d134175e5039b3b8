# SPDX-License-Identifier: Apache-2.0
"""LSTM, RNN and GRU whose product with the state is one of 8-bit integers, as one loop over the steps.

    y[t] = cell(x[t] + float(sum over k of (q[k] - z) R[k, n]) * (s scale[n]), states)      q, s, z of h, each step

See `steps`, and `schedules.numerics.recurrent_dynamic`. Each step first quantises all rows of the state to int8, which
SDOT (or SMULL on cores without it) multiplies; the zero points' contribution is added to the sums. Nine-bit weights are
int8 plus one shift per column, which is multiplied by the sum of the row. A GRU whose reset gate comes before its
product would quantise twice per step, and is declined.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.narrow import fcvtas, fcvtns, narrow8, sqxtn16
from schedules.intrinsics.pin import pins
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.intrinsics.sdot import FEATURE, K_STEP, sdot
from schedules.intrinsics.smull import sadalp, smull
from schedules.intrinsics.vector import combine, high, low
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, Match, declined, taken
from schedules.kernels.common.cost_model import again, arithmetic
from schedules.kernels.gemm import implicit_rows
from schedules.kernels.gemm.k_chunks_s8 import Reading
from schedules.kernels.gemm.product import reordered
from schedules.kernels.gemm.product_s8 import FLIP, NINE_BITS, shifts_of
from schedules.kernels.recurrent.steps import (
    Emitter,
    Layer,
    activation_instructions,
    arguments_of,
    buffers_of,
    columns_of,
    constants_of,
    layer_of,
    packed,
    width_of,
)
from schedules.kernels.rowwise import row_vectors
from schedules.kernels.tiles import mlal_tile, sdot_tile
from schedules.kernels.tiles.tile_stores import HALF, Accumulator
from schedules.numerics.recurrent import GATES
from schedules.numerics.recurrent_dynamic import MOST, STEPS
from schedules.tir.emit import TensorSpec, i64, kernel_function, load, store, take

NAME = "recurrent_s8"

COMPOSITES = tuple(f"arm.{kind}_dynamic" for kind in GATES)

FIRST = 3
"""The operand that is the first state: data, weights and their scales come before it."""

TILES = ((1, 16), (1, 12), (1, 8), (1, 4), (2, 12), (2, 8), (3, 8), (4, 4), (5, 4), (6, 4))
"""(rows, vectors) of the register tiles worth considering."""

WIDENED_TILES = ((1, 4), (1, 2))
"""(rows, vectors) of the register tiles worth considering without SDOT."""

CHAIN = 1
"""Number of products that are summed in 16 bits: one, since weights may be -128."""

AROUND = 9.0
"""Instructions per vector of a gate besides its activation: loads, conversion of the sum, products, store."""

QUANTIZED = 12.0
"""Instructions to quantise four elements of the state, including the search for minimum and maximum."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        rows: Rows of the batch in a register tile.
        vectors: Largest number of vectors of four columns in a register tile: gates times vectors of units.
        dot: Whether products are by SDOT; else by SMULL.
    """

    rows: int
    vectors: int
    dot: bool = True

    def __post_init__(self) -> None:
        if self.dot:
            sdot_tile.check_registers(self.rows, self.vectors)
        else:
            mlal_tile.check_registers(self.rows, self.vectors * LANES)


@dataclass(frozen=True)
class _Integers:
    """A layer with an integer product with the state.

    Attributes:
        layer: The recurrent layer.
        symmetric: Whether the state is quantised per row without zero point; else per tensor with one.
        shifted: Whether weights have nine bits.
    """

    layer: Layer
    symmetric: bool
    shifted: bool

    @property
    def pitch(self) -> int:
        """Distance between quantised rows in bytes, a multiple of a vector."""
        return -(-self.layer.hidden // VECTOR) * VECTOR

    def reading(self, params: Params) -> Reading:
        """Return how the quantised rows are read."""
        unit = K_STEP if params.dot else HALF
        depth = -(-self.layer.hidden // unit) * unit
        return Reading.in_vectors(implicit_rows.linear(self.layer.batch, depth), unit)


def matches(workload: Workload, core: Core) -> Match | Diagnostic:
    """Accept recurrent layers with constant integer weights."""
    integers = _read(workload)
    if isinstance(integers, Diagnostic):
        return integers
    if not core.neon:
        return declined(NAME, "the core lacks a feature", "neon", core.name)
    layer = integers.layer
    return Match(f"int8 {layer.cell.kind.upper()} of {layer.steps} steps, {layer.batch} x {layer.hidden}")


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return every register tile that fits the layer."""
    layer = _integers(workload).layer
    dot = FEATURE in core.features
    return tuple(
        Params(rows, vectors, dot)
        for rows, vectors in (TILES if dot else WIDENED_TILES)
        if rows <= layer.batch and vectors >= layer.cell.gates
    )


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core, with weights in L2."""
    integers = _integers(workload)
    layer = integers.layer
    full, rest = divmod(layer.batch, params.rows)
    weights = len(integers.reading(params).order()) * width_of(layer, params.vectors)
    total = arithmetic(QUANTIZED * layer.batch * layer.hidden / LANES).cycles(core)
    for rows, tiles in ((params.rows, full), (rest, 1)):
        if rows and tiles:
            total += tiles * (_step_cycles(integers, rows, params, core) + again(weights, 1, weights, core))
    return total * layer.steps


def _step_cycles(integers: _Integers, rows: int, params: Params, core: Core) -> float:
    """Return the cycles of one step of a tile of rows."""
    layer, chunks, total = integers.layer, integers.reading(params).chunks(), 0.0
    activations = activation_instructions(layer.cell)
    for gates, block, _ in columns_of(layer, params.vectors):
        after = rows * block.vectors * (activations + AROUND * len(gates))
        vectors = block.vectors * len(gates)
        if params.dot:
            sums = sdot_tile.cost(rows, vectors, integers.reading(params), core, anew=False)
        else:
            sums = mlal_tile.cost(rows, vectors * LANES, chunks, CHAIN)
        total += (sums + arithmetic(after)).cycles(core)
    return total


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the weight panels, then per column weight sums, scales and any shifts, then the other constants."""
    integers = _integers(workload)
    layer, most = integers.layer, params.vectors
    r, scale = (constants[operand.index] for operand in workload.operands[1:3])
    r = r.astype(np.int32)
    shifts = shifts_of(r.T)
    columns = packed(layer, most, (r - shifts).astype(np.int8)).T
    reading = integers.reading(params)
    columns = reordered(_to_depth(columns, reading.rows.depth), reading.order())
    panels, column = [], 0
    for gates, block, _ in columns_of(layer, most):
        vectors = len(gates) * block.vectors
        own = columns[column : column + vectors * LANES]
        if params.dot:
            panels.append(sdot_tile.pack_columns(own, vectors).ravel())
        else:
            panels.append(mlal_tile.pack_columns(own, len(own), reading.chunks()).ravel())
        column += vectors * LANES
    by_column = [r.sum(0, dtype=np.int32), scale.astype(np.float32), *[shifts] * integers.shifted]
    others = (constants[operand.index] for operand in constants_of(workload, FIRST))
    return np.concatenate(panels), *(packed(layer, most, values) for values in by_column), *others


def _to_depth(columns: Array, depth: int) -> Array:
    """Pad weights [columns, k] with zeros to a depth."""
    return np.pad(columns, ((0, 0), (0, depth - columns.shape[1])))


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    integers = _integers(workload)
    width = width_of(integers.layer, params.vectors)
    by_column: list[TensorSpec] = [
        ((len(integers.reading(params).order()) * width,), "int8"),
        ((width,), "int32"),
        ((width,), "float32"),
        *[((width,), "int32")] * integers.shifted,
    ]
    arguments = arguments_of(workload, FIRST, by_column)
    with kernel_function(f"arm_{integers.layer.cell.kind}_s8", arguments) as function, pins():
        _Emitter(integers, params, *buffers_of(workload, FIRST, function.buffers)).emit()
    return function.prim_func


class _Emitter(Emitter):
    """Emits all steps of all rows."""

    def __init__(
        self,
        integers: _Integers,
        params: Params,
        buffers: Sequence[tirx.Buffer],
        by_column: Sequence[tirx.Buffer],
        output: tirx.Buffer,
    ) -> None:
        """Allocate the buffers of the quantised state.

        Args:
            integers: The layer.
            params: Parameters of the kernel.
            buffers: Flat buffers of the data, the states and the operands after them.
            by_column: Buffers of the weight panels, weight sums, scales and any shifts.
            output: Flat buffer of the output.
        """
        super().__init__(integers.layer, params.vectors, buffers, output)
        self.integers, self.params = integers, params
        self.panels, self.sums, self.scales, *self.shifts = by_column
        layer = integers.layer
        # Longer by one vector, since vectors may be read past the end of the last row.
        self.q = T.alloc_buffer((layer.batch * integers.pitch + VECTOR,), "int8", layout=None)
        self.steps_of = T.alloc_buffer((layer.batch,), "float32", layout=None)
        self.sums_of = T.alloc_buffer((layer.batch,), "int32", layout=None)
        self.zero: ir.Expr | None = None

    def emit(self) -> None:
        """Emit the initial states and the loop over the steps."""
        batch, rows = self.layer.batch, self.params.rows
        full, rest = divmod(batch, rows)
        self.begin_states(i64(0), batch)
        with self.steps():
            self.quantize()
            if full > 1:
                with T.serial(i64(0), i64(full)) as index:
                    self.step(T.Bind(index * rows), rows)
            elif full:
                self.step(i64(0), rows)
            if rest:
                self.step(i64(full * rows), rest)

    def quantize(self) -> None:
        """Emit the quantisation of the state: integers, scale of each row and, for nine-bit weights, row sums."""
        self.row = i64(0)
        if not self.integers.symmetric:
            self._uint8()
        with T.serial(i64(0), i64(self.layer.batch)) as row:
            start = T.Bind(self.state(0, row))
            if self.integers.symmetric:
                factor = self._symmetric(start, row)
                self._bytes(start, row, lambda h: fcvtas(h * factor))
            else:
                step, offset = self._step, tirx.Broadcast(self.zero, LANES)
                self._bytes(start, row, lambda h: fcvtns(h / step) + offset)
                store(self.steps_of, self._scalar_step, row, 1)
            if self.integers.shifted:
                self._sum(row)

    def _uint8(self) -> None:
        """Emit scale and zero point of the whole state; the zero point is that of integers - 128."""
        size, start = self.layer.batch * self.layer.hidden, self.state(0, 0)
        low, high = (self._end(start, size, name) for name in ("minimum", "maximum"))
        span = T.Bind(high - low)
        one = tirx.FloatImm("float32", 1.0)
        step = T.Bind(tirx.Select(span == 0, one, span / tirx.FloatImm("float32", STEPS)))
        zero = tirx.Cast("int32", tirx.nearbyint(-low / step))
        self._scalar_step, self._step = step, tirx.Broadcast(step, LANES)
        self.zero = T.Bind(zero - FLIP)

    def _symmetric(self, start: ir.Expr, row: ir.Expr) -> ir.Expr:
        """Emit the scale of a row, and return the reciprocal that its elements are multiplied by, float32x4."""
        most = self._end(start, self.layer.hidden, "maximum", absolute=True)
        most = T.Bind(tirx.Select(most == 0, tirx.FloatImm("float32", 1.0), most))
        largest = tirx.FloatImm("float32", MOST)
        store(self.steps_of, most / largest, row, 1)
        return T.Bind(tirx.Broadcast(T.Bind(largest / most), LANES))

    def _end(self, start: ir.Expr, size: int, name: str, *, absolute: bool = False) -> ir.Expr:
        """Emit the minimum or maximum of elements of the state and 0."""
        data, at = row_vectors.staged(self.output, start, size, LANES, 0.0)

        def join(a: ir.Expr, b: ir.Expr) -> ir.Expr:
            return tirx.call_llvm_pure_intrin("float32x4", f"llvm.{name}.v4f32", a, b)

        def take_in(part: ir.Expr, first: ir.Expr, _count: int) -> ir.Expr:
            value = load(data, at + first, LANES)
            return join(part, Vector(LANES).absolute(value) if absolute else value)

        found = row_vectors.reduced(size, 0.0, take_in, join)
        ends = [T.Bind(tirx.Shuffle([found], [lane])) for lane in range(LANES)]
        last = tirx.max if name == "maximum" else tirx.min
        return T.Bind(last(last(ends[0], ends[1]), last(ends[2], ends[3])))

    def _bytes(self, start: ir.Expr, row: ir.Expr, rounded: Callable[[ir.Expr], ir.Expr]) -> None:
        """Emit the int8 elements of a row, in vectors of 16, given the conversion of float32x4 to int32x4."""
        whole, rest = divmod(self.layer.hidden, VECTOR)
        to = T.Bind(row * self.integers.pitch)

        def vector(data: tirx.Buffer, at: ir.Expr, target: ir.Expr) -> None:
            words = [
                T.Bind(sqxtn16(rounded(load(data, at + LANES * i, LANES)))) for i in range(VECTOR // LANES)
            ]
            halves = [
                T.Bind(narrow8(combine(first, second), "int8"))
                for first, second in zip(words[::2], words[1::2], strict=True)
            ]
            store(self.q, combine(*halves), target, VECTOR)

        if whole:
            with T.serial(i64(0), i64(whole)) as index:
                at = T.Bind(index * VECTOR)
                vector(self.output, start + at, to + at)
        if rest:
            last = T.alloc_buffer((VECTOR,), "float32", layout=None)
            copies.fill(last, i64(0), VECTOR, 0.0)
            copies.copy(self.output, start + whole * VECTOR, last, i64(0), rest)
            vector(last, i64(0), to + whole * VECTOR)
            # Zeros after the end of the row, so that they add nothing to sums.
            copies.fill(self.q, to + self.layer.hidden, VECTOR - rest, 0)

    def _sum(self, row: ir.Expr) -> None:
        """Emit the sum of a row's int8 elements."""
        acc = T.alloc_buffer((LANES,), "int32", layout=None)
        store(acc, tirx.Broadcast(tirx.IntImm("int32", 0), LANES), i64(0), LANES)
        ones = tirx.Broadcast(tirx.IntImm("int8", 1), VECTOR)
        with T.serial(i64(0), i64(self.integers.pitch // VECTOR)) as index:
            value = load(self.q, row * self.integers.pitch + index * VECTOR, VECTOR)
            total = acc.vload([i64(0)], "int32x4")
            if self.params.dot:
                total = sdot(total, value, ones)
            else:
                for half in (low, high):
                    total = sadalp(total, smull(half(value), half(ones)))
            store(acc, total, i64(0), LANES)
        found = load(acc, i64(0), LANES)
        lanes = [tirx.Shuffle([found], [lane]) for lane in range(LANES)]
        store(self.sums_of, (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]), row, 1)

    def block(self, gates: Sequence[int], unit: ir.Expr, units: int, column: ir.Expr) -> None:
        """Emit the sums, their dequantisation, and the gates."""
        vectors = -(-units // LANES)
        sums = self.multiply(len(gates) * vectors, column)
        steps = [load(self.steps_of, self.row + r, 1) for r in range(self.rows)]

        def total(r: int, g: int, at: int, lanes: int, begin: tuple[int, ir.Expr]) -> ir.Expr:
            v, inside = divmod(at, LANES)
            here = g * vectors + v
            value = sums(r, here)
            if self.shifts:
                row_sum = load(self.sums_of, self.row + r, 1)
                value += tirx.Broadcast(row_sum, LANES) * load(self.shifts[0], column + here * LANES, LANES)
            scale = load(self.scales, column + here * LANES, LANES) * tirx.Broadcast(steps[r], LANES)
            factors = [T.Bind(tirx.Cast("float32x4", value)), T.Bind(scale)]
            if lanes == 1:
                factors = [tirx.Shuffle([each], [inside]) for each in factors]
            elif lanes < LANES:
                factors = [take(each, inside, lanes) for each in factors]
            return Vector(lanes).fma(factors[0], factors[1], self.begin(r, *begin, lanes))

        self.finish(gates, unit, units, total)

    def multiply(self, count: int, column: ir.Expr) -> Accumulator:
        """Emit the sums of `count` vectors of columns from `column`, minus the zero point's contribution."""
        reading = self.integers.reading(self.params)
        starts = [T.Bind((self.row + r) * self.integers.pitch) for r in range(self.rows)]
        panel = T.Bind(column * len(reading.order()))
        if self.params.dot:
            begin = [self.less_zero(column + LANES * v) for v in range(count)]
            acc = sdot_tile.multiply(
                self.q, starts, self.panels, panel, count, reading.chunks(), lambda _: begin
            )
            return lambda r, v: acc.vload([i64((r * count + v) * LANES)], "int32x4")
        width = count * LANES
        acc = mlal_tile.multiply(
            self.q, starts, self.panels, panel, width, reading.chunks(), CHAIN, flipped=False
        )
        # Added after the sums over k, which leave no registers for it.
        return lambda r, v: mlal_tile.sums(acc, width, r, LANES * v) + self.less_zero(column + LANES * v)

    def less_zero(self, column: ir.Expr) -> ir.Expr:
        """Return minus the zero point's contribution to the sums of four columns, int32x4."""
        if self.zero is None:
            return tirx.Broadcast(tirx.IntImm("int32", 0), LANES)
        return T.Bind(load(self.sums, column, LANES) * tirx.Broadcast(-self.zero, LANES))


def _integers(workload: Workload) -> _Integers:
    return taken(_read(workload), workload)


def _read(workload: Workload) -> _Integers | Diagnostic:
    layer = layer_of(workload, NAME, COMPOSITES, FIRST)
    if isinstance(layer, Diagnostic):
        return layer
    if len(layer.passes) > 1:
        return declined(NAME, "the reset gate comes before its product", "after", "before")
    dtype, rounding = workload.operands[1].dtype, dict(workload.attributes)["rounding"]
    if dtype not in ("int8", NINE_BITS):
        return declined(NAME, "weights have another dtype", f"int8 or {NINE_BITS}", dtype)
    return _Integers(layer, rounding == "symmetric", dtype == NINE_BITS)
