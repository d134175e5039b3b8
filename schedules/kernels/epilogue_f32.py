# SPDX-License-Identifier: Apache-2.0
"""The epilogue of fp32 kernels: from a row of accumulators to the output. Accumulators start from the bias."""

from collections.abc import Sequence

from tvm import ir, tirx

from schedules.emit import i64, load, splat, store, take
from schedules.intrinsics.fmla import LANES
from schedules.workload import Step


def finish(
    steps: Sequence[Step],
    acc: tirx.Buffer,
    row: int,
    columns: int,
    output: tirx.Buffer,
    offset: ir.Expr,
    residual: tirx.Buffer | None,
) -> None:
    """Applies all steps to one row of a tile and stores it.

    Args:
        steps: The workload's epilogue.
        acc: Accumulators, flat float32.
        row: Offset of the row in `acc`, a multiple of `LANES`.
        columns: How many of the row's columns are part of the result.
        output: Flat float32.
        offset: Where the row lies in the output, and so in the residual.
        residual: Flat float32 of the output's size; needed by a step "residual".

    Raises:
        ValueError: A step has no meaning here.
    """
    for at, lanes in _pieces(columns):
        vector = acc.vload([i64(row + at - at % LANES)], "float32x4")
        value = vector if lanes == LANES else take(vector, at % LANES, lanes)
        for step in steps:
            value = _apply(step, value, lanes, offset + at, residual)
        store(output, value, offset + at, lanes)


def _apply(step: Step, value: ir.Expr, lanes: int, offset: ir.Expr, residual: tirx.Buffer | None) -> ir.Expr:
    if step.name == "bias":
        return value
    if step.name == "residual" and residual is not None:
        return value + load(residual, offset, lanes)
    if step.name == "relu":
        return _extremum("maximum", value, 0.0, lanes)
    if step.name == "clip" and step.bounds is not None:
        return _extremum("minimum", _extremum("maximum", value, step.bounds[0], lanes), step.bounds[1], lanes)
    raise ValueError(f"epilogue step {step.name!r} is not implemented for float32")


def _extremum(kind: str, value: ir.Expr, bound: float, lanes: int) -> ir.Expr:
    """IEEE 754-2019 maximum or minimum, which is FMAX or FMIN: a NaN stays a NaN."""
    suffix = "f32" if lanes == 1 else f"v{lanes}f32"
    dtype = "float32" if lanes == 1 else f"float32x{lanes}"
    return tirx.call_llvm_pure_intrin(dtype, f"llvm.{kind}.{suffix}", value, splat(bound, "float32", lanes))


def _pieces(columns: int) -> list[tuple[int, int]]:
    """Cuts columns into stores of 4, then 2, then 1 lanes: (first column, lanes)."""
    pieces, at = [], 0
    for lanes in (LANES, LANES // 2, 1):
        while columns - at >= lanes:
            pieces.append((at, lanes))
            at += lanes
    return pieces
