# SPDX-License-Identifier: Apache-2.0
"""float32 LSTM, GRU and RNN as one loop over the steps: the product of state and weights by FMLA, then the gates.

    y[t] = cell(x[t] + h R, states)    where x is the product with the data, computed before for all steps

See `steps`. Each tile of batch rows runs through all steps independently; the order of sums depends neither on the
tiling nor on threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.pin import barrier, pins
from schedules.intrinsics.registers import LANES
from schedules.kernels.common import threads
from schedules.kernels.common.contract import Array, KernelMatch, taken
from schedules.kernels.common.cost_model import rereading_cycles, scalar
from schedules.kernels.recurrent.steps import (
    RecurrentLayer,
    StepEmitter,
    activation_instructions,
    arguments_of,
    buffers_of,
    columns_of,
    constants_of,
    layer_of,
    packed,
    width_of,
)
from schedules.kernels.tiles import fmla_tile
from schedules.numerics.recurrent import GATES
from schedules.tir.emit import i64, kernel_function, load, store, take

NAME = "recurrent_f32"

COMPOSITES = tuple(f"arm.{kind}" for kind in GATES)

FIRST = 2
"""The operand that is the first state: data and weights come before it."""

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
"""Instructions per vector of a gate besides its activation: load of the start value, products, store."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        rows: Number of rows of the batch in a register tile.
        vectors: Maximum number of vectors of four columns in a register tile: gates times vectors of units.
        parallel: Whether tiles of rows are spread over the runtime's threads.
    """

    rows: int
    vectors: int
    parallel: bool = False

    def __post_init__(self) -> None:
        fmla_tile.check_registers(self.rows, self.vectors)


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept float32 LSTM, GRU and RNN with constant weights."""
    layer = _read(workload)
    if isinstance(layer, Diagnostic):
        return layer
    kind = layer.cell.kind.upper()
    return KernelMatch(f"float32 {kind} of {layer.steps} steps, {layer.batch} x {layer.hidden}")


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the parameters of every tile that fits the registers; long calls of several tiles are parallel."""
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
    """Return the cycles of one call on one core, with weights in L2."""
    layer = _layer(workload)
    weights = 4 * layer.cell.gates * layer.hidden**2
    full, rest = divmod(layer.batch, params.rows)
    total = 0.0
    for rows, tiles in ((params.rows, full), (rest, 1)):
        if rows and tiles:
            total += tiles * (
                _step_cycles(layer, rows, params, core) + rereading_cycles(weights, 1, weights, core)
            )
    return total * layer.steps


def _step_cycles(layer: RecurrentLayer, rows: int, params: Params, core: Core) -> float:
    """Return the cycles of one step for a tile of rows."""
    total, segments = 0.0, ((0, layer.hidden),)
    activations = activation_instructions(layer.cell)
    for gates in layer.passes:
        share = len(gates) / layer.cell.gates
        for block in layer.blocks(gates, params.vectors):
            after = scalar(rows * block.vectors * (activations * share + AROUND * len(gates)))
            columns = block.vectors * len(gates)
            total += block.count * fmla_tile.cycles(rows, columns, segments, after, core)
    return total


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the weights packed into panels, then the other constants unchanged."""
    layer = _layer(workload)
    r, panels, column = constants[workload.operands[1].index], [], 0
    columns = packed(layer, params.vectors, r)
    for gates, block, _ in columns_of(layer, params.vectors):
        size = len(gates) * block.vectors * LANES
        panels.append(columns[:, column : column + size].ravel())
        column += size
    others = (constants[operand.index] for operand in constants_of(workload, FIRST))
    return np.concatenate(panels), *others


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    layer = _layer(workload)
    size = layer.hidden * width_of(layer, params.vectors)
    arguments = arguments_of(workload, FIRST, [((size,), "float32")])
    with kernel_function(f"arm_{layer.cell.kind}_f32", arguments) as function, pins():
        buffers, (panels,), output = buffers_of(workload, FIRST, function.buffers)
        emitter = _FloatStepEmitter(layer, params.vectors, buffers, output, panels)
        threads.each_tile(layer.batch, params.rows, params.parallel, emitter.tile)
    return function.prim_func


class _FloatStepEmitter(StepEmitter):
    """Emits the code of all steps for a tile of rows, in float32."""

    def __init__(
        self,
        layer: RecurrentLayer,
        most: int,
        buffers: Sequence[tirx.Buffer],
        output: tirx.Buffer,
        panels: tirx.Buffer,
    ) -> None:
        super().__init__(layer, most, buffers, output)
        self.panels = panels

    def tile(self, row: ir.Expr, rows: int) -> None:
        """Emit all steps for the `rows` rows from row `row` on."""
        layer = self.layer
        self.begin_states(row, rows)
        if len(layer.passes) > 1:
            self.reset = [T.alloc_buffer((rows * layer.hidden,), "float32", layout=None) for _ in range(2)]
        with self.steps():
            self.step(row, rows)

    def block(self, gates: Sequence[int], unit: ir.Expr, units: int, column: ir.Expr) -> None:
        """Emit the sums and the gates of a block of units; the sums start from the products of data and weights."""
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
        panel = T.Bind(column * hidden)
        self.sums(fmla_tile.TileBuffers(source, self.panels, acc, columns), starts, panel)

        def total(r: int, g: int, at: int, lanes: int, begin: tuple[int, ir.Expr]) -> ir.Expr:
            v, inside = divmod(at, LANES)
            value = acc.vload([i64(((r * len(gates) + g) * vectors + v) * LANES)], "float32x4")
            if lanes == LANES:
                return value
            part = take(value, inside, lanes) if lanes > 1 else tirx.Shuffle([value], [inside])
            return part + self.begin(r, *begin, lanes)

        self.finish(gates, unit, units, total)

    def sums(self, tile: fmla_tile.TileBuffers, starts: Sequence[ir.Expr], panel: ir.Expr) -> None:
        """Emit the sums over k, four k per iteration, so that one LDP can load each pair of vectors of the panel.

        A barrier prevents LLVM from unrolling the loop for in-order cores, where it would load far ahead and spill.
        """
        whole, rest = divmod(self.layer.hidden, LANES)
        if whole:
            with T.serial(i64(0), i64(whole)) as index:
                at = T.Bind(index * LANES)
                tile.vector(starts, at, T.Bind(panel + at * tile.row_step), range(LANES))
                barrier()
        for k in range(whole * LANES, whole * LANES + rest):
            tile.step([load(tile.a, start + k, 1) for start in starts], 0, panel + k * tile.row_step)


def _layer(workload: Workload) -> RecurrentLayer:
    return taken(_read(workload), workload)


def _read(workload: Workload) -> RecurrentLayer | Diagnostic:
    return layer_of(workload, NAME, COMPOSITES, FIRST)
