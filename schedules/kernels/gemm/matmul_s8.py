# SPDX-License-Identifier: Apache-2.0
"""int8 matrix products of two run-time tensors on SMMLA, SDOT or SMLSL, requantised in registers, or int32 sums.

    q[i, j] = requantize(sum over k of (a[i, k] - za) * (b[k, j] - zb))
    y[i, j] = sum over k of (a[i, k] - za) * (b[k, j] - zb)                 za and zb operands, known at run time

The columns of each matrix B are packed into panels once, the rows of A one tile at a time. The zero points cost one
instruction per packed vector, which sums the elements of columns weighted by za, and those of rows weighted by zb:

    sum of (a - za) * (b - zb) = K * za * zb - za * sum of b - zb * sum of a + sum of a * b

and the accumulators start from the first three. The extra terms of SMLSL's sums (see `run_time_instructions_s8`) cancel
in these three.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.pin import pins
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.kernels.common import threads, tiling
from schedules.kernels.common.contract import Array, KernelMatch, missing_feature, taken
from schedules.kernels.epilogues import requantize_step
from schedules.kernels.epilogues.requantize import INSTRUCTIONS, requantize16
from schedules.kernels.gemm import panel_tile_s8, run_time_product_s8
from schedules.kernels.gemm.packed_panels_s8 import Packer
from schedules.kernels.gemm.product_s8 import FLIP
from schedules.kernels.gemm.run_time_instructions_s8 import SMLSL, SUMS, units_of
from schedules.kernels.gemm.run_time_product_s8 import RunTimeProduct
from schedules.kernels.tiles.packed_tile import SDOT, SMMLA
from schedules.kernels.tiles.tile_stores import pieces
from schedules.numerics.binary32 import MAGIC_BITS
from schedules.tir.emit import i64, kernel_function, load, store

NAME = "matmul_s8"

UNITS = {unit.name: unit for unit in (SMMLA, SDOT, SMLSL)}

TILES = {
    "smmla": ((6, 4), (3, 8), (5, 4), (4, 4), (3, 4), (2, 8), (2, 4), (1, 8), (1, 4)),
    "sdot": ((3, 2), (2, 2), (1, 4), (1, 2)),
    "smlsl": ((2, 8),),
}
"""(vectors of rows, vectors of columns) of the register tiles worth considering, each of 8 or 16 columns."""


@dataclass(frozen=True)
class Params:
    """Tiling parameters of the kernel.

    Attributes:
        unit: "smmla", "sdot" or "smlsl".
        row_vectors: Vectors of rows of a register tile.
        column_vectors: Vectors of columns of a register tile.
        parallel: Whether the matrices of the batch, and parts of their row tiles, are spread over the runtime's
            threads.
    """

    unit: str
    row_vectors: int
    column_vectors: int
    parallel: bool = False

    def __post_init__(self) -> None:
        panel_tile_s8.check_registers(UNITS[self.unit], self.row_vectors, self.column_vectors)
        if self.columns not in (8, 16):
            raise ValueError(f"a tile of {self.columns} columns, whose rows are not 8 or 16 bytes")

    @property
    def rows(self) -> int:
        """Number of rows of a register tile."""
        return self.row_vectors * UNITS[self.unit].lines

    @property
    def columns(self) -> int:
        """Number of columns of a register tile."""
        return self.column_vectors * UNITS[self.unit].lines


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept products of two 8-bit run-time tensors, on cores with NEON."""
    product = run_time_product_s8.product_of(workload, NAME)
    if isinstance(product, Diagnostic):
        return product
    if not units_of(core):
        return missing_feature(NAME, " or ".join(u.feature for u in UNITS.values()), core)
    return KernelMatch(
        f"{math.prod(product.lead)} products {product.rows} x {product.a.depth} x {product.columns} of run time"
    )


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the parameters of every tile of the core's instructions; those of long calls are parallel."""
    options = [Params(unit.name, *tile) for unit in units_of(core) for tile in TILES[unit.name]]
    least = 2 * threads.PARALLEL_CYCLES
    return tuple(replace(each, parallel=estimate(workload, each, core) >= least) for each in options)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1."""
    product, unit = _product(workload), UNITS[params.unit]
    steps = -(-product.a.depth // unit.step)
    column_tiles = -(-product.columns // params.columns)
    # A packed vector takes a load, a store, a sum and one permutation, or two if it holds four lines (rows or columns).
    packed = (3 + math.log2(unit.lines)) * steps / core.issue_width
    total = column_tiles * params.column_vectors * packed
    full, rest = divmod(product.rows, params.rows)
    for rows, tiles in ((params.rows, full), (rest, 1)):
        vectors = -(-rows // unit.lines)
        if not vectors:
            continue
        outputs = vectors * unit.lines * params.columns
        # Requantisation, the initial accumulators, and stores.
        epilogue = outputs * (INSTRUCTIONS[product.form] + 1 / LANES + 3 / VECTOR) / core.issue_width
        loop = panel_tile_s8.cycles(unit, vectors, params.column_vectors, steps, core)
        total += tiles * (vectors * packed + column_tiles * (loop + epilogue))
    return total * math.prod(product.lead)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return float32 [multiplier (0 for int32 sums) four times, 0], and the zero points that are constants."""
    if (zeros := _product(workload).zeros) is not None:
        held = (constants[zero.index] for zero in zeros if zero.kind == "constant")
        return np.zeros(LANES + 1, np.float32), *held
    m = requantize_step.multipliers(workload, constants)
    return (np.concatenate([np.repeat(m, LANES), np.zeros(1, np.float32)]),)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product = _product(workload)
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    held = [zero for zero in product.zeros or () if zero.kind == "constant"]
    arguments += [((LANES + 1,), "float32"), *((zero.shape, zero.dtype) for zero in held)]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = f"{workload.composite.replace('.', '_')}_{params.unit}"
    with kernel_function(name, arguments) as function, pins():
        inputs, (m, *constants, output) = (
            function.buffers[: len(workload.inputs)],
            function.buffers[len(workload.inputs) :],
        )
        a, b, *zeros = (
            constants[held.index(operand)] if operand.kind == "constant" else inputs[operand.index]
            for operand in workload.operands
        )
        emitter = _Int8MatmulEmitter(product, params, (a, b), zeros, m, output)
        count = math.prod(product.lead)
        threads.each_packed(count, emitter.parts, params.parallel, emitter.pack, emitter.work)
    return function.prim_func


class _Int8MatmulEmitter:
    """Emits the packing and the computation of a batch of int8 products; methods for outer loops come first."""

    def __init__(
        self,
        product: RunTimeProduct,
        params: Params,
        operands: tuple[tirx.Buffer, tirx.Buffer],
        zeros: Sequence[tirx.Buffer],
        m: tirx.Buffer,
        output: tirx.Buffer,
    ) -> None:
        self.product, self.params, self.unit = product, params, UNITS[params.unit]
        (self.a, self.b), self.zeros, self.m, self.output = operands, zeros, m, output
        self.steps = -(-product.a.depth // self.unit.step)
        self.parts = max(1, product.rows // params.rows) if params.parallel else 1
        self.column_tiles = -(-product.columns // params.columns)
        tiles = self.column_tiles * (math.prod(product.lead) if params.parallel else 1)
        self.panels = T.alloc_buffer((tiles * self.panel_size,), "int8", layout=None)
        self.starts = T.alloc_buffer((tiles * params.column_vectors * LANES,), "int32", layout=None)

    def pack(self, index: ir.Expr, place: ir.Expr) -> None:
        """Emit the packing of the columns of matrix `index`."""
        self.load_zeros()
        product, params = self.product, self.params
        _, b = run_time_product_s8.offsets(index, product)
        start, first = T.Bind(b), T.Bind(place * self.column_tiles)
        packer = Packer(self.unit, product.b, self.b, self.panels, params.column_vectors, rows=False)

        def columns(tile: ir.Expr, count: int) -> None:
            at = T.Bind(start + tile * (params.columns * product.b.line))
            self.pack_columns(packer, at, first + tile, count)

        tiling.column_tiles(product.columns, params.columns, (i64(0), 1), columns)

    def work(self, index: ir.Expr, place: ir.Expr, part: ir.Expr) -> None:
        """Emit the products of a part of the rows of matrix A of product `index` by all columns of B."""
        self.load_zeros()
        product, params = self.product, self.params
        a = T.Bind(run_time_product_s8.offsets(index, product)[0])
        self.first_tile = T.Bind(place * self.column_tiles)
        self.none = T.Bind(tirx.Cast("int64", self.m.vload([i64(LANES)], "float32")))
        first = index * (product.rows * product.columns)

        def rows(tile: ir.Expr, count: int) -> None:
            row = T.Bind(tile * params.rows)
            self.row_tile(a + row * product.a.line, T.Bind(first + row * product.columns), count)

        tiling.column_tiles(product.rows, params.rows, (part, self.parts), rows)

    def load_zeros(self) -> None:
        """Emit the loads of the zero points that are operands; code that is emitted afterwards uses them."""
        if not self.zeros:
            return
        lines = (self.product.a, self.product.b)
        za, zb = (
            T.Bind(load(zero, i64(0), 1) - FLIP if line.flipped else load(zero, i64(0), 1))
            for zero, line in zip(self.zeros, lines, strict=True)
        )
        self.product = replace(self.product, a=replace(lines[0], zero=zb), b=replace(lines[1], zero=za))

    @property
    def panel_size(self) -> int:
        """Bytes of a panel of columns."""
        return self.steps * self.params.column_vectors * VECTOR

    def pack_columns(self, packer: Packer, start: ir.Expr, tile: ir.Expr, count: int) -> None:
        """Emit the packing of `count` columns, and the stores of their initial accumulators."""
        product, vectors = self.product, self.params.column_vectors
        sums = packer.pack(start, count, tile * self.panel_size)
        offset = (
            product.a.depth * product.a.zero * product.b.zero
            + SUMS[self.unit].extra * self.steps * product.b.zero
        )
        offset += MAGIC_BITS if product.form == "biased" else 0
        for vector in range(vectors):
            value = panel_tile_s8.in_accumulator(self.unit, offset)
            if packer.sums:
                value = value - sums.vload([i64(vector * LANES)], "int32x4")
            store(self.starts, value, (tile * vectors + vector) * LANES, LANES)

    def row_tile(self, a: ir.Expr, output: ir.Expr, count: int) -> None:
        """Emit the packing of `count` rows from offset `a`, and their products by every panel of columns."""
        product, params, unit = self.product, self.params, self.unit
        vectors = -(-count // unit.lines)
        panel = T.alloc_buffer((self.steps * vectors * VECTOR,), "int8", layout=None)
        packer = Packer(unit, product.a, self.a, panel, vectors, rows=True)
        sums = packer.pack(T.Bind(a), count, i64(0))
        rows: dict[tuple[int, int], ir.Expr] = {}
        if packer.sums:
            totals = [T.Bind(sums.vload([i64(v * LANES)], "int32x4")) for v in range(vectors)]
            rows = {
                (v, w): SUMS[unit].of_row(totals[v], w)
                for v in range(vectors)
                for w in range(unit.accumulators)
            }

        def column_tile(tile: ir.Expr, columns: int) -> None:
            width = params.column_vectors
            own = T.Bind(self.first_tile + tile)
            starts = [load(self.starts, (own * width + c) * LANES, LANES) for c in range(width)]
            acc = panel_tile_s8.multiply(
                unit,
                (panel, i64(0)),
                (self.panels, own * self.panel_size),
                (vectors, width),
                self.steps,
                lambda row, which, c: starts[c] - rows[row, which] if rows else starts[c],
                self.none,
            )
            if product.form == "none":
                self.put_sums(acc, (vectors, width), output + tile * params.columns, (count, columns))
                return
            m = [load(self.m, i64(0), LANES)] * 4

            def put(values: ir.Expr, at: int, lanes: int, rows: Sequence[int]) -> None:
                for row, part in zip(rows, pieces(values, lanes), strict=False):
                    if row < count:
                        where = output + (tile * params.columns + (row * product.columns + at))
                        tiling.store_part(self.output, part, where, min(lanes, columns - at))

            def requantize(block: Sequence[ir.Expr], _: Sequence[int]) -> ir.Expr:
                return requantize16(product.form, block, m, product.to)

            panel_tile_s8.put_rows(unit, acc, (vectors, width), requantize, put)

        tiling.column_tiles(product.columns, params.columns, (i64(0), 1), column_tile)

    def put_sums(
        self, acc: tirx.Buffer, vectors: tuple[int, int], output: ir.Expr, sizes: tuple[int, int]
    ) -> None:
        """Emit the stores of a tile's sums at offset `output`; `sizes` are its rows and columns without padding."""

        def put(values: ir.Expr, column: int, row: int) -> None:
            if row < sizes[0] and column < sizes[1]:
                where = output + (row * self.product.columns + column)
                tiling.store_part(self.output, values, where, min(LANES, sizes[1] - column))

        panel_tile_s8.put_sums(self.unit, acc, vectors, put)


def _product(workload: Workload) -> RunTimeProduct:
    return taken(run_time_product_s8.product_of(workload, NAME), workload)
