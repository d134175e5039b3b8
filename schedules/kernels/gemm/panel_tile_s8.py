# SPDX-License-Identifier: Apache-2.0
"""The int8 register tile of two packed panels, for the instructions of `run_time_instructions_s8`.

An accumulator (row vector, which, column vector) has four lanes. SMMLA: the 2 x 2 block r0c0 r0c1 r1c0 r1c1. SDOT: row
`which` of the row vector by the four columns of the column vector. SMLSL: four partial sums of one output.
"""

from collections.abc import Callable

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics.registers import LANES, STREAMING_PAIR, check_tile
from schedules.intrinsics.vector import zip_halves
from schedules.kernels.common.cost_model import LOOP_OVERHEAD
from schedules.kernels.tiles.mlal_tile import sums
from schedules.kernels.tiles.packed_tile import (
    SMMLA,
    Instruction,
    PackedTile,
)
from schedules.kernels.tiles.tile_stores import Accumulator, Put, Requantize, of_blocks, of_rows
from schedules.tir.emit import i64, store

UNROLL = 4
"""Number of k steps in a loop iteration."""

FEW_TRIPS = {"smmla": 2, "sdot": 4, "smlsl": 4}
"""Largest trip count of the k loop that LLVM unrolls in a full tile, by instruction."""


def check_registers(unit: Instruction, rows: int, columns: int) -> None:
    """Raise ValueError if a tile's accumulators, its vectors of A and two vectors of B exceed the register file."""
    needed = rows * unit.accumulators * columns + rows + STREAMING_PAIR
    check_tile(f"a {unit.name} tile of {rows} x {columns} vectors", (rows, columns), needed)


def cycles(unit: Instruction, rows: int, columns: int, steps: int, core: Core) -> float:
    """Return the cycles of the k loop with all loads in L1: the slower of dispatch and vector pipes."""
    products = rows * unit.accumulators * columns * unit.instructions
    instructions = steps * (products + (rows + columns) / 2 + LOOP_OVERHEAD / UNROLL)
    return max(instructions / core.issue_width, steps * products / core.vector_pipes)


def in_accumulator(unit: Instruction, total: int | ir.Expr) -> ir.Expr:
    """Return the initial accumulator, int32x4, of outputs that start from `total` (integer or int32 expression)."""
    own = tirx.IntImm("int32", total) if isinstance(total, int) else total
    if not unit.partial:
        return tirx.Broadcast(own, LANES)
    zero = tirx.IntImm("int32", 0)
    return tirx.Shuffle([own, zero, zero, zero], list(range(LANES)))


def multiply(
    unit: Instruction,
    a: tuple[tirx.Buffer, ir.Expr],
    b: tuple[tirx.Buffer, ir.Expr],
    vectors: tuple[int, int],
    steps: int,
    start: Callable[[int, int, int], ir.Expr],
    none: ir.Expr,
) -> tirx.Buffer:
    """Emit one tile's sum over k.

    Args:
        unit: The instruction that multiplies.
        a: Flat int8 buffer of packed rows, and the offset of the panel in it.
        b: Flat int8 buffer of packed columns, and the offset of the panel in it.
        vectors: Number of row vectors and of column vectors of the tile.
        steps: Number of k steps.
        start: Returns the int32x4 that accumulator (row vector, which, column vector) starts from.
        none: An int64 expression of value 0 that LLVM cannot fold. With constant trip counts, LLVM would unroll loops
            of few iterations, and spill accumulators.

    Returns:
        The accumulators, int32 [row vector][which][column vector][4], flat.
    """
    tile = PackedTile(unit, *vectors)
    acc = tile.accumulators()
    for column in range(tile.columns):
        for row in range(tile.rows):
            for which in range(unit.accumulators):
                store(acc, start(row, which, column), tile.place(row, column, which), LANES)
    full = steps // UNROLL
    if full:
        with T.serial(i64(0), full + none if full <= FEW_TRIPS[unit.name] else i64(full)) as outer:
            for u in range(UNROLL):
                tile.step(acc, a, b, outer * UNROLL + u)
    for last in range(full * UNROLL, steps):
        tile.step(acc, a, b, i64(last))
    return acc


def put_rows(
    unit: Instruction, acc: tirx.Buffer, vectors: tuple[int, int], requantize: Requantize, put: Put
) -> None:
    """Emit the requantisation of a tile, and pass its rows to `put`; for `acc` and `vectors` see `multiply`."""
    rows, columns = vectors
    finish = of_blocks if unit is SMMLA else of_rows
    of_four = columns // LANES if unit.partial else columns
    accumulator = _accumulators(unit, acc, columns)
    finish(accumulator, rows * unit.accumulators, of_four, requantize, put)


def put_sums(
    unit: Instruction,
    acc: tirx.Buffer,
    vectors: tuple[int, int],
    put: Callable[[ir.Expr, int, int], None],
) -> None:
    """Pass a tile's int32 sums to `put`(int32x4, first column, row), four columns of a row at a time."""
    rows, columns = vectors
    accumulator = _accumulators(unit, acc, columns)
    if unit is SMMLA:
        for row in range(rows):
            for column in range(0, columns, 2):
                pair = zip_halves(accumulator(row, column), accumulator(row, column + 1), "int64x2")
                for odd, values in enumerate(pair):
                    put(T.Bind(values), 2 * column, 2 * row + odd)
        return
    for row in range(rows * unit.accumulators):
        for column in range(columns // LANES if unit.partial else columns):
            put(T.Bind(accumulator(row, column)), LANES * column, row)


def _accumulators(unit: Instruction, acc: tirx.Buffer, columns: int) -> Accumulator:
    """Return a function that loads an accumulator: four columns of a row, or a 2 x 2 block for SMMLA."""

    def accumulator(row: int, column: int) -> ir.Expr:
        if not unit.partial:
            return acc.vload([i64((row * columns + column) * LANES)], "int32x4")
        return T.Bind(sums(acc, columns, row, LANES * column))

    return accumulator
