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
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load, store, take
from schedules.intrinsics.exp_f32 import LOG2_E
from schedules.intrinsics.fmla import LANES
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import copies, fmla_tile, heads_f32, panels_f32, softmax_row
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
        parallel: Whether heads are spread over the runtime's threads.
    """

    rows: int
    vectors: int
    parallel: bool = False

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
    """Every tile; several heads are spread over threads."""
    parallel = math.prod(_heads(workload).lead) > 1
    return tuple(Params(*tile, parallel) for tile in TILES)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core with all loads in L1."""
    heads = _heads(workload)
    vectors = -(-heads.keys.columns // LANES)
    softmax = heads.rows * vectors * sum(softmax_row.INSTRUCTIONS) / core.issue_width
    total = softmax
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
    """The scale in every lane of a vector, to the base 2 where there is no mask; then the mask if it is constant."""
    scale, mask = workload.step("scale"), workload.step("mask")
    value = np.float32(1.0)
    if scale is not None and scale.operand is not None:
        value = constants[scale.operand.index].astype(np.float32).ravel()[0]
    if mask is None:
        value = np.float32(np.float64(value) * LOG2_E)
    packed = [np.full(LANES, value, np.float32)]
    if mask is not None and mask.operand is not None and mask.operand.kind == "constant":
        packed.append(constants[mask.operand.index])
    return tuple(packed)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    heads = _heads(workload)
    mask = workload.step("mask")
    constant = [mask.operand] if mask and mask.operand and mask.operand.kind == "constant" else []
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [((LANES,), "float32"), *((operand.shape, operand.dtype) for operand in constant)]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function("arm_attention_f32", arguments) as function:
        buffers = function.buffers
        scale = buffers[len(workload.inputs)]
        tensors = [buffers[operand.index] for operand in heads_f32.operands(workload)[:3]]
        if mask is not None and mask.operand is not None:
            tensors.append(buffers[-2] if constant else buffers[mask.operand.index])
        emitter = _Emitter(heads, params, tensors, scale, buffers[-1])
        with (T.parallel if params.parallel else T.serial)(i64(0), i64(math.prod(heads.lead))) as index:
            emitter.head(index)
    return function.prim_func


class _Emitter:
    """Emits one head, from the outside inwards."""

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

    def head(self, index: ir.Expr) -> None:
        """Packs keys and values of head `index`, then goes through its queries."""
        heads, rows = self.heads, self.params.rows
        offsets = [T.Bind(offset) for offset in heads_f32.offsets(index, heads, len(self.tensors))]
        self.keys = self.packed(self.tensors[1], offsets[1], heads.keys)
        self.values = self.packed(self.tensors[2], offsets[2], heads.values)
        output = T.Bind(index * (heads.rows * heads.values.columns))
        full, rest = divmod(heads.rows, rows)
        if full:
            with T.serial(i64(0), i64(full)) as tile:
                self.tile(offsets, output, T.Bind(tile * rows), rows)
        if rest:
            self.tile(offsets, output, i64(full * rows), rest)

    def packed(self, source: tirx.Buffer, start: ir.Expr, b: Matrix) -> tirx.Buffer:
        """All panels of a matrix: each as far from the last as its columns times the depth."""
        panels = T.alloc_buffer((-(-b.columns // LANES) * LANES * b.depth,), "float32", layout=None)

        def one(first: ir.Expr, columns: int, width: int) -> None:
            panels_f32.pack(source, start + first * b.column, b, columns, width, panels, first * b.depth)

        self.over(b.columns, one)
        return panels

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
            acc = fmla_tile.multiply(self.tensors[0], queries, ((0, depth),), self.keys, first * depth, zero)
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
        shares = []
        for r in range(count):
            at = i64(r * pitch)
            copies.fill(scores, at + heads.keys.columns, pitch - heads.keys.columns, float("-inf"))
            top = softmax_row.greatest(scores, at, self.vectors)
            base_e = heads.mask is not None
            total = softmax_row.powers(scores, at, scores, at, self.vectors, top, base_e=base_e)
            shares.append(T.Bind(tirx.FloatImm("float32", 1.0) / total))

        def result(first: ir.Expr, columns: int, width: int) -> None:
            zero = [tirx.Broadcast(tirx.FloatImm("float32", 0.0), LANES)] * (width // LANES)
            depth = heads.values.depth
            rows = [i64(r * pitch) for r in range(count)]
            acc = fmla_tile.multiply(scores, rows, ((0, depth),), self.values, first * depth, zero)
            for r in range(count):
                where = output + (row + r) * heads.values.columns + first
                for at, lanes in copies.pieces(columns, LANES):
                    vector = acc.vload([i64(r * width + at // LANES * LANES)], "float32x4")
                    value = T.Bind(vector * tirx.Broadcast(shares[r], LANES))
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


def _panels(columns: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(width, how many) of full panels, and of the last."""
    full, rest = divmod(columns, width)
    return (width, full), (-(-rest // LANES) * LANES, int(rest > 0))


def _heads(workload: Workload) -> Heads:
    return taken(heads_f32.heads_of(workload, NAME), workload)
