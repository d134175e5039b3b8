# SPDX-License-Identifier: Apache-2.0
"""Dequantisation of products of dynamically quantised data: int32 sums to float32 by row and column scales.

    y[m, n] = fma(float(acc[m, n] - z[m] * sum over k of w[k, n]) * s[m], scale[n], bias[n]), then the float epilogue

With a constant z, an offset[n] may be added to the sums. The zero point's contribution is subtracted from the sums,
since q - z needs nine bits. The result of composites without a scale is the int32 sums. See
`schedules.numerics.qdq.dynamic`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Operand, Step, Workload
from schedules.intrinsics.narrow import fma
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector import zip_halves
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.tiles.tile_stores import Accumulator
from schedules.tir.emit import i64, load, store

LINEAR = ("arm.linear_dynamic", "arm.linear_dynamic_sums")

CONVOLUTION = ("arm.conv2d_dynamic", "arm.conv2d_dynamic_sums")

DYNAMIC = (*LINEAR, *CONVOLUTION)

OFFSET, CAST, ROW_SCALE, SCALE = "offset", "cast", "row_scale", "scale"
"""Steps of the dequantisation; all later steps are the float epilogue."""

INSTRUCTIONS = 4.0
"""Instructions per vector of four outputs: MLS, SCVTF, FMUL, FMLA."""

TOGETHER = 2
"""Vectors of columns that are finished for all rows before the next: their constants stay in registers."""

Offset = Callable[[int], ir.Expr]
"""Function from a row of the tile to its offset."""


@dataclass(frozen=True)
class RowScales:
    """The epilogue of a product of dynamically quantised data.

    Attributes:
        zero_point: Zero point of the data, int32, per row or scalar. A constant is multiplied into the header's sums.
        scale: Scale of the data, float32, per row or scalar; None if sums are multiplied by constants only.
        flip: Number that is subtracted from the data before the product: 128 for uint8 data read as int8, else 0.
        steps: The float epilogue; None if the result is the int32 sums.
    """

    zero_point: Operand
    scale: Operand | None
    flip: int
    steps: tuple[Step, ...] | None

    @property
    def residual(self) -> Operand | None:
        """The tensor that a step "residual" adds; None if there is no such step."""
        return next((step.operand for step in self.steps or () if step.name == "residual"), None)

    def cost(self, rows: int, columns: int) -> Cost:
        """Return the cost of one tile's epilogue, its stores and loads of constants included."""
        vectors = rows * columns / LANES
        work = INSTRUCTIONS + epilogue_f32.instructions(self.steps or ())
        return arithmetic(vectors * work) + scalar(2 * rows + 3 * columns / LANES)


def misfit(workload: Workload) -> tuple[str, str, str] | None:
    """Return why a workload of `DYNAMIC` is not supported (reason, limit, actual value); None if it is supported."""
    x, zero_point, weight = workload.operands
    scale = workload.step(ROW_SCALE)
    rows = math.prod(workload.output_shape[:-1])
    dtype = "int32" if workload.step(CAST) is None else "float32"
    if workload.output_dtype != dtype:
        return "accumulators become another dtype", dtype, workload.output_dtype
    if workload.composite in LINEAR and len(weight.shape) != 2:
        return "weights are batched", "2 dimensions", str(weight.shape)
    if workload.step(OFFSET) is not None and zero_point.kind != "constant":
        return (
            "a constant is added to sums with a zero point of run time",
            "a constant zero point",
            zero_point.kind,
        )
    if math.prod(x.shape) == 0 or math.prod(workload.output_shape) == 0:
        return "a dimension is 0", "1 or more", str(x.shape)
    by_row = rows if workload.composite in LINEAR and zero_point.kind == "input" else 1
    zero_points = (zero_point, "int32", by_row)
    scales = () if scale is None or scale.operand is None else ((scale.operand, "float32", rows),)
    for operand, dtype, most in (zero_points, *scales):
        size = math.prod(operand.shape)
        if operand.dtype != dtype or size not in (1, most):
            return "a row's scale or zero point", f"{dtype}, 1 or {most}", f"{operand.dtype}, {size}"
    return None


def read(workload: Workload, flip: int) -> RowScales:
    """Return the epilogue of a workload that `misfit` accepts."""
    scale = workload.step(ROW_SCALE)
    steps = tuple(step for step in workload.epilogue if step.name not in (OFFSET, CAST, ROW_SCALE, SCALE))
    return RowScales(
        workload.operands[1],
        None if scale is None else scale.operand,
        flip,
        None if workload.step(CAST) is None else steps,
    )


def columns_of(
    workload: Workload, constants: Sequence[Array], weights: Array, flip: int
) -> tuple[Array, Array, Array]:
    """Return, per column, what is subtracted from sums (int32), the scale and the bias (float32).

    That is the weight sum, times the zero point and less the offset if the zero point is a constant.

    Args:
        workload: A workload of `DYNAMIC`.
        constants: The workload's constants.
        weights: Integer weights, [columns, depth].
        flip: See the attribute of `RowScales`.
    """

    def values(name: str, default: float, dtype: str = "float32") -> Array:
        step = workload.step(name)
        value = np.array(default) if step is None or step.operand is None else constants[step.operand.index]
        return np.array(np.broadcast_to(value.astype(dtype).ravel(), len(weights)))

    sums, zero = weights.sum(1, dtype=np.int64), workload.operands[1]
    if zero.kind == "constant":
        sums = sums * (int(constants[zero.index].item()) - flip) - values(OFFSET, 0, "int64")
    return sums.astype(np.int32), values(SCALE, 1.0), values("bias", 0.0)


@dataclass(frozen=True)
class Finish:
    """Emits the dequantising epilogue of tiles.

    Attributes:
        scales: Scales of rows and columns.
        inputs: Flat buffers of the kernel's inputs.
        output: Flat buffer of the output.
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
            rows: For each row, a function from the index of a vector of columns to its accumulators, int32x4.
            numbers: Index of each row in the result.
            of_columns: Returns weight sums, scales and biases of a vector of four columns.
            target: Returns the offset of a row of the tile in the output.
            columns: Number of columns of the tile without padding.
        """
        acc = T.alloc_buffer((len(rows) * TOGETHER * LANES,), self.output.dtype, layout=None)
        scales, residual = self.scales, self.scales.residual
        other = None if residual is None else self.inputs[residual.index]
        for first in range(0, columns, TOGETHER * LANES):
            header = [of_columns(first // LANES + v) for v in range(TOGETHER)]
            for r, (row, number) in enumerate(zip(rows, numbers, strict=True)):
                at, real = r * TOGETHER * LANES, min(columns - first, TOGETHER * LANES)
                place = target(r) + first
                by_row = None if scales.scale is None else self._of_row(scales.scale, number)
                exact = self._less_zero_point(number, [total for total, _, _ in header])
                for v, (_, factor, bias) in enumerate(header):
                    value = row(first // LANES + v) - exact[v]
                    if scales.steps is not None:
                        value = tirx.Cast("float32x4", value)
                        value = value if by_row is None else value * tirx.Broadcast(by_row, LANES)
                        value = fma(value, factor, bias)
                    store(acc, value, i64(at + v * LANES), LANES)
                if scales.steps is None:
                    copies.copy(acc, i64(at), self.output, place, real)
                else:
                    epilogue_f32.finish(scales.steps, acc, at, real, self.output, place, other)

    def _less_zero_point(self, number: ir.Expr, totals: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Return zero point * weight sums, the part of a row's sums to subtract: one int32x4 per column vector."""
        if self.scales.zero_point.kind == "constant":
            return list(totals)
        zero = tirx.Broadcast(self._of_row(self.scales.zero_point, number) - self.scales.flip, LANES)
        return [zero * total for total in totals]

    def _of_row(self, operand: Operand, number: ir.Expr) -> ir.Expr:
        at = number if math.prod(operand.shape) > 1 else i64(0)
        return load(self.inputs[operand.index], at, 1)


def in_rows(acc: Accumulator, count: int, lines: int) -> list[Callable[[int], ir.Expr]]:
    """Return, for each row, a function from a vector of four columns to its accumulators, int32x4.

    Args:
        acc: Accumulators of a tile.
        count: Number of rows.
        lines: Rows per accumulator: 2 for blocks r0c0 r0c1 r1c0 r1c1, else 1.
    """
    if lines == 1:
        return [lambda v, row=row: acc(row, v) for row in range(count)]  # type: ignore[misc]

    def of_blocks(row: int, v: int) -> ir.Expr:
        pair, odd = divmod(row, lines)
        left, right = (T.Bind(acc(pair, lines * v + i)) for i in range(lines))
        return T.Bind(zip_halves(left, right, "int64x2")[odd])

    return [lambda v, row=row: of_blocks(row, v) for row in range(count)]  # type: ignore[misc]
