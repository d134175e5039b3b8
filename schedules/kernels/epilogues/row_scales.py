# SPDX-License-Identifier: Apache-2.0
"""Dequantisation of products of dynamically quantised data: int32 sums to float32 by row and column scales.

    y[m, n] = fma(float(acc[m, n] - z[m] * sum over k of w[k, n]) * s[m], scale[n], bias[n]), then the float epilogue

The zero point is taken off here: q - z has nine bits. See `schedules.numerics.qdq.dynamic`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Operand, Step, Workload
from schedules.intrinsics.narrow import fma
from schedules.intrinsics.vector import zip_halves
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.tiles.tile_stores import LANES, Accumulator
from schedules.tir.emit import i64, load, store

DYNAMIC = "arm.linear_dynamic"

CAST, ROW_SCALE, SCALE = "cast", "row_scale", "scale"
"""Its own steps; what follows them is the float epilogue."""

INSTRUCTIONS = 4.0
"""Of a vector of four outputs: MLS, SCVTF, FMUL, FMLA."""

TOGETHER = 2
"""Vectors of columns that are finished for all rows before the next: their constants stay in registers."""

Offset = Callable[[int], ir.Expr]
"""Where row r of a tile lies."""


@dataclass(frozen=True)
class RowScales:
    """The epilogue of a product of dynamically quantised data.

    Attributes:
        zero_point: Of the data, int32, one a row or one.
        scale: Of the data, float32, likewise.
        flip: What the data are less as the products see them.
        steps: The float epilogue.
    """

    zero_point: Operand
    scale: Operand
    flip: int
    steps: tuple[Step, ...]

    @property
    def residual(self) -> Operand | None:
        """The tensor that is added; None if there is none."""
        return next((step.operand for step in self.steps if step.name == "residual"), None)

    def cost(self, rows: int, columns: int) -> Cost:
        """Return the cost of one tile's epilogue, its stores and loads of constants included."""
        vectors = rows * columns / LANES
        work = INSTRUCTIONS + epilogue_f32.instructions(self.steps)
        return arithmetic(vectors * work) + scalar(2 * rows + 3 * columns / LANES)


def misfit(workload: Workload) -> tuple[str, str, str] | None:
    """Return why a workload of `DYNAMIC` is not supported (reason, limit and actual value), or None."""
    x, zero_point, weight = workload.operands
    scale = workload.step(ROW_SCALE)
    rows = math.prod(x.shape[:-1])
    if scale is None or scale.operand is None or workload.output_dtype != "float32":
        return "accumulators do not become float32", "float32", workload.output_dtype
    if len(weight.shape) != 2:
        return "weights are batched", "2 dimensions", str(weight.shape)
    if math.prod(x.shape) == 0 or math.prod(workload.output_shape) == 0:
        return "a dimension is 0", "1 or more", str(x.shape)
    for operand, dtype in ((zero_point, "int32"), (scale.operand, "float32")):
        size = math.prod(operand.shape)
        if operand.kind != "input" or operand.dtype != dtype or size not in (1, rows):
            return "a row's scale or zero point", f"{dtype}, 1 or {rows}", f"{operand.dtype}, {size}"
    return None


def read(workload: Workload, flip: int) -> RowScales:
    """Return the epilogue of a workload that has no misfit."""
    scale = workload.step(ROW_SCALE)
    assert scale is not None
    assert scale.operand is not None
    steps = tuple(step for step in workload.epilogue if step.name not in (CAST, ROW_SCALE, SCALE))
    return RowScales(workload.operands[1], scale.operand, flip, steps)


def columns_of(workload: Workload, constants: Sequence[Array], weights: Array) -> tuple[Array, Array, Array]:
    """Return each column's weight sum (int32), scale and bias (float32).

    Args:
        workload: Of `DYNAMIC`.
        constants: Its.
        weights: int8 [columns, depth].
    """

    def values(name: str, default: float) -> Array:
        step = workload.step(name)
        value = np.array(default) if step is None or step.operand is None else constants[step.operand.index]
        return np.array(np.broadcast_to(value.astype(np.float32).ravel(), len(weights)))

    return weights.sum(1, dtype=np.int32), values(SCALE, 1.0), values("bias", 0.0)


@dataclass(frozen=True)
class Finish:
    """Emits the epilogue of tiles.

    Attributes:
        scales: What to emit.
        inputs: The kernel's, flat.
        output: Flat float32.
    """

    scales: RowScales
    inputs: Sequence[tirx.Buffer]
    output: tirx.Buffer

    def tile(
        self,
        rows: Sequence[Callable[[int], ir.Expr]],
        numbers: Sequence[ir.Expr],
        of_columns: Callable[[int], tuple[ir.Expr, ir.Expr, ir.Expr]],
        target: Offset,
        columns: int,
    ) -> None:
        """Emit the epilogue of one tile.

        Args:
            rows: For each row its accumulators, int32x4 by vector.
            numbers: For each row which of the result it is.
            of_columns: Sums of weights, scales and biases of four columns.
            target: Where a row of the tile lies in the output.
            columns: How many of a row's are part of the result.
        """
        acc = T.alloc_buffer((len(rows) * TOGETHER * LANES,), "float32", layout=None)
        residual = self.scales.residual
        other = None if residual is None else self.inputs[residual.index]
        for first in range(0, columns, TOGETHER * LANES):
            header = [of_columns(first // LANES + v) for v in range(TOGETHER)]
            for r, (row, number) in enumerate(zip(rows, numbers, strict=True)):
                zero = self._of_row(self.scales.zero_point, number) - self.scales.flip
                scale = self._of_row(self.scales.scale, number)
                at = r * TOGETHER * LANES
                for v, (total, factor, bias) in enumerate(header):
                    exact = row(first // LANES + v) - tirx.Broadcast(zero, LANES) * total
                    by_row = tirx.Cast("float32x4", exact) * tirx.Broadcast(scale, LANES)
                    store(acc, fma(by_row, factor, bias), i64(at + v * LANES), LANES)
                real, place = min(columns - first, TOGETHER * LANES), target(r) + first
                epilogue_f32.finish(self.scales.steps, acc, at, real, self.output, place, other)

    def _of_row(self, operand: Operand, number: ir.Expr) -> ir.Expr:
        at = number if math.prod(operand.shape) > 1 else i64(0)
        return load(self.inputs[operand.index], at, 1)


def in_rows(acc: Accumulator, count: int, lines: int) -> list[Callable[[int], ir.Expr]]:
    """Return, for each row, a function from a vector of four columns to its accumulators, int32x4.

    Args:
        acc: Of a tile.
        count: Rows.
        lines: That an accumulator holds: 2 of blocks r0c0 r0c1 r1c0 r1c1.
    """
    if lines == 1:
        return [lambda v, row=row: acc(row, v) for row in range(count)]  # type: ignore[misc]

    def of_blocks(row: int, v: int) -> ir.Expr:
        pair, odd = divmod(row, lines)
        left, right = (T.Bind(acc(pair, lines * v + i)) for i in range(lines))
        return T.Bind(zip_halves(left, right, "int64x2")[odd])

    return [lambda v, row=row: of_blocks(row, v) for row in range(count)]  # type: ignore[misc]
