# SPDX-License-Identifier: Apache-2.0
"""The epilogue of float32 kernels, from a row of accumulators to the output; accumulators include the bias."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Step, Workload
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic
from schedules.kernels.epilogues import activation_f32
from schedules.tir.emit import i64, load, store, take

PRELU = "prelu"
"""Name of the step that multiplies what is below 0 by a slope for each channel."""

Slopes: TypeAlias = tuple[tirx.Buffer, ir.Expr]
"""Slopes of a step `PRELU`, flat float32, and the place of the slope of a row's first column."""

INSTRUCTIONS = {
    "bias": 0.0,
    "residual": 1.5,
    "relu": 1.0,
    "clip": 2.0,
    "leaky_relu": 3.0,
    PRELU: 3.5,
    **activation_f32.INSTRUCTIONS,
}
"""Instructions per step for a vector of four outputs."""

STORE = 0.5
"""Instructions that store a vector of outputs: half an STP."""


def slopes_of(workload: Workload, constants: Sequence[Array], columns: int) -> tuple[Array, ...]:
    """Return the slopes of a step `PRELU` as a packed constant, float32 [columns]; none without such a step.

    Args:
        workload: Any workload.
        constants: Constants of the workload.
        columns: Number of columns of a product: the output channels, repeated per phase of a transposed convolution.
    """
    step = workload.step(PRELU)
    if step is None or step.operand is None:
        return ()
    channels = workload.output_shape[-1]
    slopes = np.broadcast_to(constants[step.operand.index].astype(np.float32).ravel(), (channels,))
    return (np.tile(slopes, columns // channels),)


def slopes_at(slopes: tirx.Buffer | None, column: ir.Expr) -> Slopes | None:
    """Return the slopes (buffer, offset) for the columns from `column` on; None if there are no slopes."""
    return None if slopes is None else (slopes, column)


def instructions(steps: Sequence[Step]) -> float:
    """Return the number of instructions of the epilogue for a vector of four outputs."""
    return STORE + sum(INSTRUCTIONS[step.name] for step in steps)


def cost(steps: Sequence[Step]) -> Cost:
    """Return the cost of the epilogue for a vector of four outputs; a store of it occupies a vector pipe."""
    return arithmetic(instructions(steps)) + Cost(0.0, 1 - STORE)


def finish(
    steps: Sequence[Step],
    acc: tirx.Buffer,
    row: int,
    columns: int,
    output: tirx.Buffer,
    offset: ir.Expr,
    residual: tirx.Buffer | None,
    slopes: Slopes | None = None,
    *,
    sve: bool = False,
) -> None:
    """Emit all epilogue steps for one row of a tile, and its stores.

    Args:
        steps: The workload's epilogue.
        acc: Accumulators, flat float32.
        row: Offset of the row in `acc`, a multiple of `LANES`.
        columns: Number of the row's columns without padding.
        output: Flat float32.
        offset: Offset of the row in the output and in the residual.
        residual: Flat float32 of the output's size; needed by a step "residual".
        slopes: Slopes of the row's columns; needed by a step `PRELU`.
        sve: Whether to use SVE instructions, within the context manager `sve.functions`.

    Raises:
        ValueError: The epilogue has no such step.
    """
    for at, lanes in _pieces(columns):
        vector = acc.vload([i64(row + at - at % LANES)], "float32x4")
        value = T.Bind(vector if lanes == LANES else take(vector, at % LANES, lanes))
        own = None if slopes is None else (slopes[0], slopes[1] + at)
        for step in steps:
            value = applied(step, value, Vector(lanes, sve=sve), offset + at, residual, own)
        store(output, value, offset + at, lanes)


def applied(
    step: Step,
    value: ir.Expr,
    vector: Vector,
    offset: ir.Expr,
    residual: tirx.Buffer | None,
    slopes: Slopes | None = None,
) -> ir.Expr:
    """Emit one step of an epilogue for a vector of outputs.

    Arguments are those of `finish`, but for `offset`: that of the vector in the output and in the residual.

    Raises:
        ValueError: The epilogue has no such step.
    """
    if step.name == "bias":
        return value
    if step.name == "residual" and residual is not None:
        return value + load(residual, offset, vector.lanes)
    if step.name == "relu":
        return vector.maximum(value, 0.0)
    if step.name == "clip" and step.bounds is not None:
        return vector.minimum(vector.maximum(value, step.bounds[0]), step.bounds[1])
    if step.name == "leaky_relu":
        steep = T.Bind(vector.minimum(value, 0.0) * vector.const(float(step.parameter("alpha"))))
        return vector.maximum(value, 0.0) + steep
    if step.name == PRELU and slopes is not None:
        # Either the product or the addend is 0, so FMA rounds like a multiplication.
        value = T.Bind(value)
        return vector.fma(vector.minimum(value, 0.0), load(*slopes, vector.lanes), vector.maximum(value, 0.0))
    if step.name in activation_f32.FUNCTIONS:
        return activation_f32.FUNCTIONS[step.name](vector, T.Bind(value))
    raise ValueError(f"epilogue step {step.name!r} is not implemented for float32")


def _pieces(columns: int) -> list[tuple[int, int]]:
    """Divide columns into stores of 4, 2 and 1 lanes: (first column, lanes) of each."""
    pieces, at = [], 0
    for lanes in (LANES, LANES // 2, 1):
        while columns - at >= lanes:
            pieces.append((at, lanes))
            at += lanes
    return pieces
