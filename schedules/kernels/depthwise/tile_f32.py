# SPDX-License-Identifier: Apache-2.0
"""Emission of a patch of a float depthwise convolution: four channels, one row of input after the other."""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.intrinsics import bfloat
from schedules.intrinsics.registers import LANES
from schedules.kernels.depthwise.axis_steps import Span
from schedules.kernels.depthwise.geometry import Field, prepared
from schedules.kernels.depthwise.patch_loops import Place
from schedules.kernels.epilogues import epilogue_f32, epilogue_half
from schedules.kernels.epilogues.activation_f32 import Vector
from schedules.tir.emit import i64, load, store


class Emitter:
    """Emits patches of a float depthwise convolution."""

    def __init__(self, workload: Workload, field: Field, buffers: Sequence[tirx.Buffer]) -> None:
        residual = workload.step("residual")
        self.workload, self.field = workload, field
        self.x = prepared(buffers[workload.operands[0].index], field, 0)
        self.w, self.bias, *slopes = buffers[len(workload.inputs) : -1]
        self.output, self.slopes = buffers[-1], slopes[0] if slopes else None
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None

    def patch(self, rows: Span, columns: Span, place: Place) -> None:
        """Emit four channels of one patch."""
        field, down = self.field, self.field.down
        acc = T.alloc_buffer((rows.outputs * columns.outputs * LANES,), "float32", layout=None)
        bias = load(self.bias, place.block * LANES, LANES)
        for index in range(rows.outputs * columns.outputs):
            store(acc, bias, i64(index * LANES), LANES)
        width = field.across.kernel * LANES
        taps = place.block * (down.kernel * width)

        def line(y: ir.Expr | int) -> _Row:
            return _Row(self.x, place.source + y * field.source[1], field.source[2], columns.inputs)

        if down.late:
            start, stop = down.taps(place.top)
            with T.serial(start, stop) as tap:
                self.row(acc, 0, columns.outputs, line(tap * down.dilation), taps + tap * width)
        for y in () if down.late else rows.inputs:
            inputs = line(y)
            for row in range(rows.outputs):
                tap, between = divmod(y - row * down.stride, down.dilation)
                if not between and 0 <= tap < down.kernel:
                    self.row(acc, row * columns.outputs, columns.outputs, inputs, taps + tap * width)
        self.finish(acc, rows.outputs, columns.outputs, place)

    def finish(self, acc: tirx.Buffer, rows: int, columns: int, place: Place) -> None:
        """Emit the epilogue and stores of a patch."""
        full = self.workload.operands[0].dtype == "float32"
        finish = epilogue_f32.finish if full else epilogue_half.finish
        slopes = epilogue_f32.slopes_at(self.slopes, place.block * LANES)
        _, down, across = self.field.target
        for row in range(rows):
            for column in range(columns):
                offset = place.target + (row * down + column * across)
                at = (row * columns + column) * LANES
                finish(self.workload.epilogue, acc, at, LANES, self.output, offset, self.residual, slopes)

    def row(self, acc: tirx.Buffer, first: int, count: int, inputs: "_Row", taps: ir.Expr) -> None:
        """Emit the products of one kernel row by one input row, into the accumulators from `first`."""
        across = self.field.across
        for tap in range(across.kernel):
            weight = load(self.w, taps + tap * LANES, LANES)
            for column in range(count):
                value = inputs.at(column * across.stride + tap * across.dilation)
                if value is not None:
                    place = i64((first + column) * LANES)
                    total = acc.vload([place], "float32x4")
                    store(acc, Vector(LANES).fma(value, weight, total), place, LANES)


class _Row:
    """The inputs of a patch in one row, loaded where they are first asked for."""

    def __init__(self, x: tirx.Buffer, start: ir.Expr, pitch: int, inside: Sequence[int]) -> None:
        self._x, self._start, self._pitch, self._inside = x, start, pitch, inside
        self._loaded: dict[int, ir.Expr] = {}

    def at(self, column: int) -> ir.Expr | None:
        """Four channels as float32x4; None for the border."""
        if column not in self._inside:
            return None
        if column not in self._loaded:
            value = load(self._x, self._start + column * self._pitch, LANES)
            self._loaded[column] = T.Bind(_WIDENED[str(self._x.dtype)](value))
        return self._loaded[column]


_WIDENED: dict[str, Callable[[ir.Expr], ir.Expr]] = {
    "float32": lambda value: value,
    "float16": lambda value: tirx.Cast("float32x4", value),
    "int16": bfloat.widened,
}
