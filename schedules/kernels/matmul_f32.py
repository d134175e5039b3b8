# SPDX-License-Identifier: Apache-2.0
"""fp32 matmul with constant B, [..., M, K] x [K, N]: register tiles of FMLA by lane, epilogue inside.

A is read where it lies: a tile loads four k of each of its rows as one vector and takes them by lane. B is packed at
compile time into panels of one tile's width, [N / width][K][width], and the last panel is as narrow as N allows. A
task is one panel times one block of rows; each element of the result is summed over k in order by one task,
so that it depends neither on tiles nor on threads.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load
from schedules.intrinsics.fmla import LANES
from schedules.kernel import Array, Match, Rejection
from schedules.kernels import epilogue_f32, fmla_tile
from schedules.workload import Workload

NAME = "matmul_f32"

TILES = (
    (6, 4),
    (5, 4),
    (4, 4),
    (3, 4),
    (2, 4),
    (2, 8),
    (1, 8),
    (1, 12),
    (8, 2),
    (9, 2),
    (14, 1),
    (12, 1),
    (8, 1),
)
"""(rows, vectors) of the register tiles worth considering."""

PARALLEL_CYCLES = 50_000
"""Calls below this many estimated cycles run on one thread: waking the pool takes about 10 us, which is half of them
at 2.5 GHz. Assumed, not measured."""

PARALLEL_TASKS = 32
"""Tasks of a parallel call, where there are rows enough: four threads then differ by an eighth at most."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        rows: Rows of a register tile.
        vectors: Columns of a register tile, in vectors of four.
        row_block: Rows that a task multiplies by one panel, a multiple of `rows`.
        parallel: Whether tasks are spread over the runtime's threads.
    """

    rows: int
    vectors: int
    row_block: int
    parallel: bool

    def __post_init__(self) -> None:
        fmla_tile.check_registers(self.rows, self.vectors)
        if self.row_block < self.rows or self.row_block % self.rows:
            raise ValueError(f"row_block {self.row_block} is not a multiple of {self.rows} rows")


@dataclass(frozen=True)
class _Cut:
    """The sizes that follow from a workload and its parameters; `width` and `tail_width` are in columns."""

    m: int
    n: int
    k: int
    params: Params

    @property
    def width(self) -> int:
        return self.params.vectors * LANES

    @property
    def panels(self) -> int:
        return self.n // self.width

    @property
    def tail_width(self) -> int:
        return -(-(self.n % self.width) // LANES) * LANES

    @property
    def padded_n(self) -> int:
        return self.panels * self.width + self.tail_width

    @property
    def tiles(self) -> int:
        """Full tiles of rows in all of A; `m % rows` rows follow them."""
        return self.m // self.params.rows

    @property
    def block_tiles(self) -> int:
        return self.params.row_block // self.params.rows

    @property
    def blocks(self) -> int:
        return max(1, -(-self.tiles // self.block_tiles))

    def register_tiles(self) -> Iterator[tuple[int, int, int]]:
        """The kinds of register tile: (rows, vectors, how many)."""
        for rows, tiles in ((self.params.rows, self.tiles), (self.m % self.params.rows, 1)):
            for width, panels in ((self.width, self.panels), (self.tail_width, 1)):
                if rows and width and tiles and panels:
                    yield rows, width // LANES, tiles * panels


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes `arm.linear` in float32 with a constant two-dimensional B."""
    dtypes = {operand.dtype for operand in workload.operands} | {workload.output_dtype}
    if workload.composite != "arm.linear":
        return Rejection(NAME, "composite is not a linear layer", "arm.linear", workload.composite)
    if dtypes != {"float32"}:
        return Rejection(NAME, "dtype is not float32", "float32", ", ".join(sorted(dtypes)))
    if workload.operands[1].kind != "constant":
        return Rejection(NAME, "B is not constant", "constant", workload.operands[1].kind)
    if len(workload.operands[1].shape) != 2:
        return Rejection(
            NAME, "B is batched", "2 dimensions", f"{len(workload.operands[1].shape)} dimensions"
        )
    if math.prod(workload.operands[0].shape) == 0 or math.prod(workload.output_shape) == 0:
        return Rejection(NAME, "a dimension is 0", "1 or more", str(workload.operands[0].shape))
    m, n, k = _sizes(workload)
    return Match(f"float32 matmul {m} x {k} by constant {k} x {n}")


def default(workload: Workload, core: Core) -> Params:
    """The candidate with the lowest estimate, then with the fewest instructions, then the first."""
    return min(
        candidates(workload, core),
        key=lambda params: (estimate(workload, params, core), instructions(workload, params)),
    )


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Every tile; a block's rows take half of L2 at most, and are fewer where threads need more tasks."""
    m, n, k = _sizes(workload)
    row_bytes = k * np.dtype(np.float32).itemsize
    found = []
    for rows, vectors in TILES:
        tiles, panels = -(-m // rows), -(-n // (vectors * LANES))
        l2_tiles = core.l2.size // 2 // row_bytes // rows
        serial = Params(rows, vectors, max(1, min(l2_tiles, tiles)) * rows, parallel=False)
        task_tiles = tiles // -(-PARALLEL_TASKS // panels)
        spread = Params(rows, vectors, max(1, min(l2_tiles, task_tiles)) * rows, parallel=True)
        big = estimate(workload, serial, core) >= PARALLEL_CYCLES
        found.append(spread if big and tiles * panels > 1 else serial)
    return tuple(found)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles on one core with all loads in L1: those of the register tiles."""
    k, steps = _sizes(workload)[2], len(workload.epilogue)
    tiles = _cut(workload, params).register_tiles()
    return sum(count * fmla_tile.cycles(rows, vectors, k, steps, core) for rows, vectors, count in tiles)


def instructions(workload: Workload, params: Params) -> float:
    """Instructions of one call; what lies outside the tiles, a few percent of small calls, is left out."""
    k, steps = _sizes(workload)[2], len(workload.epilogue)
    tiles = _cut(workload, params).register_tiles()
    return sum(count * fmla_tile.instructions(rows, vectors, k, steps) for rows, vectors, count in tiles)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """B in panels, flat, and the bias, zeros if there is none; both padded to the width of the last panel."""
    _, n, k = _sizes(workload)
    cut = _cut(workload, params)
    full_columns = cut.panels * cut.width
    b = np.zeros((k, cut.padded_n), np.float32)
    b[:, :n] = constants[workload.operands[1].index]
    full = b[:, :full_columns].reshape(k, cut.panels, cut.width).transpose(1, 0, 2)
    bias = np.zeros(cut.padded_n, np.float32)
    step = workload.step("bias")
    if step is not None and step.operand is not None:
        bias[:n] = constants[step.operand.index].ravel()
    return np.concatenate([full.ravel(), b[:, full_columns:].ravel()]), bias


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    cut = _cut(workload, params)
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [((cut.padded_n * cut.k,), "float32"), ((cut.padded_n,), "float32")]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = "_".join(("arm_linear_f32", *(step.name for step in workload.epilogue)))
    with kernel_function(name, arguments) as function:
        emitter = _Emitter(workload, cut, function.buffers)
        panels = cut.panels + (cut.tail_width > 0)
        with (T.parallel if params.parallel else T.serial)(i64(0), i64(cut.blocks * panels)) as task:
            block = T.Bind(tirx.floordiv(task, i64(panels)))
            panel = T.Bind(tirx.floormod(task, i64(panels)))
            emitter.task(block, panel)
    return function.prim_func


class _Emitter:
    """Emits the parts of one kernel, from the task inwards."""

    def __init__(self, workload: Workload, cut: _Cut, buffers: Sequence[tirx.Buffer]) -> None:
        residual = workload.step("residual")
        self.cut, self.steps = cut, workload.epilogue
        self.a = buffers[workload.operands[0].index]
        self.b, self.bias, self.output = buffers[-3:]
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None

    def task(self, block: ir.Expr, panel: ir.Expr) -> None:
        """One panel by one block of rows; the last panel is code of its own where it is narrower."""
        cut = self.cut
        if cut.panels and cut.tail_width:
            with T.If(panel < i64(cut.panels)):
                with T.Then():
                    self.rows(block, panel, cut.width, cut.width)
                with T.Else():
                    self.rows(block, panel, cut.tail_width, cut.n % cut.width)
        elif cut.panels:
            self.rows(block, panel, cut.width, cut.width)
        else:
            self.rows(block, panel, cut.tail_width, cut.n)

    def rows(self, block: ir.Expr, panel: ir.Expr, width: int, columns: int) -> None:
        """The tiles of one block; the rows left over at the end of A go with the last block."""
        cut, rows = self.cut, self.cut.params.rows
        first = block * cut.block_tiles
        if cut.tiles:
            count = i64(cut.tiles) if cut.blocks == 1 else tirx.min(i64(cut.block_tiles), cut.tiles - first)
            with T.serial(i64(0), count) as tile:
                self.tile(T.Bind((first + tile) * rows), rows, panel, width, columns)
        if cut.m % rows:
            with T.If(block == i64(cut.blocks - 1)), T.Then():
                self.tile(i64(cut.tiles * rows), cut.m % rows, panel, width, columns)

    def tile(self, row: ir.Expr, rows: int, panel: ir.Expr, width: int, columns: int) -> None:
        """One register tile and its epilogue: `columns` of the panel's `width` are part of the result."""
        cut, vectors = self.cut, width // LANES
        column = panel * cut.width
        start = [load(self.bias, column + LANES * v, LANES) for v in range(vectors)]
        a_rows = [(row + r) * cut.k for r in range(rows)]
        acc = fmla_tile.multiply(self.a, a_rows, self.b, column * cut.k, cut.k, start)
        for r in range(rows):
            offset = (row + r) * cut.n + column
            epilogue_f32.finish(self.steps, acc, r * width, columns, self.output, offset, self.residual)


def _sizes(workload: Workload) -> tuple[int, int, int]:
    """M (all leading dimensions of A folded), N and K."""
    k, n = workload.operands[1].shape
    return math.prod(workload.operands[0].shape) // k, n, k


def _cut(workload: Workload, params: Params) -> _Cut:
    return _Cut(*_sizes(workload), params)
