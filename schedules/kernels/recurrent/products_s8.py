# SPDX-License-Identifier: Apache-2.0
"""int8 products of state and weights, by SDOT or SMULL, for kernels of recurrent layers: tiles, panels and sums."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.intrinsics.sdot import FEATURE, K_STEP
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic, rereading_cycles
from schedules.kernels.gemm import implicit_rows
from schedules.kernels.gemm.k_chunks_s8 import Reading
from schedules.kernels.gemm.product import reordered
from schedules.kernels.recurrent.steps import RecurrentLayer, columns_of, packed, width_of
from schedules.kernels.tiles import mlal_tile, sdot_tile
from schedules.kernels.tiles.tile_stores import HALF, Accumulator
from schedules.tir.emit import i64

TILES = ((1, 16), (1, 12), (1, 8), (1, 4), (2, 12), (2, 8), (3, 8), (4, 4), (5, 4), (6, 4))
"""(rows, vectors) of the register tiles worth considering."""

WIDENED_TILES = ((1, 4), (1, 2))
"""(rows, vectors) of the register tiles worth considering without SDOT."""

CHAIN = 1
"""Number of products that are summed in 16 bits: one, since weights may be -128."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        rows: Number of rows of the batch in a register tile.
        vectors: Maximum number of vectors of four columns in a register tile: gates times vectors of units.
        dot: Whether SDOT computes the products; else SMULL.
    """

    rows: int
    vectors: int
    dot: bool = True

    def __post_init__(self) -> None:
        if self.dot:
            sdot_tile.check_registers(self.rows, self.vectors)
        else:
            mlal_tile.check_registers(self.rows, self.vectors * LANES)


def pitch_of(layer: RecurrentLayer) -> int:
    """Return the distance between int8 rows of the state in bytes, a multiple of a vector."""
    return -(-layer.hidden // VECTOR) * VECTOR


def reading_of(layer: RecurrentLayer, params: Params) -> Reading:
    """Return how the int8 rows of the state are loaded."""
    unit = K_STEP if params.dot else HALF
    depth = -(-layer.hidden // unit) * unit
    return Reading.in_vectors(implicit_rows.linear(layer.batch, depth), unit)


def candidates_of(layer: RecurrentLayer, core: Core) -> tuple[Params, ...]:
    """Return the parameters of every register tile that is useful for a layer."""
    dot = FEATURE in core.features
    return tuple(
        Params(rows, vectors, dot)
        for rows, vectors in (TILES if dot else WIDENED_TILES)
        if rows <= layer.batch and vectors >= layer.cell.gates
    )


def cycles_of(layer: RecurrentLayer, params: Params, core: Core, after: Callable[[int, int], float]) -> float:
    """Return the cycles of all steps on one core, with weights in L2.

    Args:
        layer: The layer.
        params: Parameters of the kernel.
        core: The core.
        after: Returns the instructions per row after the sums of a block, for (vectors of units, gates).
    """
    full, rest = divmod(layer.batch, params.rows)
    weights = len(reading_of(layer, params).order()) * width_of(layer, params.vectors)
    total = 0.0
    for rows, tiles in ((params.rows, full), (rest, 1)):
        if rows and tiles:
            blocks = sum(
                (
                    _sums_cost(layer, rows, block.vectors * len(gates), params, core)
                    + arithmetic(rows * after(block.vectors, len(gates)))
                ).cycles(core)
                for gates, block, _ in columns_of(layer, params.vectors)
            )
            total += tiles * (blocks + rereading_cycles(weights, 1, weights, core))
    return total * layer.steps


def _sums_cost(layer: RecurrentLayer, rows: int, vectors: int, params: Params, core: Core) -> Cost:
    """Return the cost of a tile's sums over k."""
    reading = reading_of(layer, params)
    if params.dot:
        return sdot_tile.cost(rows, vectors, reading, core, reload=False)
    return mlal_tile.cost(rows, vectors * LANES, reading.chunks(), CHAIN)


def panels_of(layer: RecurrentLayer, params: Params, weights: Array) -> Array:
    """Return int8 weights [hidden, gates * hidden] packed into consecutive panels, as a flat array."""
    columns, reading = packed(layer, params.vectors, weights).T, reading_of(layer, params)
    # Pad with zeros to the number of elements that vectors read.
    deep = np.pad(columns, ((0, 0), (0, reading.rows.depth - columns.shape[1])))
    columns = reordered(deep, reading.order())
    panels, column = [], 0
    for gates, block, _ in columns_of(layer, params.vectors):
        vectors = len(gates) * block.vectors
        own = columns[column : column + vectors * LANES]
        if params.dot:
            panels.append(sdot_tile.pack_columns(own, vectors).ravel())
        else:
            panels.append(mlal_tile.pack_columns(own, len(own), reading.chunks()).ravel())
        column += vectors * LANES
    return np.concatenate(panels)


def alloc_rows(layer: RecurrentLayer) -> tirx.Buffer:
    """Allocate the buffer for the int8 rows of a state."""
    # One vector longer than the rows, because vector loads may reach past the end of the last row.
    return T.alloc_buffer((layer.batch * pitch_of(layer) + VECTOR,), "int8", layout=None)


def multiply(
    layer: RecurrentLayer,
    params: Params,
    buffers: tuple[tirx.Buffer, tirx.Buffer],
    rows: Sequence[ir.Expr],
    column: ir.Expr,
    begin: Sequence[Callable[[], ir.Expr]],
) -> Accumulator:
    """Emit the sums over k of some rows by vectors of columns; return the function that loads a sum.

    Args:
        layer: The layer.
        params: Parameters of the kernel.
        buffers: The int8 rows and the panels.
        rows: Indices of the rows.
        column: Index of the first column, counted through the panels.
        begin: For each vector of columns, a function that emits its initial value, int32x4.
    """
    q, panels = buffers
    count, reading = len(begin), reading_of(layer, params)
    starts = [T.Bind(row * pitch_of(layer)) for row in rows]
    panel = T.Bind(column * len(reading.order()))
    if params.dot:
        first = [value() for value in begin]
        acc = sdot_tile.multiply(q, starts, panels, panel, count, reading.chunks(), lambda _: first)
        return lambda r, v: acc.vload([i64((r * count + v) * LANES)], "int32x4")
    width = count * LANES
    acc = mlal_tile.multiply(q, starts, panels, panel, width, reading.chunks(), CHAIN, flipped=False)
    # The initial value is added after the sum over k, because the sum uses all registers.
    return lambda r, v: mlal_tile.sums(acc, width, r, LANES * v) + begin[v]()
