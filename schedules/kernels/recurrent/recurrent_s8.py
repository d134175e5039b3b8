# SPDX-License-Identifier: Apache-2.0
"""LSTM, RNN and GRU whose state is quantised to 8 bits and multiplied by integers, as one loop over the steps.

    y[t] = cell(x[t] + float(sum over k of (q[k] - z) R[k, n]) * (s scale[n]), states)     q, s, z: h quantised at t

See `steps`, and `schedules.numerics.recurrent_dynamic`. Each step first quantises all rows of the state to int8, which
SDOT (or SMULL on cores without it) multiplies; the zero points' contribution is added to the sums. Nine-bit weights are
int8 plus one shift per column, which is multiplied by the sum of the row. A GRU whose reset gate comes before its
product would quantise twice per step, and is declined.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.narrow import fcvtas, fcvtns, narrow8, sqxtn16
from schedules.intrinsics.pin import pins
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.intrinsics.sdot import sdot
from schedules.intrinsics.smull import sadalp, smull
from schedules.intrinsics.vector import combine, high, low
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.common.cost_model import arithmetic
from schedules.kernels.gemm.product_s8 import FLIP, NINE_BITS, shifts_of
from schedules.kernels.recurrent.products_s8 import (
    Params as Params,
)
from schedules.kernels.recurrent.products_s8 import (
    alloc_rows,
    candidates_of,
    cycles_of,
    multiply,
    panels_of,
    pitch_of,
    reading_of,
)
from schedules.kernels.recurrent.steps import (
    RecurrentLayer,
    StepEmitter,
    activation_instructions,
    arguments_of,
    buffers_of,
    constants_of,
    layer_of,
    packed,
    width_of,
)
from schedules.kernels.rowwise import row_vectors
from schedules.kernels.tiles.tile_stores import Accumulator
from schedules.numerics.recurrent import GATES
from schedules.numerics.recurrent_dynamic import MOST, STEPS
from schedules.tir.emit import TensorSpec, i64, kernel_function, load, store, take

NAME = "recurrent_s8"

COMPOSITES = tuple(f"arm.{kind}_dynamic" for kind in GATES)

FIRST = 3
"""The operand that is the first state: data, weights and their scales come before it."""

AROUND = 9.0
"""Instructions per vector of a gate besides its activation: loads, conversion of the sum, products, store."""

QUANTIZED = 12.0
"""Instructions to quantise four elements of the state, including the search for minimum and maximum."""


@dataclass(frozen=True)
class _Integers:
    """A recurrent layer whose quantised state is multiplied by integer weights.

    Attributes:
        layer: The recurrent layer.
        symmetric: Whether the state is quantised per row without zero point; else per tensor with a zero point.
        shifted: Whether weights have nine bits.
    """

    layer: RecurrentLayer
    symmetric: bool
    shifted: bool


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept recurrent layers with constant integer weights."""
    integers = _read(workload)
    if isinstance(integers, Diagnostic):
        return integers
    if not core.neon:
        return missing_feature(NAME, "neon", core)
    layer = integers.layer
    return KernelMatch(
        f"int8 {layer.cell.kind.upper()} of {layer.steps} steps, {layer.batch} x {layer.hidden}"
    )


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return every register tile that fits the layer."""
    return candidates_of(_integers(workload).layer, core)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core, with weights in L2."""
    layer = _integers(workload).layer
    activations = activation_instructions(layer.cell)
    quantized = arithmetic(QUANTIZED * layer.batch * layer.hidden / LANES).cycles(core)
    return quantized * layer.steps + cycles_of(
        layer, params, core, lambda vectors, gates: vectors * (activations + AROUND * gates)
    )


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return weight panels, weight sums, scales, shifts (nine-bit weights only), then the other constants."""
    integers = _integers(workload)
    layer, most = integers.layer, params.vectors
    r, scale = (constants[operand.index] for operand in workload.operands[1:3])
    r = r.astype(np.int32)
    shifts = shifts_of(r.T)
    by_column = [r.sum(0, dtype=np.int32), scale.astype(np.float32), *[shifts] * integers.shifted]
    others = (constants[operand.index] for operand in constants_of(workload, FIRST))
    panels = panels_of(layer, params, (r - shifts).astype(np.int8))
    return panels, *(packed(layer, most, values) for values in by_column), *others


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    integers = _integers(workload)
    width = width_of(integers.layer, params.vectors)
    by_column: list[TensorSpec] = [
        ((len(reading_of(integers.layer, params).order()) * width,), "int8"),
        ((width,), "int32"),
        ((width,), "float32"),
        *[((width,), "int32")] * integers.shifted,
    ]
    arguments = arguments_of(workload, FIRST, by_column)
    with kernel_function(f"arm_{integers.layer.cell.kind}_s8", arguments) as function, pins():
        emitter = _Int8StepEmitter(integers, params, *buffers_of(workload, FIRST, function.buffers))
        emitter.all_steps(params.rows, emitter.quantize)
    return function.prim_func


class _Int8StepEmitter(StepEmitter):
    """Emits the code of all steps for all rows of the batch, with a quantised state."""

    def __init__(
        self,
        integers: _Integers,
        params: Params,
        buffers: Sequence[tirx.Buffer],
        by_column: Sequence[tirx.Buffer],
        output: tirx.Buffer,
    ) -> None:
        """Store the buffers, and allocate those of the quantised state.

        Args:
            integers: The layer.
            params: Parameters of the kernel.
            buffers: Flat buffers of the data, the states and the operands after them.
            by_column: Buffers of the weight panels, weight sums, scales and, for nine-bit weights, shifts.
            output: Flat buffer of the output.
        """
        super().__init__(integers.layer, params.vectors, buffers, output)
        self.integers, self.params = integers, params
        self.panels, self.sums, self.scales, *self.shifts = by_column
        layer = integers.layer
        self.q, self.pitch = alloc_rows(layer), pitch_of(layer)
        self.steps_of = T.alloc_buffer((layer.batch,), "float32", layout=None)
        self.sums_of = T.alloc_buffer((layer.batch,), "int32", layout=None)
        self.zero: ir.Expr | None = None

    def quantize(self) -> None:
        """Emit the quantisation of the state: int8 values, scales of rows and, for nine-bit weights, sums of rows."""
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
        """Emit scale and zero point of the whole state; 128 is subtracted from uint8 values and zero point."""
        size, start = self.layer.batch * self.layer.hidden, self.state(0, 0)
        low, high = (self._end(start, size, name) for name in ("minimum", "maximum"))
        span = T.Bind(high - low)
        one = tirx.FloatImm("float32", 1.0)
        step = T.Bind(tirx.Select(span == 0, one, span / tirx.FloatImm("float32", STEPS)))
        zero = tirx.Cast("int32", tirx.nearbyint(-low / step))
        self._scalar_step, self._step = step, tirx.Broadcast(step, LANES)
        self.zero = T.Bind(zero - FLIP)

    def _symmetric(self, start: ir.Expr, row: ir.Expr) -> ir.Expr:
        """Emit the scale of a row; return its reciprocal, by which the elements are multiplied, float32x4."""
        most = self._end(start, self.layer.hidden, "maximum", absolute=True)
        most = T.Bind(tirx.Select(most == 0, tirx.FloatImm("float32", 1.0), most))
        largest = tirx.FloatImm("float32", MOST)
        store(self.steps_of, most / largest, row, 1)
        return T.Bind(tirx.Broadcast(T.Bind(largest / most), LANES))

    def _end(self, start: ir.Expr, size: int, name: str, *, absolute: bool = False) -> ir.Expr:
        """Emit the minimum or maximum of 0 and the elements of a range of the state."""
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
        """Emit the int8 elements of a row, 16 per vector; `rounded` converts float32x4 to int32x4."""
        whole, rest = divmod(self.layer.hidden, VECTOR)
        to = T.Bind(row * self.pitch)

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
            # Write zeros after the end of the row, so that sums over whole vectors are those of the row.
            copies.fill(self.q, to + self.layer.hidden, VECTOR - rest, 0)

    def _sum(self, row: ir.Expr) -> None:
        """Emit the sum of a row's int8 elements."""
        acc = T.alloc_buffer((LANES,), "int32", layout=None)
        store(acc, tirx.Broadcast(tirx.IntImm("int32", 0), LANES), i64(0), LANES)
        ones = tirx.Broadcast(tirx.IntImm("int8", 1), VECTOR)
        with T.serial(i64(0), i64(self.pitch // VECTOR)) as index:
            value = load(self.q, row * self.pitch + index * VECTOR, VECTOR)
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
        """Emit the sums of a block of units, their dequantisation, and the gates."""
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
        """Emit the sums of `count` vectors of columns from `column` on, minus the zero point's contribution."""
        rows = [self.row + r for r in range(self.rows)]
        begin = [partial(self.less_zero, column + LANES * v) for v in range(count)]
        return multiply(self.layer, self.params, (self.q, self.panels), rows, column, begin)

    def less_zero(self, column: ir.Expr) -> ir.Expr:
        """Return -zero point * weight sums for four columns, int32x4; zeros without a zero point."""
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
        return declined(NAME, "weights' dtype is not supported", f"int8 or {NINE_BITS}", dtype)
    return _Integers(layer, rounding == "symmetric", dtype == NINE_BITS)
