# SPDX-License-Identifier: Apache-2.0
"""Attention in binary32 without a score matrix in memory: one tile of queries at a time, from scores to result.

    y = softmax(q · k * scale + mask) · v

Keys and values of a head are packed once. Then, for each tile of queries, FMLA computes the scores into a buffer; for
each row of scores, the maximum, the exponentials of (score - maximum) and their sum are computed; FMLA multiplies the
exponentials by the values, and the result is divided by the sum. The buffer has the tile's queries by all keys, so
that it fits L1 or L2 for usual sequence lengths. No score is computed twice, and no order of a sum depends on tiles or
threads. float16 data is converted while it is packed, and a float16 result is rounded once.
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
from schedules.intrinsics import exp_f32, sve
from schedules.intrinsics.exp_f32 import LOG2_E
from schedules.intrinsics.pin import pins
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.attention import heads_f32
from schedules.kernels.attention.heads_f32 import AttentionHeads
from schedules.kernels.common import batch_axes, copies, float_data, threads, tiling
from schedules.kernels.common.contract import Array, KernelMatch, taken
from schedules.kernels.common.cost_model import scalar
from schedules.kernels.gemm import packed_panels_f32
from schedules.kernels.gemm.packed_panels_f32 import Matrix
from schedules.kernels.softmax import exponentials_f32
from schedules.kernels.tiles import fmla_tile
from schedules.tir.emit import converted, i64, kernel_function, load, store, take

NAME = "attention_f32"

TILES = ((5, 4), (4, 4), (3, 4), (7, 3), (6, 3), (9, 2), (8, 2), (2, 8), (1, 8))
"""(rows, vectors) of the register tiles worth considering."""


@dataclass(frozen=True)
class Params(fmla_tile.Params):
    """Tiling parameters of the kernel; a task is a head, or a part of the tiles of its queries."""


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept float32 or float16 attention along the last axis, with any mask that broadcasts."""
    heads = heads_f32.heads_of(workload, NAME)
    if isinstance(heads, Diagnostic):
        return heads
    sizes = f"{heads.rows} x {heads.keys.columns}, depth {heads.keys.depth} and {heads.values.columns}"
    what = float_data.named("attention", workload)
    return KernelMatch(f"{what} of {math.prod(heads.lead)} heads {sizes}")


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the parameters of every tile size; those of long calls are parallel."""
    options = [Params(*tile, sve=sve.pays(core)) for tile in TILES]
    least = 2 * threads.PARALLEL_CYCLES
    return tuple(replace(each, parallel=estimate(workload, each, core) >= least) for each in options)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1."""
    heads = _heads(workload)
    vectors = -(-heads.keys.columns // LANES)
    total = heads.rows * vectors * sum(exponentials_f32.INSTRUCTIONS[params.sve]) / core.issue_width
    around = float_data.around(workload, copied=workload.operands[0].dtype != "float32")
    total += around.cycles(core) * heads.rows * (heads.keys.depth + heads.values.columns) / LANES / 2
    for b in (heads.keys, heads.values):
        # Packing includes a conversion if the data is float16.
        packed = packed_panels_f32.PACKING + (workload.operands[1].dtype != "float32")
        total += packed * b.depth * b.columns / LANES / core.issue_width
        full, rest = divmod(heads.rows, params.rows)
        for rows, count in ((params.rows, full), (rest, 1)):
            for width, panels in packed_panels_f32.widths(b.columns, params.width):
                if rows and panels:
                    segments, after = ((0, b.depth),), scalar(rows * 1.5 * width / LANES)
                    total += count * panels * fmla_tile.cycles(rows, width // LANES, segments, after, core)
    return total * math.prod(heads.lead)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return scale (times log2 e if there is no mask) and exp's constants, each four times; then a constant mask."""
    scale, mask = workload.step("scale"), workload.step("mask")
    value = np.float32(1.0)
    if scale is not None and scale.operand is not None:
        value = constants[scale.operand.index].astype(np.float32).ravel()[0]
    if mask is None:
        value = np.float32(np.float64(value) * LOG2_E)
    values = np.array([value, *exp_f32.constants(base_e=mask is not None, table=params.sve)], np.float32)
    packed = [values.repeat(LANES)]
    if mask is not None and mask.operand is not None and mask.operand.kind == "constant":
        packed.append(constants[mask.operand.index])
    return tuple(packed)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    heads = _heads(workload)
    mask = workload.step("mask")
    constant = [mask.operand] if mask and mask.operand and mask.operand.kind == "constant" else []
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    values = 1 + len(exp_f32.constants(base_e=mask is not None, table=params.sve))
    arguments += [((values * LANES,), "float32"), *((operand.shape, operand.dtype) for operand in constant)]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function("arm_attention_f32", arguments) as function, sve.functions(params.sve), pins():
        buffers = function.buffers
        scale = buffers[len(workload.inputs)]
        tensors = [buffers[operand.index] for operand in heads_f32.operands(workload)[:3]]
        if mask is not None and mask.operand is not None:
            tensors.append(buffers[-2] if constant else buffers[mask.operand.index])
        emitter = _HeadEmitter(
            heads,
            (params.rows, params.width),
            tensors,
            scale,
            buffers[-1],
            parallel=params.parallel,
            sve=params.sve,
        )
        count = math.prod(heads.lead)
        threads.each_packed(count, emitter.parts, params.parallel, emitter.pack, emitter.work)
    return function.prim_func


def _heads(workload: Workload) -> AttentionHeads:
    return taken(heads_f32.heads_of(workload, NAME), workload)


class _HeadEmitter:
    """Emits the packing and the computation of attention heads."""

    def __init__(
        self,
        heads: AttentionHeads,
        tile: tuple[int, int],
        tensors: Sequence[tirx.Buffer],
        scale: tirx.Buffer,
        output: tirx.Buffer,
        *,
        parallel: bool,
        sve: bool,
    ) -> None:
        """Store the tensors, and set up the tile.

        Args:
            heads: Shapes of the attention heads.
            tile: Rows and columns of a register tile.
            tensors: q, k, v and the mask if there is one, flat, float32 or float16.
            scale: Scale of the scores, then the constants of exp, each repeated four times.
            output: Flat, float32 or float16.
            parallel: Whether heads run in parallel: each then has its own panels, and is computed in several parts.
            sve: Whether SVE instructions compute the exponentials.
        """
        self.heads, self.tensors, self.sve = heads, tensors, sve
        self.rows, self.width = tile
        self.scale, self.output = scale, output
        self.vectors = -(-heads.keys.columns // LANES)
        self.parts = max(1, heads.rows // self.rows) if parallel else 1
        places = math.prod(heads.lead) if parallel else 1
        self.sizes = [-(-b.columns // LANES) * LANES * b.depth for b in (heads.keys, heads.values)]
        self.panels = [T.alloc_buffer((places * size,), "float32", layout=None) for size in self.sizes]

    def offsets(self, index: ir.Expr) -> list[ir.Expr]:
        """Return the offsets of q, k, v and the mask for head `index`."""
        return batch_axes.offsets(index, self.heads.lead, self.heads.steps, len(self.tensors))

    def pack(self, index: ir.Expr, place: ir.Expr) -> None:
        """Emit the packing of keys and values of head `index`."""
        offsets = self.offsets(index)[1:3]
        matrices, to = (self.heads.keys, self.heads.values), [place * size for size in self.sizes]
        for at, (b, offset) in enumerate(zip(matrices, offsets, strict=True)):
            self.packed(self.tensors[1 + at], T.Bind(offset), b, (self.panels[at], T.Bind(to[at])))

    def work(self, index: ir.Expr, place: ir.Expr, part: ir.Expr) -> None:
        """Emit the computation for one part of the queries of head `index`."""
        heads, rows = self.heads, self.rows
        offsets = [T.Bind(offset) for offset in self.offsets(index)]
        self.keys, self.values = (T.Bind(place * size) for size in self.sizes)
        output = T.Bind(index * (heads.rows * heads.values.columns))
        block = part, self.parts
        tiling.column_tiles(
            heads.rows, rows, block, lambda at, count: self.tile(offsets, output, T.Bind(at * rows), count)
        )

    def packed(
        self, source: tirx.Buffer, start: ir.Expr, b: Matrix, place: tuple[tirx.Buffer, ir.Expr]
    ) -> None:
        """Emit the packing of all panels of a matrix."""
        panels, to = place

        def one(first: ir.Expr, columns: int, width: int) -> None:
            packed_panels_f32.pack(
                source, start + first * b.column, b, columns, width, panels, to + first * b.depth
            )

        packed_panels_f32.each_panel(b.columns, self.width, one)

    def tile(self, offsets: Sequence[ir.Expr], output: ir.Expr, row: ir.Expr, count: int) -> None:
        """Emit the scores, softmax and result of `count` queries from query `row` on."""
        heads = self.heads
        pitch = self.vectors * LANES
        scores = T.alloc_buffer((count * pitch,), "float32", layout=None)
        queries = [T.Bind(offsets[0] + (row + r) * heads.query) for r in range(count)]
        q = self.tensors[0]
        if str(q.dtype) != "float32":
            q, queries = tiling.staged(q, queries, heads.keys.depth, heads.keys.depth, "float32")

        def score(first: ir.Expr, columns: int, width: int) -> None:
            zero = [tirx.Broadcast(tirx.FloatImm("float32", 0.0), LANES)] * (width // LANES)
            depth = heads.keys.depth
            b = self.keys + first * depth
            acc = fmla_tile.multiply(q, queries, ((0, depth),), self.panels[0], b, zero)
            scale = load(self.scale, i64(0), LANES)
            for r in range(count):
                for v in range(width // LANES):
                    value = acc.vload([i64(r * width + v * LANES)], "float32x4") * scale
                    column = first + v * LANES
                    if heads.mask is not None:
                        lanes = min(LANES, columns - v * LANES)
                        value = value + self.masked(offsets[3], row + r, column, lanes)
                    store(scores, value, column + r * pitch, LANES)

        packed_panels_f32.each_panel(heads.keys.columns, self.width, score)
        shares = T.alloc_buffer((count,), "float32", layout=None)
        held = exp_f32.constants(base_e=heads.mask is not None, table=self.sve)
        v = Vector(
            LANES,
            sve=self.sve,
            held={c: load(self.scale, i64((1 + at) * LANES), LANES) for at, c in enumerate(held)},
        )
        # A loop, because in straight-line code for all rows LLVM would load the constants of exp for the first row and
        # spill them to the stack.
        with T.serial(i64(0), i64(count)) as r:
            at = T.Bind(r * pitch)
            copies.fill(scores, at + heads.keys.columns, pitch - heads.keys.columns, float("-inf"))
            top = exponentials_f32.greatest(scores, at, self.vectors)
            place, base_e = (scores, at), heads.mask is not None
            total = exponentials_f32.powers(*place, *place, self.vectors, top, base_e=base_e, v=v)
            store(shares, tirx.FloatImm("float32", 1.0) / total, r, 1)

        def result(first: ir.Expr, columns: int, width: int) -> None:
            zero = [tirx.Broadcast(tirx.FloatImm("float32", 0.0), LANES)] * (width // LANES)
            depth = heads.values.depth
            rows = [i64(r * pitch) for r in range(count)]
            b = self.values + first * depth
            acc = fmla_tile.multiply(scores, rows, ((0, depth),), self.panels[1], b, zero)
            for r in range(count):
                where = output + (row + r) * heads.values.columns + first
                for at, lanes in copies.pieces(columns, LANES):
                    vector = acc.vload([i64(r * width + at // LANES * LANES)], "float32x4")
                    value = T.Bind(vector * tirx.Broadcast(load(shares, i64(r), 1), LANES))
                    part = value if lanes == LANES else take(value, at % LANES, lanes)
                    store(self.output, converted(part, str(self.output.dtype)), where + at, lanes)

        packed_panels_f32.each_panel(heads.values.columns, self.width, result)

    def masked(self, start: ir.Expr, row: ir.Expr, column: ir.Expr, lanes: int) -> ir.Expr:
        """Emit the load of one query's mask for four keys, as float32x4; only the first `lanes` keys exist."""
        assert self.heads.mask is not None
        query, key = self.heads.mask
        at = start + row * query + column * key
        mask = self.tensors[3]
        if key == 0:
            return tirx.Broadcast(converted(load(mask, at, 1), "float32"), LANES)
        if lanes == LANES:
            return converted(load(mask, at, LANES), "float32")
        stage = T.alloc_buffer((LANES,), "float32", layout=None)
        copies.fill(stage, i64(0), LANES, 0)
        copies.copy(mask, at, stage, i64(0), lanes)
        return load(stage, i64(0), LANES)
