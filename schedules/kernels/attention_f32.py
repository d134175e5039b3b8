# SPDX-License-Identifier: Apache-2.0
"""Attention in binary32 without a score matrix: a tile of rows at a time, from the scores to the result.

    y = softmax(q · k * scale + mask) · v

Keys and values of a head are packed once. Then for each tile of rows: its scores, by FMLA, into a buffer of those rows;
of each row the greatest score, the powers of the distances from it, and their sum; their product with the values, by
FMLA, times one over the sum. The buffer of scores is the tile's rows by the keys: L1 or L2 holds it, however long the
sequence. Nothing is computed twice, and no order depends on tiles or threads.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load, store, take
from schedules.intrinsics import exp_f32, sve
from schedules.intrinsics.exp_f32 import LOG2_E
from schedules.intrinsics.fmla import LANES
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import copies, fmla_tile, heads_f32, panels_f32, softmax_row, threads, tiling
from schedules.kernels.heads_f32 import Heads
from schedules.kernels.panels_f32 import Matrix
from schedules.workload import Workload

NAME = "attention_f32"

TILES = ((5, 4), (4, 4), (3, 4), (7, 3), (6, 3), (9, 2), (8, 2), (2, 8), (1, 8))
"""(rows, vectors) of the register tiles worth considering."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        rows: Rows of a register tile.
        vectors: Columns of a register tile, in vectors of four.
        parallel: Whether heads, and the tiles of their rows, are spread over the runtime's threads.
        sve: Whether instructions of SVE make the powers.
    """

    rows: int
    vectors: int
    parallel: bool = False
    sve: bool = False

    def __post_init__(self) -> None:
        fmla_tile.check_registers(self.rows, self.vectors)

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * LANES


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes float32 attention along the last axis, with any mask that broadcasts."""
    heads = heads_f32.heads_of(workload, NAME)
    if isinstance(heads, Rejection):
        return heads
    sizes = f"{heads.rows} x {heads.keys.columns}, depth {heads.keys.depth} and {heads.values.columns}"
    return Match(f"float32 attention of {math.prod(heads.lead)} heads {sizes}")


def default(workload: Workload, core: Core) -> Params:
    """The candidate with the lowest estimate."""
    return min(candidates(workload, core), key=lambda params: estimate(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Every tile; threads are woken twice, to pack and to multiply."""
    options = [Params(*tile, sve=sve.pays(core)) for tile in TILES]
    least = 2 * threads.PARALLEL_CYCLES
    return tuple(replace(each, parallel=estimate(workload, each, core) >= least) for each in options)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core with all loads in L1."""
    heads = _heads(workload)
    vectors = -(-heads.keys.columns // LANES)
    total = heads.rows * vectors * sum(softmax_row.INSTRUCTIONS[params.sve]) / core.issue_width
    for b in (heads.keys, heads.values):
        # A load, a store and, of the keys, a permutation.
        total += 3 * b.depth * b.columns / LANES / core.issue_width
        full, rest = divmod(heads.rows, params.rows)
        for rows, count in ((params.rows, full), (rest, 1)):
            for width, panels in _panels(b.columns, params.width):
                if rows and panels:
                    segments, after = ((0, b.depth),), rows * 1.5 * width / LANES
                    total += count * panels * fmla_tile.cycles(rows, width // LANES, segments, after, core)
    return total * math.prod(heads.lead)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Scale, to the base 2 where there is no mask, and constants in vectors; then the mask if it is constant."""
    scale, mask = workload.step("scale"), workload.step("mask")
    value = np.float32(1.0)
    if scale is not None and scale.operand is not None:
        value = constants[scale.operand.index].astype(np.float32).ravel()[0]
    if mask is None:
        value = np.float32(np.float64(value) * LOG2_E)
    values = np.array([value, *_constants(mask is not None, params)], np.float32)
    packed = [values.repeat(LANES)]
    if mask is not None and mask.operand is not None and mask.operand.kind == "constant":
        packed.append(constants[mask.operand.index])
    return tuple(packed)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    heads = _heads(workload)
    mask = workload.step("mask")
    constant = [mask.operand] if mask and mask.operand and mask.operand.kind == "constant" else []
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    values = 1 + len(_constants(mask is not None, params))
    arguments += [((values * LANES,), "float32"), *((operand.shape, operand.dtype) for operand in constant)]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function("arm_attention_f32", arguments) as function, sve.functions(params.sve):
        buffers = function.buffers
        scale = buffers[len(workload.inputs)]
        tensors = [buffers[operand.index] for operand in heads_f32.operands(workload)[:3]]
        if mask is not None and mask.operand is not None:
            tensors.append(buffers[-2] if constant else buffers[mask.operand.index])
        emitter = _Emitter(heads, params, tensors, scale, buffers[-1])
        count = math.prod(heads.lead)
        threads.each_packed(count, emitter.parts, params.parallel, emitter.pack, emitter.work)
    return function.prim_func


class _Emitter:
    """Emits part of a head, from the outside inwards."""

    def __init__(
        self,
        heads: Heads,
        params: Params,
        tensors: Sequence[tirx.Buffer],
        scale: tirx.Buffer,
        output: tirx.Buffer,
    ) -> None:
        self.heads, self.params, self.tensors = heads, params, tensors
        self.scale, self.output = scale, output
        self.vectors = -(-heads.keys.columns // LANES)
        self.parts = max(1, heads.rows // params.rows) if params.parallel else 1
        places = math.prod(heads.lead) if params.parallel else 1
        self.sizes = [-(-b.columns // LANES) * LANES * b.depth for b in (heads.keys, heads.values)]
        self.panels = [T.alloc_buffer((places * size,), "float32", layout=None) for size in self.sizes]

    def pack(self, index: ir.Expr, place: ir.Expr) -> None:
        """Packs keys and values of head `index`."""
        offsets = heads_f32.offsets(index, self.heads, len(self.tensors))[1:3]
        matrices, to = (self.heads.keys, self.heads.values), [place * size for size in self.sizes]
        for at, (b, offset) in enumerate(zip(matrices, offsets, strict=True)):
            self.packed(self.tensors[1 + at], T.Bind(offset), b, (self.panels[at], T.Bind(to[at])))

    def work(self, index: ir.Expr, place: ir.Expr, part: ir.Expr) -> None:
        """Goes through a part of the queries of head `index`."""
        heads, rows = self.heads, self.params.rows
        offsets = [T.Bind(offset) for offset in heads_f32.offsets(index, heads, len(self.tensors))]
        self.keys, self.values = (T.Bind(place * size) for size in self.sizes)
        output = T.Bind(index * (heads.rows * heads.values.columns))
        block = part, self.parts
        tiling.column_tiles(
            heads.rows, rows, block, lambda at, count: self.tile(offsets, output, T.Bind(at * rows), count)
        )

    def packed(
        self, source: tirx.Buffer, start: ir.Expr, b: Matrix, place: tuple[tirx.Buffer, ir.Expr]
    ) -> None:
        """All panels of a matrix: each as far from the last as its columns times the depth."""
        panels, to = place

        def one(first: ir.Expr, columns: int, width: int) -> None:
            panels_f32.pack(source, start + first * b.column, b, columns, width, panels, to + first * b.depth)

        self.over(b.columns, one)

    def over(self, columns: int, body: Callable[[ir.Expr, int, int], None]) -> None:
        """Emits `body` for each panel: (first column, columns that are real, width)."""
        width = self.params.width
        full, rest = divmod(columns, width)
        if full:
            with T.serial(i64(0), i64(full)) as panel:
                body(T.Bind(panel * width), width, width)
        if rest:
            body(i64(full * width), rest, -(-rest // LANES) * LANES)

    def tile(self, offsets: Sequence[ir.Expr], output: ir.Expr, row: ir.Expr, count: int) -> None:
        """`count` queries from `row`, from scores to the result."""
        heads = self.heads
        pitch = self.vectors * LANES
        scores = T.alloc_buffer((count * pitch,), "float32", layout=None)
        queries = [T.Bind(offsets[0] + (row + r) * heads.query) for r in range(count)]

        def score(first: ir.Expr, columns: int, width: int) -> None:
            zero = [tirx.Broadcast(tirx.FloatImm("float32", 0.0), LANES)] * (width // LANES)
            depth = heads.keys.depth
            b = self.keys + first * depth
            acc = fmla_tile.multiply(self.tensors[0], queries, ((0, depth),), self.panels[0], b, zero)
            scale = load(self.scale, i64(0), LANES)
            for r in range(count):
                for v in range(width // LANES):
                    value = acc.vload([i64(r * width + v * LANES)], "float32x4") * scale
                    column = first + v * LANES
                    if heads.mask is not None:
                        lanes = min(LANES, columns - v * LANES)
                        value = value + self.masked(offsets[3], row + r, column, lanes)
                    store(scores, value, column + r * pitch, LANES)

        self.over(heads.keys.columns, score)
        shares = T.alloc_buffer((count,), "float32", layout=None)
        held = _constants(heads.mask is not None, self.params)
        v = Vector(
            LANES,
            sve=self.params.sve,
            held={c: load(self.scale, i64((1 + at) * LANES), LANES) for at, c in enumerate(held)},
        )
        # Of code for each row, LLVM would make the constants of 2**y in the first and keep them on the stack.
        with T.serial(i64(0), i64(count)) as r:
            at = T.Bind(r * pitch)
            copies.fill(scores, at + heads.keys.columns, pitch - heads.keys.columns, float("-inf"))
            top = softmax_row.greatest(scores, at, self.vectors)
            place, base_e = (scores, at), heads.mask is not None
            total = softmax_row.powers(*place, *place, self.vectors, top, base_e=base_e, v=v)
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
                    store(self.output, part, where + at, lanes)

        self.over(heads.values.columns, result)

    def masked(self, start: ir.Expr, row: ir.Expr, column: ir.Expr, lanes: int) -> ir.Expr:
        """The mask of four keys, of which the first `lanes` are real, for one query."""
        assert self.heads.mask is not None
        query, key = self.heads.mask
        at = start + row * query + column * key
        mask = self.tensors[3]
        if key == 0:
            return tirx.Broadcast(load(mask, at, 1), LANES)
        if lanes == LANES:
            return load(mask, at, LANES)
        stage = T.alloc_buffer((LANES,), "float32", layout=None)
        copies.fill(stage, i64(0), LANES, 0)
        copies.copy(mask, at, stage, i64(0), lanes)
        return load(stage, i64(0), LANES)


def _constants(masked: bool, params: Params) -> tuple[float, ...]:
    return exp_f32.constants(base_e=masked, table=params.sve)


def _panels(columns: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(width, how many) of full panels, and of the last."""
    full, rest = divmod(columns, width)
    return (width, full), (-(-rest // LANES) * LANES, int(rest > 0))


def _heads(workload: Workload) -> Heads:
    return taken(heads_f32.heads_of(workload, NAME), workload)
