# SPDX-License-Identifier: Apache-2.0
"""Batched float32 matmul of two run-time tensors: register tiles of FMLA by lane, epilogue inside.

    y[i, j] = epilogue(sum over k of a[i, k] * b[k, j])

Axes may be permuted before the product, and leading axes broadcast: both only change strides. Rows of A are read
without packing. The columns of each matrix B are packed into panels once. B is not packed, except for columns that do
not fill a vector, if one tile has all rows of A, so that each element of B is used once. Sums have the order of
`gemm_f32`, which depends neither on tiles nor on threads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Operand, Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sve
from schedules.intrinsics.registers import LANES
from schedules.kernels.common import batch_axes, threads, tiling
from schedules.kernels.common.contract import Array, KernelMatch, declined, taken
from schedules.kernels.epilogues import activation_f32, epilogue_f32
from schedules.kernels.gemm import packed_panels_f32
from schedules.kernels.gemm.gemm_f32 import TILES
from schedules.kernels.gemm.packed_panels_f32 import PACKING, Matrix
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import i64, kernel_function, load, splat

NAME = "matmul_f32"

COMPOSITE = "arm.matmul_f32"

MATRIX = 2
"""Number of axes of a matrix, which are the last of a tensor."""


@dataclass(frozen=True)
class Params(fmla_tile.Params):
    """Tiling parameters of the kernel; a task is a matrix of the batch, or a part of its row tiles."""


@dataclass(frozen=True)
class BatchedProduct:
    """A batch of matrix products.

    Attributes:
        lead: Leading axes of the result.
        rows: Number of rows of each matrix A; a row is contiguous.
        row_step: Distance in elements between two rows of A.
        b: Layout of each matrix B.
        steps: For each leading axis, the distances in elements between two matrices A and between two matrices B.
    """

    lead: tuple[int, ...]
    rows: int
    row_step: int
    b: Matrix
    steps: tuple[tuple[int, ...], ...]

    def packs(self, params: Params, columns: int) -> bool:
        """Whether a panel with this number of columns is packed."""
        return self.rows > params.rows or self.b.column != 1 or columns % LANES > 0


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept float32 products of two run-time tensors."""
    product = _parsed(workload)
    if isinstance(product, Diagnostic):
        return product
    sizes = f"{product.rows} x {product.b.depth} x {product.b.columns}"
    return KernelMatch(f"{math.prod(product.lead)} float32 products {sizes} of run time")


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the parameters of every tile that fits the registers; those of long calls are parallel."""
    by_sve = sve.pays(core) and any(step.name in activation_f32.POLYNOMIALS for step in workload.epilogue)
    options = [Params(*tile, sve=by_sve) for tile in TILES if fmla_tile.fits(*tile, core)]
    least = 2 * threads.PARALLEL_CYCLES
    return tuple(replace(each, parallel=estimate(workload, each, core) >= least) for each in options)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1."""
    product, of_vector = _product(workload), epilogue_f32.cost(workload.epilogue)
    b, total = product.b, 0.0
    full, rest = divmod(product.rows, params.rows)
    kinds = packed_panels_f32.widths(b.columns, params.width)
    for (width, panels), columns in zip(kinds, (params.width, b.columns % params.width), strict=True):
        vectors = width // LANES
        if product.packs(params, columns):
            total += panels * PACKING * b.depth * vectors / core.issue_width
        for rows, tiles in ((params.rows, full), (rest, 1)):
            if rows and panels:
                after = of_vector * (rows * vectors)
                total += tiles * panels * fmla_tile.cycles(rows, vectors, ((0, b.depth),), after, core)
    return total * math.prod(product.lead)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return a constant operand unchanged, and the bias padded to whole vectors."""
    packed = [constants[operand.index] for operand in _constants(workload)]
    if (bias := _bias(workload)) is not None:
        values = constants[bias.index].ravel()
        packed.append(np.pad(values, (0, -len(values) % LANES)))
    return tuple(packed)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product, held, bias = _product(workload), _constants(workload), _bias(workload)
    arguments = [(operand.shape, operand.dtype) for operand in (*workload.inputs, *held)]
    if bias is not None:
        arguments.append(((-(-product.b.columns // LANES) * LANES,), "float32"))
    arguments.append((workload.output_shape, workload.output_dtype))
    name = "_".join((workload.composite.replace(".", "_"), *(step.name for step in workload.epilogue)))
    with kernel_function(name, arguments) as function, sve.functions(params.sve):
        emitter = _FloatMatmulEmitter(workload, params, function.buffers)
        count, parts = math.prod(product.lead), emitter.parts
        if emitter.panel_size:
            threads.each_packed(count, parts, params.parallel, emitter.pack, emitter.work)
        else:
            threads.each_part(
                count, parts, params.parallel, lambda index, part: emitter.work(index, i64(0), part)
            )
    return function.prim_func


class _FloatMatmulEmitter:
    """Emits the packing and the computation of a batch of products."""

    def __init__(self, workload: Workload, params: Params, buffers: Sequence[tirx.Buffer]) -> None:
        inputs, held = len(workload.inputs), _constants(workload)
        self.workload, self.params, self.product = workload, params, _product(workload)
        self.a, self.b = (
            buffers[inputs + held.index(operand) if operand.kind == "constant" else operand.index]
            for operand in workload.operands
        )
        self.bias = buffers[-2] if _bias(workload) is not None else None
        residual = workload.step("residual")
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None
        self.output = buffers[-1]
        product, b = self.product, self.product.b
        self.parts = max(1, product.rows // params.rows) if params.parallel else 1
        # Pack all panels, or only the last one if its columns do not fill whole vectors.
        (_, full), (last, _) = packed_panels_f32.widths(b.columns, params.width)
        self.first_packed = 0 if product.packs(params, params.width) else full * params.width
        packed = product.packs(params, b.columns - self.first_packed)
        self.panel_size = (full * params.width + last - self.first_packed) * b.depth if packed else 0
        places = math.prod(product.lead) if params.parallel else 1
        if packed:
            self.panels = T.alloc_buffer((places * self.panel_size,), "float32", layout=None)

    def pack(self, index: ir.Expr, place: ir.Expr) -> None:
        """Emit the packing of matrix B of product `index`."""
        b = self.product.b
        start, to = T.Bind(self.offsets(index)[1]), T.Bind(place * self.panel_size)

        def one(first: ir.Expr, columns: int, width: int) -> None:
            if self.product.packs(self.params, columns):
                at = to + (first - self.first_packed) * b.depth
                packed_panels_f32.pack(self.b, start + first * b.column, b, columns, width, self.panels, at)

        packed_panels_f32.each_panel(b.columns, self.params.width, one)

    def work(self, index: ir.Expr, place: ir.Expr, part: ir.Expr) -> None:
        """Emit one part of the rows of product `index`: for each panel, all tiles of these rows."""
        product, params = self.product, self.params
        a, b = (T.Bind(offset) for offset in self.offsets(index))
        packed, output = T.Bind(place * self.panel_size), T.Bind(index * (product.rows * product.b.columns))

        def panel(first: ir.Expr, columns: int, width: int) -> None:
            source: tuple[tirx.Buffer, ir.Expr, int | None]
            if product.packs(params, columns):
                source = self.panels, packed + (first - self.first_packed) * product.b.depth, None
            else:
                source = self.b, b + first, product.b.k

            def rows(tile: ir.Expr, count: int) -> None:
                row = T.Bind(tile * params.rows)
                a_rows = [T.Bind(a + (row + r) * product.row_step) for r in range(count)]
                buffer, at, pitch = source
                start, segments = self.start(first, width), ((0, product.b.depth),)
                acc = fmla_tile.multiply(self.a, a_rows, segments, buffer, at, start, pitch)
                for r in range(count):
                    epilogue_f32.finish(
                        self.workload.epilogue,
                        acc,
                        r * width,
                        columns,
                        self.output,
                        output + ((row + r) * product.b.columns + first),
                        self.residual,
                        sve=params.sve,
                    )

            tiling.column_tiles(product.rows, params.rows, (part, self.parts), rows)

        packed_panels_f32.each_panel(product.b.columns, params.width, panel)

    def offsets(self, index: ir.Expr) -> list[ir.Expr]:
        """Return the offsets of matrices A and B of product `index`."""
        return batch_axes.offsets(index, self.product.lead, self.product.steps, 2)

    def start(self, first: ir.Expr, width: int) -> list[ir.Expr]:
        """Return the initial accumulators, one float32x4 per four columns from `first`: the bias, or zeros."""
        if self.bias is None:
            return [splat(0.0, "float32", LANES)] * (width // LANES)
        return [load(self.bias, first + v * LANES, LANES) for v in range(width // LANES)]


def _constants(workload: Workload) -> list[Operand]:
    return [operand for operand in workload.operands if operand.kind == "constant"]


def _bias(workload: Workload) -> Operand | None:
    step = workload.step("bias")
    return step.operand if step is not None else None


def _product(workload: Workload) -> BatchedProduct:
    return taken(_parsed(workload), workload)


def _parsed(workload: Workload) -> BatchedProduct | Diagnostic:
    """Return the batch of products that a workload computes, or a rejection."""
    if workload.composite != COMPOSITE:
        return declined(
            NAME, "composite is no float product of run time", COMPOSITE, workload.composite, unfit=True
        )
    a, b = workload.operands
    dtypes = {a.dtype, b.dtype, workload.output_dtype}
    if dtypes != {"float32"}:
        return declined(NAME, "dtype is not float32", "float32", ", ".join(sorted(dtypes)), unfit=True)
    rank = min(len(a.shape), len(b.shape))
    if rank < MATRIX:
        return declined(NAME, "an operand is no matrix", f"{MATRIX} dimensions or more", str(rank))
    if 0 in (*a.shape, *b.shape):
        return declined(NAME, "a dimension is 0", "1 or more", f"{a.seen}, {b.seen}")
    if a.strides[-1] != 1 or 1 not in b.strides[-2:]:
        return declined(NAME, "neither rows nor columns are contiguous", "1", f"{a.strides}, {b.strides}")
    lead = np.broadcast_shapes(a.seen[:-2], b.seen[:-2])
    return BatchedProduct(
        lead=lead,
        rows=a.seen[-2],
        row_step=a.strides[-2],
        b=Matrix(b.seen[-2], b.seen[-1], b.strides[-2], b.strides[-1]),
        steps=tuple(zip(*(batch_axes.strides(x, len(lead) + 2)[:-2] for x in (a, b)), strict=True)),
    )
