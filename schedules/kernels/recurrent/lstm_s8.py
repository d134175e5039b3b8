# SPDX-License-Identifier: Apache-2.0
"""TFLite's LSTM of 8-bit data with a 16-bit cell, as one loop over the steps.

    sums     sat16(scaled(x[t])) + scaled(h R + offset)       SDOT or SMULL, SQRDMULH and a rounding shift in registers
    gates    look-ups in tables of int16, element by element
    cell, h  products of int16 in 32 bits, rounding shifts, SQXTN

See `steps`, and `schedules.numerics.recurrent_integer`. SQRDMULH computes the definition's product by a 31-bit
multiplier. Right shifts of the definition round half away from zero: SRSHR rounds half up, so that 1 is subtracted from
negative values first. Peepholes, projections and coupled gates are declined.
"""

from collections.abc import Callable, Sequence
from functools import partial

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.narrow import sqrdmulh, sqshl, sqxtn16, srshr
from schedules.intrinsics.pin import pins
from schedules.intrinsics.registers import LANES
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
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
    arguments_of,
    buffers_of,
    packed,
    width_of,
)
from schedules.numerics.recurrent import Activation, Cell
from schedules.numerics.recurrent_integer import (
    FORGET,
    FRACTION,
    INPUT,
    INT8,
    INT16,
    LOGISTIC,
    NEW,
    OUTPUT,
    TANH,
    TANH_OF_CELL,
    IntegerLstm,
    Scale,
)
from schedules.tir.emit import TensorSpec, i64, kernel_function, load, store

NAME = "lstm_s8"

COMPOSITE = "arm.lstm_s8"

FIRST = 4
"""Index of the operand that is the first state; data, weights, offsets and tables come before it."""

AROUND = 130.0
"""Instructions for four units after their sums: five look-ups for each of them, scales, products, loads and stores."""

HEADROOM = 30
"""Most bits of a sum of products: the data are added to it, and 32 bits must not overflow."""

_CELL = Cell("lstm", (Activation("sigmoid"), Activation("tanh"), Activation("tanh")))


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept LSTMs with a separate input gate, without peepholes and without projection."""
    layer = _read(workload)
    if isinstance(layer, Diagnostic):
        return layer
    if not core.neon:
        return missing_feature(NAME, "neon", core)
    return KernelMatch(f"integer LSTM of {layer.steps} steps, {layer.batch} x {layer.hidden}")


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return every register tile that fits the layer."""
    return candidates_of(_layer(workload), core)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core, with weights in L2."""
    return cycles_of(_layer(workload), params, core, lambda vectors, _: vectors * AROUND)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the weight panels, the offsets in the order of their columns, and the tables."""
    layer = _layer(workload)
    weights, offset, tables = (constants[operand.index] for operand in workload.operands[1:FIRST])
    others = (constants[o.index] for o in workload.operands[FIRST:] if o.kind == "constant")
    return panels_of(layer, params, weights), packed(layer, params.vectors, offset), tables, *others


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    layer = _layer(workload)
    width = width_of(layer, params.vectors)
    held: list[TensorSpec] = [
        ((len(reading_of(layer, params).order()) * width,), "int8"),
        ((width,), "int32"),
        (workload.operands[3].shape, "int16"),
    ]
    arguments = arguments_of(workload, FIRST, held)
    with kernel_function("arm_lstm_s8", arguments) as function, pins():
        buffers, constants, output = buffers_of(workload, FIRST, function.buffers)
        emitter = _LstmEmitter(layer, _lstm(workload), params, buffers, constants, output)
        emitter.all_steps(params.rows, emitter.narrow)
    return function.prim_func


class _LstmEmitter(StepEmitter):
    """Emits the code of all steps for all rows of the batch."""

    def __init__(
        self,
        layer: RecurrentLayer,
        lstm: IntegerLstm,
        params: Params,
        buffers: Sequence[tirx.Buffer],
        constants: Sequence[tirx.Buffer],
        output: tirx.Buffer,
    ) -> None:
        """Store the buffers, and allocate the int8 copy of the state.

        Args:
            layer: The layer.
            lstm: The LSTM cell that each step computes.
            params: Parameters of the kernel.
            buffers: Flat buffers of the data and the states.
            constants: Flat buffers of the panels, offsets and tables.
            output: Flat buffer of the output.
        """
        super().__init__(layer, params.vectors, buffers, output)
        self.lstm, self.params, self.q = lstm, params, alloc_rows(layer)
        self.panels, self.offsets, self.tables = constants

    def narrow(self) -> None:
        """Emit the int8 copy of the state, an int16 tensor whose values fit 8 bits."""
        self.row = i64(0)
        with T.serial(i64(0), i64(self.layer.batch)) as row:
            start, to = T.Bind(self.state(0, row)), T.Bind(row * pitch_of(self.layer))
            copies.copy(self.output, start, self.q, to, self.layer.hidden)

    def block(self, gates: Sequence[int], unit: ir.Expr, units: int, column: ir.Expr) -> None:
        """Emit the sums and the gates of a block of units; its last vector may have fewer units."""
        vectors, rows = -(-units // LANES), [self.row + r for r in range(self.rows)]

        def offset(v: int) -> ir.Expr:
            return load(self.offsets, column + LANES * v, LANES)

        begin = [partial(offset, v) for v in range(len(gates) * vectors)]
        sums = multiply(self.layer, self.params, (self.q, self.panels), rows, column, begin)
        for r in range(self.rows):
            for v in range(vectors):
                totals = [T.Bind(sums(r, gate * vectors + v)) for gate in range(len(gates))]
                self.units(r, unit + LANES * v, min(LANES, units - LANES * v), totals)

    def units(self, r: int, unit: ir.Expr, count: int, totals: Sequence[ir.Expr]) -> None:
        """Emit the gates, the cell and the output of up to four units from the sums of their gates."""
        lstm, cell_at = self.lstm, T.Bind(self.state(1, r) + unit)
        width = self.cell.gates * self.layer.hidden
        start = (self.t * self.layer.batch + self.row + r) * width + unit

        def gate(number: int) -> ir.Expr:
            data = _load(self.x, start + number * self.layer.hidden, count)
            # If the left shift of a product saturates 32 bits, the result saturates 16 bits in any case.
            total = _wide(sqxtn16(_scaled(data, lstm.data[number]))) + _scaled(
                totals[number], lstm.products[number]
            )
            return self.entries(TANH if number == NEW else LOGISTIC, sqxtn16(total), count)

        old = _wide(_load(self.output, cell_at, count))
        kept = _shifted(T.Bind(gate(FORGET) * old), FRACTION)
        added = _shifted(T.Bind(gate(INPUT) * gate(NEW)), lstm.added_shift)
        cell = T.Bind(sqxtn16(kept + added))
        if lstm.cell_clip:
            cell = _limited(cell, -lstm.cell_clip, lstm.cell_clip, "int16")
        _store(self.output, cell, cell_at, count)
        product = T.Bind(gate(OUTPUT) * self.entries(TANH_OF_CELL, cell, count))
        h = T.Bind(_scaled(product, lstm.hidden) + _i32(lstm.hidden_zero))
        h = sqxtn16(_limited(h, int(INT8.min), int(INT8.max), "int32"))
        _store(self.output, T.Bind(h), self.y + r * self.layer.hidden + unit, count)

    def entries(self, table: int, x: ir.Expr, count: int) -> ir.Expr:
        """Emit table look-ups of the first `count` lanes of an int16x4; return int32x4."""
        x, first = T.Bind(x), (table << 16) - int(INT16.min)

        def entry(lane: int) -> ir.Expr:
            return load(self.tables, tirx.Cast("int64", tirx.Shuffle([x], [lane])) + first, 1)

        return _wide(_vector(entry, count))


def _vector(element: Callable[[int], ir.Expr], count: int, dtype: str = "int16") -> ir.Expr:
    """Emit a vector of four from the first `count` elements, with zeros in the other lanes."""
    elements = [T.Bind(element(lane)) for lane in range(count)]
    zeros = [tirx.IntImm(dtype, 0)] * (LANES - count)
    return T.Bind(tirx.Shuffle([*elements, *zeros], list(range(LANES))))


def _load(buffer: tirx.Buffer, at: ir.Expr, count: int) -> ir.Expr:
    """Emit the load of `count` elements as a vector of four, with zeros in the other lanes."""
    if count == LANES:
        return load(buffer, at, LANES)
    return _vector(lambda lane: load(buffer, at + lane, 1), count, str(buffer.dtype))


def _store(buffer: tirx.Buffer, value: ir.Expr, at: ir.Expr, count: int) -> None:
    """Emit the store of the first `count` lanes of an int16x4."""
    if count == LANES:
        store(buffer, value, at, LANES)
        return
    for lane in range(count):
        store(buffer, tirx.Shuffle([value], [lane]), at + lane, 1)


def _i32(value: int) -> ir.Expr:
    return tirx.Broadcast(tirx.IntImm("int32", value), LANES)


def _wide(x: ir.Expr) -> ir.Expr:
    return T.Bind(tirx.Cast("int32x4", x))


def _limited(x: ir.Expr, low: int, high: int, dtype: str) -> ir.Expr:
    least, most = (tirx.Broadcast(tirx.IntImm(dtype, limit), LANES) for limit in (low, high))
    return T.Bind(tirx.max(tirx.min(x, most), least))


def _scaled(x: ir.Expr, scale: Scale) -> ir.Expr:
    """Multiply an int32x4 by a scale; a shift to the left saturates."""
    left = sqshl(x, scale.shift) if scale.shift > 0 else x
    return _shifted(T.Bind(sqrdmulh(left, _i32(scale.multiplier))), max(-scale.shift, 0))


def _shifted(x: ir.Expr, bits: int) -> ir.Expr:
    """Divide an int32x4 by 2^bits, rounding half away from zero."""
    return T.Bind(srshr(x + (x >> _i32(31)), bits)) if bits else x


def _lstm(workload: Workload) -> IntegerLstm:
    return IntegerLstm.of(dict(workload.attributes))


def _layer(workload: Workload) -> RecurrentLayer:
    return taken(_read(workload), workload)


def _read(workload: Workload) -> RecurrentLayer | Diagnostic:
    if workload.composite != COMPOSITE:
        return declined(NAME, "composite is no LSTM of integers", COMPOSITE, workload.composite, unfit=True)
    lstm, (steps, batch, width) = _lstm(workload), workload.operands[0].shape
    if lstm.peepholes or lstm.projection is not None or len(lstm.gates) != _CELL.gates:
        found = "peepholes" if lstm.peepholes else "a projection" if lstm.projection else "coupled gates"
        return declined(NAME, "the cell has a form that the kernel lacks", "four gates", found)
    if 0 in workload.operands[0].shape or not width:
        return declined(NAME, "a dimension is 0", "1 or more", str(workload.operands[0].shape))
    layer = RecurrentLayer(_CELL, steps, batch, width // _CELL.gates, lengths=False)
    # Bits of a scaled sum of (h - z) * w, with |h - z| < 2^8 and |w| <= 2^7, and of its offset.
    left = max(0, *(scale.shift for scale in lstm.products))
    bits = 15 + layer.hidden.bit_length() + left
    if bits > HEADROOM or lstm.hidden.shift > 0:
        return declined(NAME, "scaled sums may overflow", f"{HEADROOM} bits", str(bits))
    return layer
