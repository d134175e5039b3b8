# SPDX-License-Identifier: Apache-2.0
"""The stages of a Winograd convolution: data transform, matrix products, output transform of the sums."""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.pin import barrier
from schedules.intrinsics.registers import LANES
from schedules.kernels.common.threads import PARALLEL_TASKS
from schedules.kernels.epilogues import activation_f32, epilogue_f32
from schedules.kernels.tiles import fmla_tile
from schedules.kernels.winograd import transforms
from schedules.kernels.winograd.winograd_tiling import WinogradPlan
from schedules.tir.emit import i64, load, store


class WinogradStages:
    """Emits the stages of one Winograd kernel."""

    def __init__(self, cut: WinogradPlan, x: tirx.Buffer, buffers: Sequence[tirx.Buffer]) -> None:
        residual = cut.workload.step("residual")
        self.cut, self.x = cut, x
        self.u, self.bias, *slopes = buffers[len(cut.workload.inputs) : -1]
        self.output, self.slopes = buffers[-1], slopes[0] if slopes else None
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None
        self.steps = cut.workload.epilogue
        # An activation needs as many registers as a transform, so it is computed in a separate loop over a tile's
        # outputs.
        self.late = any(step.name in activation_f32.FUNCTIONS for step in self.steps)

    def numbers(self) -> tuple[tirx.Buffer, tirx.Buffer]:
        """Allocate a block's transformed data and its sums; with `in_place`, they share one buffer."""
        pitches = (self.cut.input_pitch, self.cut.output_pitch)
        found = [
            T.alloc_buffer((self.cut.params.block * pitch,), "float32", scope="global", layout=None)
            for pitch in pitches[: 1 if self.cut.in_place else 2]
        ]
        return found[0], found[-1]

    def block(self, first: ir.Expr, numbers: tuple[tirx.Buffer, tirx.Buffer], parallel: bool) -> None:
        """Emit the stages of the block that starts with tile `first`."""
        cut, (v, m) = self.cut, numbers
        full = cut.params.block
        count = i64(full) if cut.blocks == 1 else T.Bind(tirx.min(i64(full), cut.tiles - first))
        _over(
            count, cut.channels, full, parallel, lambda tile, c: self.transform_data(first + tile, tile, c, v)
        )
        self.multiply(v, m, count, parallel)
        _over(
            count,
            cut.columns,
            full,
            parallel,
            lambda tile, o: self.transform_output(first + tile, tile, o, m),
        )

    def transform_data(self, tile: ir.Expr, place: ir.Expr, channel: ir.Expr, v: tirx.Buffer) -> None:
        """Emit the data transform of four channels of a tile."""
        cut = self.cut
        size, m, (_, height, width, _) = cut.transform.size, cut.params.outputs, cut.padded
        image, row, column = self.where(tile)
        start = T.Bind(((image * height + row * m) * width + column * m) * cut.channels + channel)

        def data(j: int) -> list[ir.Var]:
            return [load(self.x, start + (i * width + j) * cut.channels, LANES) for i in range(size)]

        to = T.Bind(place * cut.input_pitch + (channel + cut.input_start))
        transform = cut.transform
        for i, line in transforms.square(transform.input_line, data, size, transform.input_parts):
            for j, value in enumerate(line):
                store(v, value, to + (i * size + j) * cut.channels, LANES)

    def multiply(self, v: tirx.Buffer, m: tirx.Buffer, count: ir.Expr, parallel: bool) -> None:
        """Emit the matrix products of a block of `count` tiles."""
        cut, width = self.cut, self.cut.params.vectors
        with (T.parallel if parallel else T.serial)(i64(0), i64(cut.products)) as product:
            if cut.full_panels:
                with T.serial(i64(0), i64(cut.full_panels)) as panel:
                    self.panel(v, m, count, product, T.Bind(panel * (width * LANES)), width)
            if cut.tail_vectors:
                self.panel(v, m, count, product, i64(cut.full_panels * width * LANES), cut.tail_vectors)

    def panel(
        self, v: tirx.Buffer, m: tirx.Buffer, count: ir.Expr, product: ir.Expr, column: ir.Expr, vectors: int
    ) -> None:
        """Emit matrix product `product` of a block's tiles by one panel of the weights."""
        cut, rows = self.cut, self.cut.params.rows
        b = T.Bind((product * cut.columns + column) * cut.channels)
        zero = [tirx.Broadcast(tirx.FloatImm("float32", 0.0), LANES)] * vectors

        def tiles(first: ir.Expr, height: int) -> None:
            own = cut.input_start + product * cut.channels
            a = [(first + r) * cut.input_pitch + own for r in range(height)]
            acc = fmla_tile.multiply(v, a, ((0, cut.channels),), self.u, b, zero, constant=True)
            to = T.Bind(first * cut.output_pitch + (product * cut.sums + column))
            for r in range(height):
                for at in range(vectors):
                    value = acc.vload([i64((r * vectors + at) * LANES)], "float32x4")
                    store(m, value, to + (r * cut.output_pitch + at * LANES), LANES)

        # Only the last block has fewer tiles.
        whole = T.Bind(tirx.floordiv(count, rows))
        if cut.tiles >= rows:
            with T.serial(i64(0), whole) as index:
                tiles(T.Bind(index * rows), rows)
        if cut.tiles % rows:
            with T.If(whole * rows < count), T.Then():
                tiles(T.Bind(whole * rows), cut.tiles % rows)

    def transform_output(self, tile: ir.Expr, place: ir.Expr, channel: ir.Expr, m: tirx.Buffer) -> None:
        """Emit the output transform of four channels of a tile, and the epilogue of its outputs inside the image."""
        _, down, across = self.cut.grid
        _, height, width, _ = self.cut.workload.output_shape
        image, row, column = self.where(tile)
        at = (image, row, column)

        def by_columns(rows: int) -> None:
            _last(
                column,
                across,
                width,
                self.cut.params.outputs,
                lambda n: self.finish(at, place, channel, m, (rows, n)),
            )

        _last(row, down, height, self.cut.params.outputs, by_columns)

    def finish(
        self,
        at: tuple[ir.Expr, ir.Expr, ir.Expr],
        place: ir.Expr,
        channel: ir.Expr,
        m: tirx.Buffer,
        part: tuple[int, int],
    ) -> None:
        """Emit the epilogue of the first `part` rows and columns of a tile's outputs."""
        cut, (image, row, column) = self.cut, at
        size, step, (_, height, width, _) = cut.transform.size, cut.params.outputs, cut.workload.output_shape
        start = T.Bind(place * cut.output_pitch + channel)

        def sums(j: int) -> list[ir.Var]:
            return [load(m, start + (i * size + j) * cut.sums, LANES) for i in range(size)]

        bias = load(self.bias, channel, LANES)
        to = T.Bind(((image * height + row * step) * width + column * step) * cut.columns + channel)

        def offset(i: ir.Expr | int, j: int) -> ir.Var:
            return T.Bind(to + (i * width + j) * cut.columns)

        parts = [[row for row in rows if row < part[0]] for rows in cut.transform.output_parts]
        for i, line in transforms.square(cut.transform.output_line, sums, size, parts):
            for j, value in enumerate(line[: part[1]]):
                if self.late:
                    store(self.output, value + bias, offset(i, j), LANES)
                else:
                    self.pixel(value + bias, offset(i, j), channel)
        if self.late:
            with T.serial(i64(0), i64(part[0])) as index:
                barrier()  # otherwise LLVM unrolls this loop, and keeps all rows in registers
                for j in range(part[1]):
                    self.pixel(load(self.output, offset(index, j), LANES), offset(index, j), channel)

    def pixel(self, value: ir.Expr, offset: ir.Expr, channel: ir.Expr) -> None:
        """Emit the epilogue of four channels of a pixel, without the bias."""
        slopes = epilogue_f32.slopes_at(self.slopes, channel)
        acc = T.alloc_buffer((LANES,), "float32", layout=None)
        store(acc, value, i64(0), LANES)
        epilogue_f32.finish(self.steps, acc, 0, LANES, self.output, offset, self.residual, slopes)

    def where(self, tile: ir.Expr) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
        """Return the image of a tile, and its row and column in the grid of tiles."""
        _, down, across = self.cut.grid
        line = T.Bind(tirx.floordiv(tile, across))
        return (
            T.Bind(tirx.floordiv(line, down)),
            T.Bind(tirx.floormod(line, down)),
            T.Bind(tirx.floormod(tile, across)),
        )


def _over(
    count: ir.Expr, channels: int, tiles: int, parallel: bool, emit: Callable[[ir.Expr, ir.Expr], None]
) -> None:
    """Emit a loop over tiles and vectors of four channels; with few tiles, parallel tasks also divide the channels."""
    vectors = channels // LANES
    wanted = -(-PARALLEL_TASKS // tiles) if parallel else 1
    parts = next((n for n in range(wanted, vectors) if vectors % n == 0), vectors) if wanted > 1 else 1
    with (T.parallel if parallel else T.serial)(i64(0), count * parts) as task:
        tile, part = (
            (task, i64(0)) if parts == 1 else (tirx.floordiv(task, parts), tirx.floormod(task, parts))
        )
        tile, part = T.Bind(tile), T.Bind(part * (vectors // parts))
        with T.serial(i64(0), i64(vectors // parts)) as vector:
            emit(tile, T.Bind((part + vector) * LANES))


def _last(index: ir.Expr, count: int, size: int, step: int, emit: Callable[[int], None]) -> None:
    """Emit the code for a full step and, in a branch, for the last of `count` steps if it is shorter."""
    rest = size % step
    if not rest:
        emit(step)
    elif count == 1:
        emit(rest)
    else:
        with T.If(index < count - 1):
            with T.Then():
                emit(step)
            with T.Else():
                emit(rest)
