# SPDX-License-Identifier: Apache-2.0
"""The code of a float32 product: its tasks, and around the sum of a tile where that begins and how it ends."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import ir, tirx

from schedules.emit import load
from schedules.intrinsics.fmla import LANES
from schedules.kernels import depth_blocks, epilogue_f32, fmla_tile
from schedules.kernels.panel_cut import Cut, Place
from schedules.workload import Workload

if TYPE_CHECKING:
    from schedules.kernels.gemm_f32 import Params


class Emitter:
    """Emits the tiles of one product; `before` are elements of B and of the bias of those before it."""

    def __init__(
        self,
        workload: Workload,
        cut: Cut,
        params: "Params",
        a: tirx.Buffer,
        buffers: Sequence[tirx.Buffer],
        before: tuple[int, int],
    ) -> None:
        residual = workload.step("residual")
        self.cut, self.steps, self.params = cut, workload.epilogue, params
        self.a, self.before = a, before
        self.b, self.bias, self.output = buffers[-3:]
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None

    def tasks(self) -> None:
        """All of them."""
        params, segments = self.params, self.cut.product.rows.segments
        if params.depth_blocks == 1:
            self.cut.tasks(parallel=params.parallel, begin=lambda _column, _width: self.tile)
            return
        depth = depth_blocks.Depth(segments, params.depth_blocks)
        emit = depth_blocks.Emit(self.a, self.row, self.panel, self.start, self.finish)
        depth_blocks.tasks(self.cut, depth, params.panels, params.parallel, emit)

    def tile(self, place: Place, rows: int, width: int, columns: int) -> None:
        """One register tile and its epilogue: `columns` of the panel's `width` are part of the result."""
        segments, start = self.cut.product.rows.segments, self.start(place, width)
        a_rows = [self.row(place.group, place.row + r) for r in range(rows)]
        acc = fmla_tile.multiply(self.a, a_rows, segments, *self.panel(place), start)
        self.finish(place, rows, width, columns, acc)

    def start(self, place: Place, width: int) -> list[ir.Expr]:
        """The bias of each vector of columns."""
        bias = self._padded(place) + self.before[1]
        return [load(self.bias, bias + LANES * v, LANES) for v in range(width // LANES)]

    def row(self, group: ir.Expr, row: ir.Expr) -> ir.Expr:
        """Where a row of A begins."""
        product = self.cut.product
        return product.rows.offset(row) + group * product.group_step

    def panel(self, place: Place) -> tuple[tirx.Buffer, ir.Expr]:
        """The panel of B."""
        return self.b, self._padded(place) * self.cut.product.rows.depth + self.before[0]

    def finish(self, place: Place, rows: int, width: int, columns: int, acc: tirx.Buffer) -> None:
        """The epilogue."""
        left = place.group * self.cut.columns + place.column
        for r in range(rows):
            to = self.output, self.cut.product.target(place.row + r) + left, self.residual
            epilogue_f32.finish(self.steps, acc, r * width, columns, *to, sve=self.params.sve)

    def _padded(self, place: Place) -> ir.Expr:
        return place.group * self.cut.padded_columns + place.column
