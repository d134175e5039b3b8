# SPDX-License-Identifier: Apache-2.0
"""Common parts of the kernels of recurrent layers: blocks of units, the loop over the steps, states, and gates.

The weights of a block of units, with all gates side by side, form one panel, so that the sums of all gates of a unit
are in registers when its gates are computed. The states are stored in the last rows of the output. All blocks of a
step read the state h; so the new h is written to a different row first, and copied to the state at the end of the step.
A GRU whose reset gate comes before its product takes two passes per step.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Operand, Workload
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, declined
from schedules.kernels.epilogues import activation_f32
from schedules.numerics.recurrent import Cell
from schedules.tir.emit import TensorSpec, i64, load, store

Total = Callable[[int, int, int, int, tuple[int, ir.Expr]], ir.Expr]
"""Function that emits the sum of a gate for `lanes` units.

Its arguments are the row of the tile, the index of the gate in its pass, the first unit relative to the block, the
number of lanes, and (gate, unit) of the start value.
"""


@dataclass(frozen=True)
class RecurrentLayer:
    """A recurrent layer: its cell and sizes.

    Attributes:
        cell: Cell that each step computes.
        steps: Number of steps.
        batch: Number of sequences.
        hidden: Number of units.
        lengths: Whether each sequence of the batch has a length, an operand.
    """

    cell: Cell
    steps: int
    batch: int
    hidden: int
    lengths: bool

    @property
    def step_size(self) -> int:
        """Number of elements of a state."""
        return self.batch * self.hidden

    @property
    def passes(self) -> tuple[tuple[int, ...], ...]:
        """The gates whose sums each pass of a step computes."""
        gates = tuple(range(self.cell.gates))
        late = self.cell.kind == "gru" and not self.cell.linear_before_reset
        return (gates[:-1], gates[-1:]) if late else (gates,)

    def blocks(self, gates: Sequence[int], most: int) -> tuple["UnitBlocks", ...]:
        """Return the blocks of units of a pass: the full blocks, then a block of the remaining units.

        Args:
            gates: The gates of the pass.
            most: Maximum number of vectors of columns in a block: gates times vectors of units.
        """
        vectors = max(1, most // len(gates))
        whole, rest = divmod(self.hidden, vectors * LANES)
        blocks = [UnitBlocks(0, whole, vectors * LANES)] * (whole > 0)
        return (*blocks, *([UnitBlocks(self.hidden - rest, 1, rest)] * (rest > 0)))


@dataclass(frozen=True)
class UnitBlocks:
    """Consecutive blocks with equal numbers of units.

    Attributes:
        first: Index of the first unit.
        count: Number of blocks.
        units: Number of units per block.
    """

    first: int
    count: int
    units: int

    @property
    def vectors(self) -> int:
        """Number of vectors per block and gate."""
        return -(-self.units // LANES)


def columns_of(layer: RecurrentLayer, most: int) -> list[tuple[Sequence[int], UnitBlocks, int]]:
    """Return (gates of the pass, blocks, first unit) of each panel, in the order of panels."""
    return [
        (gates, block, block.first + index * block.units)
        for gates in layer.passes
        for block in layer.blocks(gates, most)
        for index in range(block.count)
    ]


def packed(layer: RecurrentLayer, most: int, columns: Array) -> Array:
    """Reorder one value per column from gate-major order to the order of panels, padding vectors with zeros.

    Args:
        layer: The layer.
        most: Maximum number of vectors of columns in a block, as for `RecurrentLayer.blocks`.
        columns: Values, [..., gates * hidden].
    """
    lead = columns.shape[:-1]
    by_gate, panels = columns.reshape(*lead, layer.cell.gates, layer.hidden), []
    for gates, block, first in columns_of(layer, most):
        panel = np.zeros((*lead, len(gates), block.vectors * LANES), columns.dtype)
        panel[..., : block.units] = by_gate[..., list(gates), first : first + block.units]
        panels.append(panel.reshape(*lead, -1))
    return np.concatenate(panels, -1)


def width_of(layer: RecurrentLayer, most: int) -> int:
    """Return the number of columns in all panels, padding included."""
    return sum(len(gates) * block.vectors * LANES for gates, block, _ in columns_of(layer, most))


def layer_of(
    workload: Workload, name: str, composites: Sequence[str], first: int
) -> RecurrentLayer | Diagnostic:
    """Parse a workload as a recurrent layer.

    Args:
        workload: Any workload.
        name: Name of the kernel, for the rejection.
        composites: Composites that the kernel supports.
        first: Index of the operand that is the first state.
    """
    if workload.composite not in composites:
        reason = "composite is no recurrent layer of this kind"
        return declined(name, reason, ", ".join(composites), workload.composite, unfit=True)
    x, r, *_ = workload.operands
    if x.dtype != "float32":
        return declined(name, "data's dtype is not supported", "float32", x.dtype, unfit=True)
    if 0 in (*x.shape, *r.shape):
        return declined(name, "a dimension is 0", "1 or more", str(x.shape))
    kind = workload.composite.removeprefix("arm.").removesuffix("_dynamic")
    cell = Cell.of(kind, dict(workload.attributes))
    lengths = len(workload.operands) - first > cell.states + cell.linear_before_reset + cell.peepholes
    return RecurrentLayer(cell, x.shape[0], x.shape[1], r.shape[0], lengths)


def constants_of(workload: Workload, first: int) -> list[Operand]:
    """Return the constants among the operands from index `first` on, which kernels read without packing."""
    return [operand for operand in workload.operands[first:] if operand.kind == "constant"]


def arguments_of(workload: Workload, first: int, packed: Sequence[TensorSpec]) -> list[TensorSpec]:
    """Return (shape, dtype) of a kernel's arguments: inputs, packed weights, other constants, output.

    Args:
        workload: Workload that the kernel computes.
        first: The operand that is the first state.
        packed: Shape and dtype of each packed constant.
    """
    operands = (*workload.inputs, *constants_of(workload, first))
    arguments = [(operand.shape, operand.dtype) for operand in operands]
    arguments[len(workload.inputs) : len(workload.inputs)] = packed
    return [*arguments, (workload.output_shape, workload.output_dtype)]


def buffers_of(
    workload: Workload, first: int, arguments: Sequence[tirx.Buffer]
) -> tuple[list[tirx.Buffer], list[tirx.Buffer], tirx.Buffer]:
    """Return three items: the buffers of data and operands from index `first` on, of packed weights, of the output.

    Args:
        workload: Workload that the kernel computes.
        first: The operand that is the first state.
        arguments: The buffers of the arguments that `arguments_of` lists.
    """
    constants = constants_of(workload, first)
    inputs, (*held, output) = arguments[: len(workload.inputs)], arguments[len(workload.inputs) :]
    packed, others = held[: len(held) - len(constants)], held[len(held) - len(constants) :]
    buffers = [
        inputs[operand.index] if operand.kind == "input" else others[constants.index(operand)]
        for operand in (workload.operands[0], *workload.operands[first:])
    ]
    return buffers, packed, output


def activation_instructions(cell: Cell) -> float:
    """Return the instructions of the activations of all gates per vector of units, by the mean of the functions."""
    total = sum(activation_f32.INSTRUCTIONS.get(each.name, 4.0) for each in cell.activations)
    return total * cell.gates / len(cell.activations)


class StepEmitter(ABC):
    """Base class of the emitters of recurrent layers: states, loop over steps and gates; subclasses emit the sums."""

    def __init__(
        self, layer: RecurrentLayer, most: int, buffers: Sequence[tirx.Buffer], output: tirx.Buffer
    ) -> None:
        """Store the layer and its buffers.

        Args:
            layer: The layer.
            most: Maximum number of vectors of columns in a block, as for `RecurrentLayer.blocks`.
            buffers: Flat buffers of the data, the states and the operands after them.
            output: Flat buffer of the output.
        """
        self.layer, self.cell, self.most = layer, layer.cell, most
        self.x, *rest = buffers
        self.first, self.rest = rest[: self.cell.states], rest[self.cell.states :]
        self.output = output
        self.reset: list[tirx.Buffer] = []

    def begin_states(self, row: ir.Expr, rows: int) -> None:
        """Emit copies of the initial states of the `rows` rows from row `row` on."""
        self.row = row
        start = T.Bind(row * self.layer.hidden)
        for number, state in enumerate(self.first):
            copies.copy(state, start, self.output, self.state(number, 0), rows * self.layer.hidden)

    @contextmanager
    def steps(self) -> Iterator[None]:
        """Open the loop over the steps."""
        layer = self.layer
        with T.serial(i64(0), i64(layer.steps)) as step:
            self.t = T.Bind(i64(layer.steps - 1) - step if self.cell.reverse else step)
            yield

    def all_steps(self, rows: int, begin: Callable[[], None]) -> None:
        """Emit the initial states and the loop over the steps.

        Args:
            rows: Rows of a tile.
            begin: Emits the code at the start of each step that uses the state of all rows.
        """
        full, rest = divmod(self.layer.batch, rows)
        self.begin_states(i64(0), self.layer.batch)
        with self.steps():
            begin()
            if full > 1:
                with T.serial(i64(0), i64(full)) as index:
                    self.step(T.Bind(index * rows), rows)
            elif full:
                self.step(i64(0), rows)
            if rest:
                self.step(i64(full * rows), rest)

    def step(self, row: ir.Expr, rows: int) -> None:
        """Emit one step for the `rows` rows from row `row` on."""
        layer = self.layer
        self.row, self.rows = row, rows
        self.y = T.Bind(self.t * layer.step_size + row * layer.hidden)
        if layer.lengths:
            ends = (load(self.rest[-1], row + r, 1) for r in range(rows))
            self.goes_on = [T.Bind(self.t < tirx.Cast("int64", end)) for end in ends]
        column = 0
        for gates in layer.passes:
            for block in layer.blocks(gates, self.most):
                column = self.blocks(gates, block, column)
        self.end_step()

    def state(self, number: int, row: int) -> ir.Expr:
        """Return the offset in the output of row `row` of state `number`."""
        layer = self.layer
        return i64((layer.steps + number) * layer.step_size) + (self.row + row) * layer.hidden

    def end_step(self) -> None:
        """Emit the copy of a step's output to the state; past the end of a sequence, emit zeros as output instead."""
        hidden = self.layer.hidden
        if not self.layer.lengths:
            copies.copy(self.output, self.y, self.output, self.state(0, 0), self.rows * hidden)
            return
        for r in range(self.rows):
            with T.If(self.goes_on[r]):
                with T.Then():
                    copies.copy(self.output, self.y + r * hidden, self.output, self.state(0, r), hidden)
                with T.Else():
                    copies.fill(self.output, self.y + r * hidden, hidden, 0.0)

    def blocks(self, gates: Sequence[int], block: UnitBlocks, column: int) -> int:
        """Emit the blocks of a pass whose columns start at `column`; return the index after their last column."""
        size = len(gates) * block.vectors * LANES
        if block.count == 1:
            self.block(gates, i64(block.first), block.units, i64(column))
        else:
            with T.serial(i64(0), i64(block.count)) as index:
                unit = T.Bind(i64(block.first) + index * block.units)
                self.block(gates, unit, block.units, T.Bind(i64(column) + index * size))
        return column + block.count * size

    @abstractmethod
    def block(self, gates: Sequence[int], unit: ir.Expr, units: int, column: ir.Expr) -> None:
        """Emit the sums and the gates of the `units` units from unit `unit` on; their columns start at `column`."""

    def finish(self, gates: Sequence[int], unit: ir.Expr, units: int, total: Total) -> None:
        """Emit the gates of the `units` units from unit `unit` on; `total` emits their sums."""
        for r in range(self.rows):
            for at, lanes in copies.pieces(units, LANES):
                begins = [(gate, unit + at) for gate in gates]
                totals = [T.Bind(total(r, g, at, lanes, begin)) for g, begin in enumerate(begins)]
                _Gates(self, r, unit + at, lanes).emit(gates, totals)

    def begin(self, row: int, gate: int, unit: ir.Expr, lanes: int) -> ir.Var:
        """Return the initial value of a gate's sum: the product of data and weights, or a late bias."""
        if self.cell.linear_before_reset and gate == self.cell.gates - 1:
            return load(self.rest[0], unit, lanes)
        return self.data(row, gate, unit, lanes)

    def data(self, row: int, gate: int, unit: ir.Expr, lanes: int) -> ir.Var:
        """Return a gate's product of data and weights, which was computed before the loop."""
        width = self.cell.gates * self.layer.hidden
        start = (self.t * self.layer.batch + self.row + row) * width + gate * self.layer.hidden
        return load(self.x, start + unit, lanes)


class _Gates:
    """Emits the gates of one vector of units."""

    def __init__(self, emitter: StepEmitter, row: int, unit: ir.Expr, lanes: int) -> None:
        """Store the row of the tile and its `lanes` units from unit `unit` on."""
        self.of, self.cell, self.row, self.unit, self.lanes = emitter, emitter.cell, row, unit, lanes
        self.v = Vector(lanes)

    def emit(self, gates: Sequence[int], totals: Sequence[ir.Expr]) -> None:
        """Emit the gates of a pass from their sums `totals`, and the stores of the results."""
        if self.cell.kind == "lstm":
            self.lstm(totals)
        elif self.cell.kind == "rnn":
            self.put(self.activated(0, totals[0]))
        elif self.cell.linear_before_reset:
            z, r, product = self.activated(0, totals[0]), self.activated(0, totals[1]), totals[2]
            data = self.of.data(self.row, gates[2], self.unit, self.lanes)
            self.gru(z, self.v.fma(r, product, data))
        elif len(gates) > 1:
            at = i64(self.row * self.of.layer.hidden) + self.unit
            store(self.of.reset[0], self.activated(0, totals[0]), at, self.lanes)
            h = self.state(0)
            store(self.of.reset[1], self.activated(0, totals[1]) * h, at, self.lanes)
        else:
            at = i64(self.row * self.of.layer.hidden) + self.unit
            self.gru(load(self.of.reset[0], at, self.lanes), totals[0])

    def lstm(self, totals: Sequence[ir.Expr]) -> None:
        """Emit c' = f c + i g and h' = o u(c')."""
        old = self.state(1)
        if self.cell.peepholes:  # with a peephole, the output gate reads the new cell
            i, f = (self.activated(0, self.seeing(totals[gate], gate, old)) for gate in (0, 2))
        else:
            i, o, f = (self.activated(0, total) for total in totals[:3])
        if self.cell.coupled:
            f = T.Bind(self.v.const(1) - i)
        c = self.v.fma(f, old, T.Bind(i * self.activated(1, totals[3])))
        if self.cell.peepholes:
            o = self.activated(0, self.seeing(totals[1], 1, c))
        self.put(T.Bind(o * self.activated(2, c)))
        if self.of.layer.lengths:
            goes_on = self.of.goes_on[self.row]
            goes_on = goes_on if self.lanes == 1 else tirx.Broadcast(goes_on, self.lanes)
            c = T.Bind(tirx.Select(goes_on, c, old))
        store(self.of.output, c, self.of.state(1, self.row) + self.unit, self.lanes)

    def seeing(self, total: ir.Expr, gate: int, cell: ir.Expr) -> ir.Var:
        """Return a gate's sum plus cell * peephole weight, if there are peepholes."""
        at = i64(gate * self.of.layer.hidden) + self.unit
        return self.v.fma(load(self.of.rest[0], at, self.lanes), cell, total)

    def gru(self, z: ir.Expr, total: ir.Expr) -> None:
        """Emit h' = n + z (h - n)."""
        new = self.activated(1, total)
        self.put(self.v.fma(z, T.Bind(self.state(0) - new), new))

    def state(self, number: int) -> ir.Var:
        """Return the vector of state `number` before the step."""
        return load(self.of.output, self.of.state(number, self.row) + self.unit, self.lanes)

    def put(self, h: ir.Expr) -> None:
        """Emit the store of h of the step."""
        at = self.of.y + self.row * self.of.layer.hidden + self.unit
        store(self.of.output, h, at, self.lanes)

    def activated(self, number: int, x: ir.Expr) -> ir.Var:
        """Emit the cell's activation `number` of x."""
        activation, limit = self.cell.activations[number], self.cell.clip
        if limit:
            x = self.v.minimum(self.v.maximum(x, -limit), limit)
        return T.Bind(_FUNCTIONS[activation.name](self.v, T.Bind(x), *activation.numbers))


def _hard_sigmoid(v: Vector, x: ir.Expr, alpha: float, beta: float) -> ir.Expr:
    return v.minimum(v.maximum(v.fma(x, v.const(alpha), v.const(beta)), 0), 1)


def _leaky_relu(v: Vector, x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x < v.const(0), x * v.const(alpha), x)


def _elu(v: Vector, x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x < v.const(0), v.const(alpha) * activation_f32.expm1_below_0(v, x), x)


def _thresholded_relu(v: Vector, x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x > v.const(alpha), x, v.const(0))


_FUNCTIONS: dict[str, Callable[..., ir.Expr]] = {
    "sigmoid": activation_f32.sigmoid,
    "tanh": activation_f32.tanh,
    "relu": lambda v, x: v.maximum(x, 0),
    "hard_sigmoid": _hard_sigmoid,
    "leaky_relu": _leaky_relu,
    "thresholded_relu": _thresholded_relu,
    "softsign": lambda v, x: x / (v.const(1) + v.absolute(x)),
    "elu": _elu,
    "affine": lambda v, x, alpha, beta: v.fma(x, v.const(alpha), v.const(beta)),
    "scaled_tanh": lambda v, x, alpha, beta: (
        v.const(alpha) * activation_f32.tanh(v, T.Bind(x * v.const(beta)))
    ),
    "softplus": activation_f32.softplus,
}
