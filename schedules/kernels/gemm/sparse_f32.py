# SPDX-License-Identifier: Apache-2.0
"""float32 linear layers and 1 x 1 convolutions with mostly zero weights: products by zeros are skipped.

    for each tile of rows:
        panel[k][row] = x[row][k]
        for each column c, for each k with W[k, c] != 0:
            y[:, c] += panel[k][:] * W[k, c]

Each weight is multiplied by vectors of rows, so that nonzeros may be at any position: the tile of rows is transposed
first, and transposed back for the epilogue, four columns at a time. The nonzeros of a column are stored with their k in
the panel, padded to a multiple of four. On an in-order core, each product waits for its load, while a dense tile has
all operands in registers: this kernel does 0.20 and 0.29 FMLA per cycle (llvm-mca, Cortex-A53 and A55), a dense tile
0.93. It would need 70 to 80 % zeros to be faster, so it declines these cores.

Since products by zero weights are skipped, infinite or NaN data does not turn these products into NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import SPARSE_SHARE, Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.fmla import fmla_lane
from schedules.intrinsics.interleave import interleaved
from schedules.intrinsics.registers import LANES
from schedules.kernels.common import threads
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.gemm import packed_panels_f32
from schedules.kernels.gemm.packed_panels_f32 import Matrix
from schedules.kernels.gemm.product import GemmProduct, weights_by_column
from schedules.kernels.gemm.product_float import bias_of, product_of
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import i64, kernel_function, load, store

NAME = "sparse_f32"

VECTORS = 8
"""Vectors of rows in a tile: as many independent FMLA chains as fill two pipes at a latency of four cycles."""

TRANSPOSING = 16.0
"""Instructions to transpose a 4 x 4 block: loads, ZIPs, stores."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        parallel: Whether tiles of rows are spread over the runtime's threads.
    """

    parallel: bool = False


@dataclass(frozen=True)
class _SparseLayer:
    """A product with sparse weights.

    Attributes:
        product: The matrix product.
        nonzeros: Number of nonzero weights.
    """

    product: GemmProduct
    nonzeros: int

    @property
    def places(self) -> int:
        """Upper bound of the number of stored weights, with each column padded to a multiple of four."""
        return _fours(self.nonzeros) + self.columns * LANES

    @property
    def columns(self) -> int:
        """Number of columns, rounded up to a multiple of four."""
        return _fours(self.product.columns)

    @property
    def tiles(self) -> list[tuple[int, int, int]]:
        """Groups of tiles of equal size: (first row, rows per tile, number of tiles)."""
        whole, rest = divmod(self.product.rows.count, VECTORS * LANES)
        full = [(0, VECTORS * LANES, whole)] * (whole > 0)
        return [*full, *([(whole * VECTORS * LANES, rest, 1)] * (rest > 0))]


def _fours(count: int) -> int:
    return -(-count // LANES) * LANES


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept float32 products by constant weights, at least half of them 0, on out-of-order cores."""
    layer = _read(workload)
    if isinstance(layer, Diagnostic):
        return layer
    if not core.neon:
        return missing_feature(NAME, "neon", core)
    if core.vector_pipes == 1:
        return declined(
            NAME, "each product waits for a load on a core with one vector pipe", "2 vector pipes", core.name
        )
    share = layer.nonzeros / (layer.product.rows.depth * layer.product.columns)
    return KernelMatch(f"float32 product {layer.product}, {share:.0%} of its weights not 0")


def default(workload: Workload, core: Core) -> Params:
    """Return the only candidate."""
    return candidates(workload, core)[0]


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the only candidate, which is parallel if its estimate is long enough."""
    return (Params(estimate(workload, Params(), core) >= threads.PARALLEL_CYCLES),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core, with its inputs in L1."""
    layer = _layer(workload)
    total = 0.0
    for _, rows, count in layer.tiles:
        vectors = -(-rows // LANES)
        # Instructions per four weights: products, paired loads of vectors, loads of indices and weights, and the loop.
        instructions = LANES * (vectors * 1.5 + 2) + 5
        four = max(
            instructions / core.issue_width,
            LANES * vectors / core.vector_pipes,
            LANES * core.fmla_latency,
        )
        # Padding a column to a multiple of four adds one and a half weights on average.
        sums = (layer.nonzeros / LANES + layer.product.columns * 0.4) * four
        back = (
            layer.columns
            / LANES
            * vectors
            * (TRANSPOSING + LANES * (1 + epilogue_f32.instructions(workload.epilogue)))
        )
        around = layer.columns * (2 * vectors + 8)
        packing = layer.product.rows.depth / LANES * vectors * TRANSPOSING
        total += count * (sums + (back + around + packing) / core.issue_width)
    return total


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the nonzero weights, their panel rows, column starts (in fours), the bias and PReLU slopes, if any."""
    layer = _layer(workload)
    (weights,) = weights_by_column(workload, constants, layer.product)
    order = fmla_tile.order(layer.product.rows.segments)
    values, places, starts = [], [], [0]
    for column in weights[:, order]:
        (rows,) = np.nonzero(column)
        rest = -len(rows) % LANES
        values.append(np.pad(column[rows], (0, rest)))
        places.append(np.pad(rows, (0, rest)))
        starts.append(starts[-1] + (len(rows) + rest) // LANES)
    starts += [starts[-1]] * (layer.columns - layer.product.columns)
    bias = np.pad(
        bias_of(workload, constants, layer.product.columns), (0, layer.columns - layer.product.columns)
    )
    room = (0, layer.places - starts[-1] * LANES)
    return (
        np.pad(np.concatenate(values).astype("float32"), room),
        np.pad(np.concatenate(places).astype("int32"), room),
        np.array(starts, "int32"),
        bias.astype("float32"),
        *epilogue_f32.slopes_of(workload, constants, layer.product.columns),
    )


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    layer = _layer(workload)
    constants = [
        ((layer.places,), "float32"),
        ((layer.places,), "int32"),
        ((layer.columns + 1,), "int32"),
        ((layer.columns,), "float32"),
    ]
    if workload.step(epilogue_f32.PRELU):
        constants.append(((layer.product.columns,), "float32"))
    arguments = [*((operand.shape, operand.dtype) for operand in workload.inputs), *constants]
    arguments.append((workload.output_shape, workload.output_dtype))
    steps = (step.name for step in workload.epilogue)
    symbol = "_".join((workload.composite.replace(".", "_"), "sparse_f32", *steps))
    with kernel_function(symbol, arguments) as function:
        for first, rows, count in layer.tiles:
            with threads.each_of(count, params.parallel and count > 1) as tile:
                _SparseTile(workload, layer, function.buffers, rows).emit(first + tile * rows)
    assert function.prim_func is not None
    return function.prim_func


class _SparseTile:
    """Emits the code of a tile of rows."""

    def __init__(
        self, workload: Workload, layer: _SparseLayer, buffers: Sequence[tirx.Buffer], rows: int
    ) -> None:
        inputs = len(workload.inputs)
        self._workload, self._layer, self._rows = workload, layer, rows
        self._inputs, self._output = buffers[:inputs], buffers[-1]
        self._values, self._places, self._starts, self._bias, *slopes = buffers[inputs:-1]
        self._slopes = slopes[0] if slopes else None
        self._vectors = -(-rows // LANES)

    def emit(self, row: ir.Expr) -> None:
        rows, width = self._layer.product.rows, self._vectors * LANES
        row = T.Bind(row)
        panel = T.alloc_buffer((rows.depth * width,), "float32", layout=None)
        matrix = Matrix(rows.depth, self._rows, 1, rows.strides[2])
        x = self._inputs[self._workload.operands[0].index]
        packed_panels_f32.pack(x, rows.offset(row), matrix, self._rows, width, panel, i64(0))
        whole, rest = divmod(self._layer.product.columns, LANES)
        if whole:
            with T.serial(i64(0), i64(whole)) as four:
                self._four(panel, row, four, LANES)
        if rest:
            self._four(panel, row, i64(whole), rest)

    def _four(self, panel: tirx.Buffer, row: ir.Expr, four: ir.Expr, columns: int) -> None:
        """Emit the sums and the epilogue of four columns; only the first `columns` are part of the result."""
        width = self._vectors * LANES
        sums = T.alloc_buffer((LANES * width,), "float32", layout=None)
        with T.serial(i64(0), i64(LANES)) as column:
            self._column(panel, four * LANES + column, sums, column * width)
        step = self._workload.step("residual")
        residual = self._inputs[step.operand.index] if step and step.operand else None
        slopes = epilogue_f32.slopes_at(self._slopes, four * LANES)
        tile = T.alloc_buffer((width * LANES,), "float32", layout=None)
        for vector in range(self._vectors):
            lines = [load(sums, i64(column * width + vector * LANES), LANES) for column in range(LANES)]
            for lane, value in enumerate(interleaved(lines, "float32x4")):
                store(tile, value, i64((vector * LANES + lane) * LANES), LANES)
        for line in range(self._rows):
            offset = self._layer.product.target(row + line) + four * LANES
            epilogue_f32.finish(
                self._workload.epilogue, tile, line * LANES, columns, self._output, offset, residual, slopes
            )

    def _column(self, panel: tirx.Buffer, column: ir.Expr, sums: tirx.Buffer, at: ir.Expr) -> None:
        """Emit the sums of one column for all rows of the tile."""
        width = self._vectors * LANES
        acc = T.alloc_buffer((width,), "float32", layout=None)
        bias = load(self._bias, column, 1)
        for vector in range(self._vectors):
            store(acc, tirx.Broadcast(bias, LANES), i64(vector * LANES), LANES)
        start = T.Bind(tirx.Cast("int64", load(self._starts, column, 1)))
        stop = tirx.Cast("int64", load(self._starts, column + 1, 1))
        with T.serial(i64(0), T.Bind(stop - start)) as part:
            first = T.Bind((start + part) * LANES)
            weights = load(self._values, first, LANES)
            for lane in range(LANES):
                place = T.Bind(tirx.Cast("int64", load(self._places, first + lane, 1)) * width)
                for vector in range(self._vectors):
                    old = load(acc, i64(vector * LANES), LANES)
                    new = fmla_lane(old, load(panel, place + vector * LANES, LANES), weights, lane)
                    store(acc, new, i64(vector * LANES), LANES)
        for vector in range(self._vectors):
            store(sums, load(acc, i64(vector * LANES), LANES), at + vector * LANES, LANES)


def _layer(workload: Workload) -> _SparseLayer:
    return taken(_read(workload), workload)


def _read(workload: Workload) -> _SparseLayer | Diagnostic:
    product = product_of(workload, NAME)
    if isinstance(product, Diagnostic):
        return product
    if workload.nonzeros is None:
        return declined(
            NAME, "too few weights are 0", f"at least {1 - SPARSE_SHARE:.0%}", "fewer", unfit=True
        )
    rows = product.rows
    if product.groups > 1 or product.pad is not None or len(rows.segments) > 1:
        return declined(
            NAME, "it is no product of rows side by side", "a linear layer or 1 x 1", str(product)
        )
    (images, height, width), (image, line, pixel) = rows.shape, rows.strides
    if (height > 1 and line != width * pixel) or (images > 1 and image != height * line):
        return declined(NAME, "its rows are strided", "1", "more")
    return _SparseLayer(product, workload.nonzeros)
