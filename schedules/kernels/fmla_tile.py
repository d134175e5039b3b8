# SPDX-License-Identifier: Apache-2.0
"""The fp32 register tile: rows of A, as they lie, by one panel of B, accumulated with FMLA by lane."""

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, load, store
from schedules.intrinsics.fmla import LANES, REGISTERS, fmla_lane

K_STEP = LANES
"""k steps of one loop iteration: what one vector load of a row of A covers."""

STREAMING_REGISTERS = 2
"""Registers for B inside a tile: the pair of vectors that one LDP brings."""

LOOP_OVERHEAD = 4
"""Instructions that advance and close one loop iteration: two pointers, the count, the branch."""

FMLA_LATENCY = 4
"""Cycles from one FMLA to the next on the same accumulator (Arm Neoverse N2 and Cortex-A76 software optimization
guides, ASIMD FP multiply accumulate)."""

FMLA_PER_CYCLE = 2
"""FMLA of 128 bits a cycle (same guides: pipes V0 and V1). Cores of the X and V series have four, the A53 and A55 half
of one each; that scales every tile alike."""


def check_registers(rows: int, vectors: int) -> None:
    """Raises ValueError if a tile's accumulators, its vectors of A and two of B are more than the register file."""
    needed = rows * vectors + rows + STREAMING_REGISTERS
    if min(rows, vectors) < 1 or needed > REGISTERS:
        raise ValueError(f"a tile of {rows} x {vectors} vectors takes {needed} registers of {REGISTERS}")


def instructions(rows: int, vectors: int, k: int, steps: int) -> float:
    """Instructions of one tile: the k loop; per accumulator its start, its store and one for each epilogue step."""
    b_pairs = -(-K_STEP * vectors // 2)
    iteration = K_STEP * rows * vectors + rows + b_pairs + LOOP_OVERHEAD
    return k / K_STEP * iteration + rows * vectors * (2 + steps)


def cycles(rows: int, vectors: int, k: int, steps: int, core: Core) -> float:
    """Cycles of one tile with all loads in L1: the slowest of dispatch, FMLA pipes and FMLA chains."""
    dispatch = instructions(rows, vectors, k, steps) / core.issue_width
    return max(dispatch, k * rows * vectors / FMLA_PER_CYCLE, k * FMLA_LATENCY)


def multiply(
    a: tirx.Buffer,
    a_rows: Sequence[ir.Expr],
    b: tirx.Buffer,
    b_panel: ir.Expr,
    k: int,
    start: Sequence[ir.Expr],
) -> tirx.Buffer:
    """Emits the sum over k of one tile.

    The accumulators are touched only by whole vectors at constant offsets, so that LLVM keeps them in registers.

    Args:
        a: Flat float32; each row is contiguous along k.
        a_rows: Offset in `a` of each row of the tile.
        b: Flat float32; a panel is [k][4 * len(start)].
        b_panel: Offset in `b` of the panel.
        k: Length of the sum, 1 or more.
        start: Initial value of each column vector of four, the same for all rows.

    Returns:
        The accumulators, float32 [len(a_rows)][4 * len(start)], flat.
    """
    vectors = len(start)
    # Not scope "local": TVM takes that from the workspace pool on CPUs, and stores to a heap are never dropped.
    acc = T.alloc_buffer((len(a_rows) * vectors * LANES,), "float32", layout=None)
    for row in range(len(a_rows)):
        for column, value in enumerate(start):
            store(acc, value, i64((row * vectors + column) * LANES), LANES)

    def step(a_values: Sequence[ir.Expr], lane: int, at: ir.Expr) -> None:
        for column in range(vectors):
            b_vector = load(b, b_panel + (at * vectors + column) * LANES, LANES)
            for row, a_value in enumerate(a_values):
                place = i64((row * vectors + column) * LANES)
                total = fmla_lane(acc.vload([place], "float32x4"), b_vector, a_value, lane)
                store(acc, total, place, LANES)

    if k >= K_STEP:
        with T.serial(i64(0), i64(k // K_STEP)) as outer:
            rows = [load(a, offset + outer * K_STEP, K_STEP) for offset in a_rows]
            for lane in range(K_STEP):
                step(rows, lane, outer * K_STEP + lane)
    for last in range(k - k % K_STEP, k):
        step([load(a, offset + last, 1) for offset in a_rows], 0, i64(last))
    return acc
