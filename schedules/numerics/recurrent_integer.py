# SPDX-License-Identifier: Apache-2.0
"""LSTM over a sequence of 8-bit integers with a 16-bit cell state, as defined by TFLite.

    gate    logistic or tanh of  sat16(sat16(scaled(x)) + scaled(h R + offset))          3 integer bits, from tables
    cell    sat16(int16((forget * cell) >> 15) + int16((input * new) >> s))              s by the cell's power of two
    h       sat8(scaled(output * tanh(cell)) + z)

x is the product of data and weights for all steps. Each product is scaled to 16 bits separately. Each shift rounds half
away from zero. A layer without an input gate uses 1 minus the forget gate; peepholes add scaled(weight * cell) to a
gate's argument; a projection is another matrix product, scaled and saturated to 8 bits, whose result is the state h.

The result is an int16 vector: the output of each step at the index of the step, [steps, batch, outputs], then the last
output [batch, outputs] and the last cell state [batch, hidden]. Source: TensorFlow Lite, LstmStepInteger8x8_16.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.numerics.recurrent import INTEGER_LSTM, Array
from schedules.numerics.routine import Routine, routine_of_loops
from schedules.tir.emit import TensorSpec, i64

INPUT, FORGET, NEW, OUTPUT = range(4)
"""The gates, in the order of the columns."""

PEEPHOLES = (INPUT, FORGET, OUTPUT)
"""The gates that a peephole belongs to, in the order of the weights."""

LOGISTIC, TANH, TANH_OF_CELL = range(3)
"""The tables of 65,536 entries: of a gate's argument, of the new value's argument, and of the cell."""

FRACTION = 15
"""Fractional bits of the gates."""

INT16 = np.iinfo(np.int16)
INT8 = np.iinfo(np.int8)

_MULTIPLIED = 31
"""Fractional bits of a multiplier."""


@dataclass(frozen=True)
class Scale:
    """A real scale factor, multiplier / 2^31 * 2^shift.

    Attributes:
        multiplier: Multiplier of 31 bits.
        shift: Exponent of the power of two; negative for a right shift.
    """

    multiplier: int
    shift: int


@dataclass(frozen=True)
class IntegerLstm:
    """The computation of each step of an integer LSTM, by its scales and limits.

    Attributes:
        data: Scale of each gate's product of data and weights, in the order of the columns.
        products: Scale of each gate's product of state and weights.
        peepholes: Scale of each gate's cell * weight, in the order of `PEEPHOLES`; empty without peepholes.
        hidden: Scale of the output gate times tanh(cell).
        hidden_zero: Zero point of output gate * tanh(cell).
        projection: Scale of the projection; None without a projection.
        output_zero: Zero point of the output of the projection.
        cell_bits: log2 of the cell's scale.
        cell_clip: Maximum |cell|; 0 for no limit.
        output_clip: Maximum |output| of the projection; 0 for no limit.
    """

    data: tuple[Scale, ...]
    products: tuple[Scale, ...]
    hidden: Scale
    hidden_zero: int
    cell_bits: int
    peepholes: tuple[Scale, ...] = ()
    projection: Scale | None = None
    output_zero: int = 0
    cell_clip: int = 0
    output_clip: int = 0

    @property
    def gates(self) -> tuple[int, ...]:
        """The indices of the existing gates, in the order of the columns."""
        return (INPUT, FORGET, NEW, OUTPUT)[-len(self.products) :]

    @property
    def added_shift(self) -> int:
        """Right shift s that brings input gate * new value to the scale of the cell."""
        return 2 * FRACTION + self.cell_bits

    @property
    def attributes(self) -> dict[str, int | float | str]:
        """The LSTM as attributes of a routine; `of` parses them."""
        return {
            "data": _text(self.data),
            "products": _text(self.products),
            "peepholes": _text(self.peepholes),
            "hidden": _text([self.hidden]),
            "projection": _text([] if self.projection is None else [self.projection]),
            **{name: getattr(self, name) for name in _NUMBERS},
        }

    @classmethod
    def of(cls, attributes: Mapping[str, str]) -> "IntegerLstm":
        """Return the LSTM that attributes of a workload describe."""
        scales = {
            name: _scales(attributes[name])
            for name in ("data", "products", "peepholes", "hidden", "projection")
        }
        return cls(
            data=scales["data"],
            products=scales["products"],
            peepholes=scales["peepholes"],
            hidden=scales["hidden"][0],
            projection=next(iter(scales["projection"]), None),
            **{name: int(attributes[name]) for name in _NUMBERS},
        )


_NUMBERS = ("hidden_zero", "output_zero", "cell_bits", "cell_clip", "output_clip")


def _text(scales: tuple[Scale, ...] | list[Scale]) -> str:
    return " ".join(f"{scale.multiplier}:{scale.shift}" for scale in scales)


def _scales(text: str) -> tuple[Scale, ...]:
    return tuple(Scale(*map(int, one.split(":"))) for one in text.split())


@dataclass(frozen=True)
class Constants:
    """The constants of an integer LSTM layer; absent arrays are None.

    Attributes:
        weights: Weights that multiply the state, int8 [outputs, gates * hidden].
        offset: Offsets that are added to the products with the state, int32 [gates * hidden].
        tables: Tables of the gate functions, int16 [3, 65536], see `LOGISTIC`.
        peepholes: Peephole weights, int16 [3, hidden], in the order of `PEEPHOLES`.
        projection: Weights of the projection, int8 [hidden, outputs].
        projection_offset: Offsets that are added to the projection, int32 [outputs].
    """

    weights: Array
    offset: Array
    tables: Array
    peepholes: Array | None = None
    projection: Array | None = None
    projection_offset: Array | None = None

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that are not None, in the order of the routine's arguments."""
        every = (
            self.weights,
            self.offset,
            self.tables,
            self.peepholes,
            self.projection,
            self.projection_offset,
        )
        return tuple(array for array in every if array is not None)


def scaled(x: Array, scale: Scale) -> Array:
    """Multiply integers by a scale; the multiplication rounds half up, a right shift after it half away from zero."""
    y = (
        x.astype(np.int64) * (scale.multiplier << max(scale.shift, 0)) + (1 << (_MULTIPLIED - 1))
    ) >> _MULTIPLIED
    return shifted(y, max(-scale.shift, 0))


def shifted(x: Array, bits: int) -> Array:
    """Divide integers by 2^bits, rounding half away from zero."""
    x = x.astype(np.int64)
    return np.asarray((x + (1 << (bits - 1)) + (x >> 63)) >> bits if bits else x)


def sequence_of_integers(
    lstm: IntegerLstm, x: Array, constants: Constants, states: tuple[Array, Array]
) -> Array:
    """Compute an integer LSTM by the module's definition; return the int16 vector of outputs and states.

    Args:
        lstm: The LSTM that each step computes.
        x: Products of data and weights, int32 [steps, batch, gates * hidden].
        constants: Weights and tables.
        states: Initial output [batch, outputs] and cell state [batch, hidden], both int16.
    """
    h, cell = (state.astype(np.int64) for state in states)
    outputs = []
    for row in x:
        product = np.split(h @ constants.weights.astype(np.int64) + constants.offset, len(lstm.gates), -1)
        parts = zip(lstm.data, np.split(row, len(lstm.gates), -1), lstm.products, product, strict=True)
        sums = [_int16(_int16(scaled(each, own)) + scaled(total, scale)) for own, each, scale, total in parts]
        by_gate = dict(zip(lstm.gates, sums, strict=True))
        h, cell = _step(lstm, by_gate, cell, constants)
        outputs.append(h)
    return np.asarray(np.concatenate([each.ravel() for each in (*outputs, h, cell)]), np.int16)


def _step(
    lstm: IntegerLstm, sums: Mapping[int, Array], cell: Array, constants: Constants
) -> tuple[Array, Array]:
    def gate(number: int, seen: Array) -> Array:
        total = sums[number]
        if lstm.peepholes and constants.peepholes is not None and number in PEEPHOLES:
            place = PEEPHOLES.index(number)
            total = _int16(total + scaled(constants.peepholes[place] * seen, lstm.peepholes[place]))
        return _entry(constants.tables[TANH if number == NEW else LOGISTIC], total)

    forget = gate(FORGET, cell)
    taken = gate(INPUT, cell) if INPUT in sums else INT16.max - forget
    # Each summand is truncated to 16 bits, as in LiteRT.
    kept = shifted(forget * cell, FRACTION).astype(np.int16).astype(np.int64)
    added = shifted(taken * gate(NEW, cell), lstm.added_shift).astype(np.int16)
    cell = _clipped(_int16(kept + added), lstm.cell_clip)
    product = gate(OUTPUT, cell) * _entry(constants.tables[TANH_OF_CELL], cell)
    h = np.clip(scaled(product, lstm.hidden) + lstm.hidden_zero, INT8.min, INT8.max)
    if lstm.projection is not None and constants.projection is not None:
        total = h @ constants.projection.astype(np.int64) + constants.projection_offset
        y = np.clip(scaled(total, lstm.projection) + lstm.output_zero, INT8.min, INT8.max)
        h = _clipped(y, lstm.output_clip)
    return h, cell


def _int16(x: Array) -> Array:
    return np.clip(x, INT16.min, INT16.max)


def _entry(table: Array, x: Array) -> Array:
    return np.asarray(table[x - INT16.min], np.int64)


def _clipped(x: Array, limit: int) -> Array:
    return np.clip(x, -limit, limit) if limit else x


def integer_lstm_routine(lstm: IntegerLstm, sizes: tuple[int, int, int], outputs: int) -> Routine:
    """Return a routine that computes `sequence_of_integers`, as loops in the order of the definition.

    Its arguments are x, the constants in the order of `Constants`, and the states.

    Args:
        lstm: LSTM that each step computes.
        sizes: Numbers of steps, of sequences and of hidden units.
        outputs: Number of units of the output.
    """
    steps, batch, hidden = sizes
    width = len(lstm.gates) * hidden
    arguments: list[TensorSpec] = [
        ((steps, batch, width), "int32"),
        ((outputs, width), "int8"),
        ((width,), "int32"),
        ((3, 1 << 16), "int16"),
        *[((len(PEEPHOLES), hidden), "int16")] * bool(lstm.peepholes),
        *([] if lstm.projection is None else [((hidden, outputs), "int8"), ((outputs,), "int32")]),
        ((batch, outputs), "int16"),
        ((batch, hidden), "int16"),
        (((steps + 1) * batch * outputs + batch * hidden,), "int16"),
    ]
    return routine_of_loops(
        INTEGER_LSTM,
        arguments,
        lambda buffers: _IntegerSequenceEmitter(lstm, sizes, outputs, buffers).emit(),
        **lstm.attributes,
    )


def _i32(value: ir.Expr | int) -> ir.Expr:
    return tirx.IntImm("int32", value) if isinstance(value, int) else tirx.Cast("int32", value)


def _wide(value: ir.Expr) -> ir.Expr:
    return tirx.Cast("int64", value)


def _scaled(x: ir.Expr, scale: Scale) -> ir.Expr:
    """Return the TIR expression of `scaled` for an int32 value; the result is int64."""
    total = _wide(x) * i64(scale.multiplier << max(scale.shift, 0)) + i64(1 << (_MULTIPLIED - 1))
    return _shifted(total >> i64(_MULTIPLIED), max(-scale.shift, 0))


def _shifted(x: ir.Expr, bits: int) -> ir.Expr:
    """Return the TIR expression of `shifted` for an int64 value."""
    x = T.Bind(x)
    return (x + i64(1 << (bits - 1)) + (x >> i64(63))) >> i64(bits) if bits else x


def _saturated(x: ir.Expr, limits: "np.iinfo[np.int8] | np.iinfo[np.int16]") -> ir.Expr:
    return tirx.max(tirx.min(x, i64(int(limits.max))), i64(int(limits.min)))


class _IntegerSequenceEmitter:
    """Emits the loops of `sequence_of_integers` step by step; the states are stored at the end of the output."""

    def __init__(
        self, lstm: IntegerLstm, sizes: tuple[int, int, int], outputs: int, buffers: list[tirx.Buffer]
    ) -> None:
        self.lstm, self.outputs = lstm, outputs
        self.steps, self.batch, self.hidden = sizes
        self.x, self.weights, self.offset, self.tables, *rest, self.h, self.cell, self.output = buffers
        self.peepholes = rest.pop(0) if lstm.peepholes else None
        self.projection = rest
        self.sums = T.alloc_buffer((self.batch, len(lstm.gates) * self.hidden), "int32")
        self.units = T.alloc_buffer((self.batch, self.hidden), "int16")
        self.last = T.alloc_buffer((outputs,), "int32")

    def emit(self) -> None:
        """Emit the initial states and the loop over the steps."""
        for start, units, state in (
            (self.begin_h, self.outputs, self.h),
            (self.begin_cell, self.hidden, self.cell),
        ):
            with self.elements(units) as (b, u):
                T.buffer_store(self.output, state[b, u], [start + b * units + u])
        with T.serial(i64(0), i64(self.steps)) as t:
            with T.serial(i64(0), i64(self.batch)) as b:
                self.product(b)
            with self.elements(self.hidden) as (b, u):
                self.unit(t, b, u)
            with T.serial(i64(0), i64(self.batch)) as b:
                self.project(b)
            with self.elements(self.outputs) as (b, u):
                value = self.output[self.begin_h + b * self.outputs + u]
                T.buffer_store(self.output, value, [(t * self.batch + b) * self.outputs + u])

    @property
    def begin_h(self) -> ir.Expr:
        """Offset in elements of the last output in the result."""
        return i64(self.steps * self.batch * self.outputs)

    @property
    def begin_cell(self) -> ir.Expr:
        """Offset in elements of the last cell state in the result."""
        return i64((self.steps + 1) * self.batch * self.outputs)

    @contextmanager
    def elements(self, units: int) -> Iterator[tuple[ir.Expr, ir.Expr]]:
        """Open loops over sequences and `units` units; yield (sequence, unit)."""
        with T.serial(i64(0), i64(self.batch)) as b, T.serial(i64(0), i64(units)) as u:
            yield b, u

    def product(self, b: ir.Expr) -> None:
        """Emit the products of one sequence's state and the weights."""
        width = len(self.lstm.gates) * self.hidden

        def value(k: ir.Expr) -> ir.Expr:
            return self.output[self.begin_h + b * self.outputs + k]

        self._accumulate(
            (self.outputs, width), value, self.weights, self.offset, lambda n: (self.sums, [b, n])
        )

    def _accumulate(
        self,
        sizes: tuple[int, int],
        value: Callable[[ir.Expr], ir.Expr],
        weights: tirx.Buffer,
        offset: tirx.Buffer,
        to: Callable[[ir.Expr], tuple[tirx.Buffer, list[ir.Expr]]],
    ) -> None:
        """Emit a vector times a matrix of `sizes`, plus an offset; the loop over columns is innermost (vectors)."""
        depth, columns = sizes
        with T.serial(i64(0), i64(columns)) as n:
            buffer, at = to(n)
            T.buffer_store(buffer, offset[n], at)
        with T.serial(i64(0), i64(depth)) as k:
            factor = T.Bind(_i32(value(k)))
            with T.serial(i64(0), i64(columns)) as n:
                buffer, at = to(n)
                T.buffer_store(buffer, buffer[tuple(at)] + factor * _i32(weights[k, n]), at)

    def unit(self, t: ir.Expr, b: ir.Expr, u: ir.Expr) -> None:
        """Emit the gates, the cell state and the output (before a projection) of one unit."""
        lstm = self.lstm
        at_cell = [self.begin_cell + b * self.hidden + u]
        old = T.Bind(_i32(self.output[at_cell[0]]))

        def gate(number: int, cell: ir.Expr) -> ir.Expr:
            return self.gate(t, b, u, number, cell)

        forget = gate(FORGET, old)
        taken = gate(INPUT, old) if INPUT in lstm.gates else _i32(int(INT16.max)) - forget
        kept = _shifted(_wide(forget * old), FRACTION)
        added = _shifted(_wide(taken * gate(NEW, old)), lstm.added_shift)
        # Each summand is truncated to 16 bits, as in LiteRT.
        both = (_wide(tirx.Cast("int16", T.Bind(part))) for part in (kept, added))
        cell = _saturated(sum(both, i64(0)), INT16)
        if lstm.cell_clip:
            cell = tirx.max(tirx.min(cell, i64(lstm.cell_clip)), i64(-lstm.cell_clip))
        new = T.Bind(_i32(cell))
        T.buffer_store(self.output, tirx.Cast("int16", new), at_cell)
        product = gate(OUTPUT, new) * self.entry(TANH_OF_CELL, new)
        h = _saturated(_scaled(product, lstm.hidden) + i64(lstm.hidden_zero), INT8)
        T.buffer_store(self.units, tirx.Cast("int16", h), [b, u])

    def gate(self, t: ir.Expr, b: ir.Expr, u: ir.Expr, number: int, cell: ir.Expr) -> ir.Expr:
        """Emit a gate of one unit, int32; `cell` is the cell state that a peephole weight multiplies."""
        lstm, place = self.lstm, self.lstm.gates.index(number)
        column = i64(place * self.hidden) + u
        data = _saturated(_scaled(self.x[t, b, column], lstm.data[place]), INT16)
        total = data + _scaled(self.sums[b, column], lstm.products[place])
        total = _saturated(total, INT16)
        if self.peepholes is not None and number in PEEPHOLES:
            place = PEEPHOLES.index(number)
            seen = _scaled(_i32(self.peepholes[i64(place), u]) * cell, lstm.peepholes[place])
            total = _saturated(total + seen, INT16)
        return self.entry(TANH if number == NEW else LOGISTIC, T.Bind(_i32(total)))

    def entry(self, table: int, x: ir.Expr) -> ir.Expr:
        """Emit a table look-up for an int32 value; the result is int32."""
        return T.Bind(_i32(self.tables[i64(table), _wide(x) - i64(int(INT16.min))]))

    def project(self, b: ir.Expr) -> None:
        """Emit the projection of one sequence's units: its output, which is the state of the next step."""
        lstm, base = self.lstm, self.begin_h + b * self.outputs
        if lstm.projection is None:
            with T.serial(i64(0), i64(self.outputs)) as u:
                T.buffer_store(self.output, self.units[b, u], [base + u])
            return
        weights, offset = self.projection
        self._accumulate(
            (self.hidden, self.outputs),
            lambda k: self.units[b, k],
            weights,
            offset,
            lambda n: (self.last, [n]),
        )
        with T.serial(i64(0), i64(self.outputs)) as u:
            y = _saturated(_scaled(self.last[u], lstm.projection) + i64(lstm.output_zero), INT8)
            if lstm.output_clip:
                y = tirx.max(tirx.min(y, i64(lstm.output_clip)), i64(-lstm.output_clip))
            T.buffer_store(self.output, tirx.Cast("int16", y), [base + u])
