# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN in binary32 as one loop over the steps: the product with the state by FMLA, then the gates.

    y[t] = cell(x[t] + h R, states)    with x the products with the data, of all steps, computed before

The weights of a block of units, all gates side by side, are one panel, so that all that a unit needs is in registers
when its sums are done. The states are in the last rows of the output; a step writes its h beside the state that all
its blocks read, and a copy ends it. A GRU whose reset gate comes before its product takes two passes a step. Tiles of
rows of the batch walk all steps by themselves; no order of a sum depends on them, or on threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Operand, Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.fmla import LANES
from schedules.intrinsics.pin import barrier, pins
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.common import copies, threads
from schedules.kernels.common.contract import Array, Match, declined, taken
from schedules.kernels.common.cost_model import again
from schedules.kernels.epilogues import activation_f32
from schedules.kernels.tiles import fmla_tile
from schedules.numerics.recurrent import GATES, Cell
from schedules.tir.emit import i64, kernel_function, load, store, take

NAME = "recurrent_f32"

COMPOSITES = tuple(f"arm.{kind}" for kind in GATES)

TILES = (
    (1, 16),
    (1, 12),
    (1, 8),
    (1, 4),
    (2, 12),
    (2, 8),
    (3, 8),
    (3, 6),
    (4, 4),
    (5, 4),
    (7, 3),
    (6, 3),
    (4, 3),
)
"""(rows, vectors) of the register tiles worth considering."""

AROUND = 6.0
"""Instructions of a vector of one gate beside its activation: the load of what it begins with, products, a store."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        rows: Of the batch in a register tile.
        vectors: Of four columns in a register tile at most: gates times vectors of units.
        parallel: Whether tiles of rows are spread over the runtime's threads.
    """

    rows: int
    vectors: int
    parallel: bool = False

    def __post_init__(self) -> None:
        fmla_tile.check_registers(self.rows, self.vectors)


@dataclass(frozen=True)
class Layer:
    """What is computed.

    Attributes:
        cell: Each step.
        steps: How many.
        batch: Sequences.
        hidden: Units.
        lengths: Whether sequences have lengths.
    """

    cell: Cell
    steps: int
    batch: int
    hidden: int
    lengths: bool

    @property
    def passes(self) -> tuple[tuple[int, ...], ...]:
        """The gates that are summed up together, of each pass of a step."""
        gates = tuple(range(self.cell.gates))
        late = self.cell.kind == "gru" and not self.cell.linear_before_reset
        return (gates[:-1], gates[-1:]) if late else (gates,)

    def blocks(self, gates: Sequence[int], params: Params) -> tuple["Block", ...]:
        """The blocks of units of a pass: those that are whole, and the rest."""
        vectors = max(1, params.vectors // len(gates))
        whole, rest = divmod(self.hidden, vectors * LANES)
        blocks = [Block(0, whole, vectors * LANES)] * (whole > 0)
        return (*blocks, *([Block(self.hidden - rest, 1, rest)] * (rest > 0)))


@dataclass(frozen=True)
class Block:
    """Blocks of equally many units, one after the other.

    Attributes:
        first: The first unit.
        count: How many blocks.
        units: Of each.
    """

    first: int
    count: int
    units: int

    @property
    def vectors(self) -> int:
        """Vectors of a block's units."""
        return -(-self.units // LANES)


def matches(workload: Workload, core: Core) -> Match | Diagnostic:
    """Takes float32 LSTM, GRU and RNN with constant weights."""
    layer = _read(workload)
    if isinstance(layer, Diagnostic):
        return layer
    kind = layer.cell.kind.upper()
    return Match(f"float32 {kind} of {layer.steps} steps, {layer.batch} x {layer.hidden}")


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return every tile that fits; calls of several tiles that are long enough are parallel."""
    layer = _layer(workload)
    found = [
        Params(rows, vectors)
        for rows, vectors in TILES
        if rows <= layer.batch and vectors >= layer.cell.gates and fmla_tile.fits(rows, vectors, core)
    ]
    return tuple(
        replace(
            each,
            parallel=layer.batch > each.rows and estimate(workload, each, core) >= threads.PARALLEL_CYCLES,
        )
        for each in found
    )


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core, with weights in L2."""
    layer = _layer(workload)
    weights = 4 * layer.cell.gates * layer.hidden**2
    full, rest = divmod(layer.batch, params.rows)
    total = 0.0
    for rows, tiles in ((params.rows, full), (rest, 1)):
        if rows and tiles:
            total += tiles * (_step_cycles(layer, rows, params, core) + again(weights, 1, weights, core))
    return total * layer.steps


def _step_cycles(layer: Layer, rows: int, params: Params, core: Core) -> float:
    """Cycles of a step of a tile of rows."""
    total, segments = 0.0, ((0, layer.hidden),)
    activations = sum(activation_f32.INSTRUCTIONS.get(a.name, 4.0) for a in layer.cell.activations)
    activations *= layer.cell.gates / len(layer.cell.activations)
    for gates in layer.passes:
        share = len(gates) / layer.cell.gates
        for block in layer.blocks(gates, params):
            after = rows * block.vectors * (activations * share + AROUND * len(gates))
            columns = block.vectors * len(gates)
            total += block.count * fmla_tile.cycles(rows, columns, segments, after, core)
    return total


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the weights in panels, then the other constants as they are."""
    layer, weights = _layer(workload), workload.operands[1].index
    r = constants[weights].reshape(layer.hidden, layer.cell.gates, layer.hidden)
    panels = []
    for gates in layer.passes:
        for block in layer.blocks(gates, params):
            for index in range(block.count):
                first = block.first + index * block.units
                panel = np.zeros((layer.hidden, len(gates), block.vectors * LANES), np.float32)
                panel[:, :, : block.units] = r[:, list(gates), first : first + block.units]
                panels.append(panel.ravel())
    others = (constants[operand.index] for operand in _others(workload))
    return np.concatenate(panels), *others


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    layer = _layer(workload)
    size = sum(
        layer.hidden * len(gates) * block.vectors * LANES * block.count
        for gates in layer.passes
        for block in layer.blocks(gates, params)
    )
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    others = _others(workload)
    arguments += [((size,), "float32"), *((operand.shape, operand.dtype) for operand in others)]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function(f"arm_{layer.cell.kind}_f32", arguments) as function, pins():
        inputs = function.buffers[: len(workload.inputs)]
        panels, *constants, output = function.buffers[len(workload.inputs) :]
        buffers = [
            inputs[operand.index] if operand.kind == "input" else constants[others.index(operand)]
            for operand in (workload.operands[0], *workload.operands[2:])
        ]
        emitter = _Emitter(layer, params, buffers, panels, output)
        full, rest = divmod(layer.batch, params.rows)

        def tile(index: ir.Expr) -> None:
            if not rest:
                emitter.tile(T.Bind(index * params.rows), params.rows)
                return
            with T.If(index < full):
                with T.Then():
                    emitter.tile(T.Bind(index * params.rows), params.rows)
                with T.Else():
                    emitter.tile(i64(full * params.rows), rest)

        threads.each(full + (rest > 0), params.parallel, tile)
    return function.prim_func


class _Emitter:
    """Emits the steps of a tile of rows."""

    def __init__(
        self,
        layer: Layer,
        params: Params,
        buffers: Sequence[tirx.Buffer],
        panels: tirx.Buffer,
        output: tirx.Buffer,
    ) -> None:
        """An emitter.

        Args:
            layer: What is computed.
            params: How.
            buffers: The operands but the weights, flat.
            panels: The packed weights.
            output: Flat.
        """
        self.layer, self.cell, self.params = layer, layer.cell, params
        self.x, *rest = buffers
        self.first, self.rest = rest[: self.cell.states], rest[self.cell.states :]
        self.panels, self.output = panels, output
        self.row_size, self.step_size = layer.hidden, layer.batch * layer.hidden
        self.reset: list[tirx.Buffer] = []

    def tile(self, row: ir.Expr, rows: int) -> None:
        """Emit all steps of `rows` rows from `row`."""
        layer, hidden = self.layer, self.layer.hidden
        self.row, self.rows = row, rows
        for number, state in enumerate(self.first):
            start = T.Bind(row * hidden)
            copies.copy(state, start, self.output, self.state(number, 0), rows * hidden)
        if len(layer.passes) > 1:
            self.reset = [T.alloc_buffer((rows * hidden,), "float32", layout=None) for _ in range(2)]
        with T.serial(i64(0), i64(layer.steps)) as step:
            self.t = T.Bind(i64(layer.steps - 1) - step if self.cell.reverse else step)
            self.y = T.Bind(self.t * self.step_size + row * hidden)
            if layer.lengths:
                ends = (load(self.rest[-1], row + r, 1) for r in range(rows))
                self.goes_on = [T.Bind(self.t < tirx.Cast("int64", end)) for end in ends]
            panel = 0
            for gates in layer.passes:
                for block in layer.blocks(gates, self.params):
                    panel = self.blocks(gates, block, panel)
            self.end_step()

    def state(self, number: int, row: int) -> ir.Expr:
        """Offset of a row's state."""
        return i64((self.layer.steps + number) * self.step_size) + (self.row + row) * self.row_size

    def end_step(self) -> None:
        """Emit the copy of a step's output to the state, or zeros past the end of a sequence."""
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

    def blocks(self, gates: Sequence[int], block: Block, panel: int) -> int:
        """Emit the blocks of a pass whose panels begin at `panel`; returns where they end."""
        size = self.layer.hidden * len(gates) * block.vectors * LANES
        if block.count == 1:
            self.block(gates, i64(block.first), block.units, i64(panel))
        else:
            with T.serial(i64(0), i64(block.count)) as index:
                unit = T.Bind(i64(block.first) + index * block.units)
                self.block(gates, unit, block.units, T.Bind(i64(panel) + index * size))
        return panel + block.count * size

    def block(self, gates: Sequence[int], unit: ir.Expr, units: int, panel: ir.Expr) -> None:
        """Emit the sums and the gates of `units` units from `unit`."""
        hidden, vectors = self.layer.hidden, -(-units // LANES)
        columns = len(gates) * vectors
        acc = T.alloc_buffer((self.rows * columns * LANES,), "float32", layout=None)
        places = [(r, g, v) for r in range(self.rows) for g in range(len(gates)) for v in range(vectors)]
        for index, (r, g, v) in enumerate(places):
            whole = units - v * LANES >= LANES
            zero = tirx.Broadcast(tirx.FloatImm("float32", 0.0), LANES)
            value = self.begin(r, gates[g], unit + v * LANES, LANES) if whole else zero
            store(acc, value, i64(index * LANES), LANES)
        source, starts = self.output, [T.Bind(self.state(0, r)) for r in range(self.rows)]
        if gates[0]:
            source, starts = self.reset[1], [i64(r * hidden) for r in range(self.rows)]
        self.sums(fmla_tile.Tile(source, self.panels, acc, columns), starts, panel)
        for r in range(self.rows):
            for at, lanes in copies.pieces(units, LANES):
                v, inside = divmod(at, LANES)
                totals = []
                for g, gate in enumerate(gates):
                    place = i64(((r * len(gates) + g) * vectors + v) * LANES)
                    total = acc.vload([place], "float32x4")
                    if lanes < LANES:
                        total = take(total, inside, lanes) if lanes > 1 else tirx.Shuffle([total], [inside])
                        total = total + self.begin(r, gate, unit + at, lanes)
                    totals.append(T.Bind(total))
                _Gates(self, r, unit + at, lanes).emit(gates, totals)

    def sums(self, tile: fmla_tile.Tile, starts: Sequence[ir.Expr], panel: ir.Expr) -> None:
        """Emit the sums over k, four of it an iteration: the panel's pairs of vectors are within reach of one LDP.

        For cores that issue in order LLVM would unroll the loop, and load far ahead.
        """
        whole, rest = divmod(self.layer.hidden, LANES)
        if whole:
            with T.serial(i64(0), i64(whole)) as index:
                at = T.Bind(index * LANES)
                tile.vector(starts, at, T.Bind(panel + at * tile.width), range(LANES))
                barrier()
        for k in range(whole * LANES, whole * LANES + rest):
            tile.step([load(tile.a, start + k, 1) for start in starts], 0, panel + k * tile.width)

    def begin(self, row: int, gate: int, unit: ir.Expr, lanes: int) -> ir.Var:
        """What a gate's sum begins with: the data's product, or a bias where that comes later."""
        if self.cell.linear_before_reset and gate == self.cell.gates - 1:
            return load(self.rest[0], unit, lanes)
        return self.data(row, gate, unit, lanes)

    def data(self, row: int, gate: int, unit: ir.Expr, lanes: int) -> ir.Var:
        """A gate's product with the data."""
        width = self.cell.gates * self.layer.hidden
        start = (self.t * self.layer.batch + self.row + row) * width + gate * self.layer.hidden
        return load(self.x, start + unit, lanes)


class _Gates:
    """Emits the gates of one vector of units."""

    def __init__(self, emitter: _Emitter, row: int, unit: ir.Expr, lanes: int) -> None:
        """Gates of `lanes` units from `unit` of a row of the tile."""
        self.of, self.cell, self.row, self.unit, self.lanes = emitter, emitter.cell, row, unit, lanes
        self.v = Vector(lanes)

    def emit(self, gates: Sequence[int], totals: Sequence[ir.Expr]) -> None:
        """Emit the gates of a pass, of which `totals` are the sums, and store what they give."""
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
        i, o, f = (self.activated(0, total) for total in totals[:3])
        old = self.state(1)
        c = self.v.fma(f, old, T.Bind(i * self.activated(1, totals[3])))
        self.put(T.Bind(o * self.activated(2, c)))
        if self.of.layer.lengths:
            goes_on = self.of.goes_on[self.row]
            goes_on = goes_on if self.lanes == 1 else tirx.Broadcast(goes_on, self.lanes)
            c = T.Bind(tirx.Select(goes_on, c, old))
        store(self.of.output, c, self.of.state(1, self.row) + self.unit, self.lanes)

    def gru(self, z: ir.Expr, total: ir.Expr) -> None:
        """Emit h' = n + z (h - n)."""
        new = self.activated(1, total)
        self.put(self.v.fma(z, T.Bind(self.state(0) - new), new))

    def state(self, number: int) -> ir.Var:
        """The state before the step."""
        return load(self.of.output, self.of.state(number, self.row) + self.unit, self.lanes)

    def put(self, h: ir.Expr) -> None:
        """Store h of the step."""
        at = self.of.y + self.row * self.of.layer.hidden + self.unit
        store(self.of.output, h, at, self.lanes)

    def activated(self, number: int, x: ir.Expr) -> ir.Var:
        """Emit one of the cell's activations."""
        activation, limit = self.cell.activations[number], self.cell.clip
        if limit:
            x = self.v.minimum(self.v.maximum(x, -limit), limit)
        return T.Bind(_FUNCTIONS[activation.name](self.v, T.Bind(x), *activation.numbers))


def _hard_sigmoid(v: Vector, x: ir.Expr, alpha: float, beta: float) -> ir.Expr:
    return v.minimum(v.maximum(v.fma(x, v.const(alpha), v.const(beta)), 0), 1)


_FUNCTIONS: dict[str, Callable[..., ir.Expr]] = {
    "sigmoid": activation_f32.sigmoid,
    "tanh": activation_f32.tanh,
    "relu": lambda v, x: v.maximum(x, 0),
    "hard_sigmoid": _hard_sigmoid,
}


def _others(workload: Workload) -> list[Operand]:
    """The constants but the weights."""
    return [operand for operand in workload.operands[2:] if operand.kind == "constant"]


def _layer(workload: Workload) -> Layer:
    return taken(_read(workload), workload)


def _read(workload: Workload) -> Layer | Diagnostic:
    if workload.composite not in COMPOSITES:
        reason = "composite is no recurrent layer"
        return declined(NAME, reason, ", ".join(COMPOSITES), workload.composite, unfit=True)
    x, r, *rest = workload.operands
    if x.dtype != "float32":
        return declined(NAME, "data have another dtype", "float32", x.dtype, unfit=True)
    if 0 in (*x.shape, *r.shape):
        return declined(NAME, "a dimension is 0", "1 or more", str(x.shape))
    cell = Cell.of(workload.composite.removeprefix("arm."), dict(workload.attributes))
    lengths = len(rest) > cell.states + cell.linear_before_reset
    return Layer(cell, x.shape[0], x.shape[1], r.shape[0], lengths)
