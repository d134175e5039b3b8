# SPDX-License-Identifier: Apache-2.0
"""The epilogue of 16-bit kernels: the steps of `epilogue_f32` in binary32, and one rounding at the end.

The error is at most that of a graph which rounds to 16 bits after each step.
"""

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Step
from schedules.cores import Core
from schedules.intrinsics import bfloat
from schedules.intrinsics.registers import LANES
from schedules.kernels.common.copies import pieces
from schedules.kernels.common.cost_model import Cost, arithmetic, converting
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.gemm.product_float import CAST, SCALE
from schedules.tir.emit import i64, load, store, take

HALF_LANES = 2 * LANES
"""16-bit elements of a register."""

ROUNDING = 1.0
"""Instructions that round a vector of four: FCVTN or BFCVTN, or their second half."""


def instructions(steps: Sequence[Step], dtype: str) -> float:
    """Return the number of instructions of the epilogue for four outputs, scale and bias of columns included."""
    return 1 + epilogue_f32.instructions(_own(steps)) + (ROUNDING if dtype != "float32" else 0)


def cost(steps: Sequence[Step], dtype: str, core: Core) -> Cost:
    """Return the cost of the epilogue for a vector of four outputs, scale and bias of columns included."""
    if dtype == "float32":
        return arithmetic(1) + epilogue_f32.cost(_own(steps))
    rounding = converting(ROUNDING, core) if dtype == "float16" else arithmetic(ROUNDING)
    return arithmetic(1 + epilogue_f32.instructions(_own(steps))) + rounding


def _own(steps: Sequence[Step]) -> list[Step]:
    """Return the steps without those that the kernel of the product computes itself."""
    return [step for step in steps if step.name not in (CAST, SCALE)]


def finish(
    steps: Sequence[Step],
    acc: tirx.Buffer,
    row: int,
    columns: int,
    output: tirx.Buffer,
    offset: ir.Expr,
    residual: tirx.Buffer | None,
    slopes: epilogue_f32.Slopes | None = None,
    *,
    sve: bool = False,
) -> None:
    """Emit all epilogue steps for one row of a tile, and its stores; see `epilogue_f32.finish`.

    Args:
        steps: The workload's epilogue.
        acc: Sums plus bias, flat float32.
        row: Offset of the row in `acc`, a multiple of four.
        columns: Number of the row's columns without padding.
        output: Flat, float32, float16, or bfloat16 as int16.
        offset: Offset of the row in the output and in the residual.
        residual: Flat, float32 or float16, of the output's size; needed by a step "residual".
        slopes: Slopes of the row's columns; needed by a step `epilogue_f32.PRELU`.
        sve: Whether to use SVE instructions, within the context manager `sve.functions`.
    """
    own = _own(steps)
    if str(output.dtype) == "float32" and (residual is None or str(residual.dtype) == "float32"):
        epilogue_f32.finish(own, acc, row, columns, output, offset, residual, slopes, sve=sve)
        return
    width = -(-columns // HALF_LANES) * HALF_LANES
    done = T.alloc_buffer((width,), "float32", layout=None)
    wide = residual if residual is None else T.alloc_buffer((width,), "float32", layout=None)
    if residual is not None:
        for at, lanes in pieces(columns, LANES):
            value = load(residual, offset + at, lanes)
            store(wide, tirx.Cast("float32" if lanes == 1 else f"float32x{lanes}", value), i64(at), lanes)
    epilogue_f32.finish(own, acc, row, columns, done, i64(0), wide, slopes, sve=sve)
    for at, lanes in pieces(columns, HALF_LANES):
        first = at // HALF_LANES * HALF_LANES
        value = T.Bind(_rounded(done.vload([i64(first)], "float32x8"), str(output.dtype)))
        store(output, value if lanes == HALF_LANES else take(value, at - first, lanes), offset + at, lanes)


def _rounded(x: ir.Expr, dtype: str) -> ir.Expr:
    """Emit float32x8 rounded to nearest even to float16x8, or to bfloat16 as int16x8."""
    return tirx.Cast("float16x8", x) if dtype == "float16" else bfloat.rounded(x)
