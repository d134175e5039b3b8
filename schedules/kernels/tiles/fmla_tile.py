# SPDX-License-Identifier: Apache-2.0
"""The float32 register tile: unpacked rows of A times one panel of B, by FMLA with a lane of A."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics.fmla import fmla_lane
from schedules.intrinsics.opaque import opaque_view
from schedules.intrinsics.registers import LANES, REGISTERS, check_tile
from schedules.kernels.common.cost_model import LOOP_OVERHEAD, Cost, arithmetic
from schedules.tir.emit import i64, load, store

PARTS = ((4, 3), (2, 2))
"""(vectors of a row of A that one loop iteration takes, fewest iterations). The vectors are as far from each other as
the loop is long: LLVM would load neighbours at once, and put accumulators on the stack to have room for them."""

STREAMING_REGISTERS = 4
"""Registers for B inside a tile: the pair of vectors that one LDP brings, and two in which LLVM's schedulers let loads
run ahead. With two fewer, they put accumulators on the stack inside of the loop (6 x 4 and 5 x 5 on most cores)."""


def registers(rows: int, vectors: int) -> int:
    """Count a tile's vector registers: accumulators, vectors of A, and vectors of B."""
    return rows * vectors + rows + STREAMING_REGISTERS


def fits(rows: int, vectors: int, core: Core) -> bool:
    """Whether LLVM compiles the tile for a core without spills."""
    return registers(rows, vectors) + core.loop_registers <= REGISTERS


def check_registers(rows: int, vectors: int) -> None:
    """Raise ValueError if a tile needs more registers than the register file has."""
    check_tile(f"a tile of {rows} x {vectors} vectors", (rows, vectors), registers(rows, vectors))


@dataclass(frozen=True)
class Params:
    """Tiling parameters of a kernel whose tasks are tiles, each with its sum over all k.

    Attributes:
        rows: Rows of a register tile.
        vectors: Number of vectors of four columns of a register tile.
        parallel: Whether tasks are spread over the runtime's threads.
        sve: Whether activations and exponentials use SVE instructions.
    """

    rows: int
    vectors: int
    parallel: bool = False
    sve: bool = False

    def __post_init__(self) -> None:
        check_registers(self.rows, self.vectors)

    @property
    def width(self) -> int:
        """Number of columns of a tile."""
        return self.vectors * LANES


def instructions(rows: int, vectors: int, segments: Sequence[tuple[int, int]]) -> float:
    """Return the number of instructions of one tile: initial accumulators and sum over k."""
    total = float(rows * vectors)
    for _, length in segments:
        a_loads = -(-length // LANES) if length >= LANES else length
        total += length * vectors * (rows + 1 / 2) + rows * a_loads
        total += LOOP_OVERHEAD * unrolled(length)[1]
    return total


def unrolled(length: int) -> tuple[int, int]:
    """Return (vectors per iteration, iterations) of the loop over a segment's vectors; 0 iterations for no loop.

    The loop defines the order of the sum: iteration i sums vectors i, i + iterations, i + 2 * iterations, ...
    """
    vectors = length // LANES
    parts = next((parts for parts, least in PARTS if vectors >= least * parts), 0)
    return parts, vectors // parts if parts else 0


def order(segments: Sequence[tuple[int, int]]) -> list[int]:
    """Return the k index, counted through the segments, of each row of a panel, in the order of the sum."""
    found: list[int] = []
    first = 0
    for _, length in segments:
        parts, trips = unrolled(length)
        vectors = [trip + part * trips for trip in range(trips) for part in range(parts)]
        found += [first + vector * LANES + lane for vector in vectors for lane in range(LANES)]
        found += range(first + len(vectors) * LANES, first + length)
        first += length
    return found


def cycles(rows: int, vectors: int, segments: Sequence[tuple[int, int]], after: Cost, core: Core) -> float:
    """Return the cycles of one tile with all loads in L1.

    The sum over k takes the maximum of the cycles of dispatch, FMLA pipes and dependent FMLAs; the code around the sum
    takes the maximum of dispatch and pipes.

    Args:
        rows: Number of rows of the tile.
        vectors: Number of vectors of columns of the tile.
        segments: (offset from the row's start, length) of each contiguous piece of a row's k.
        after: Cost of the epilogue and the stores.
        core: Core to estimate cycles for.
    """
    k, outside = sum(length for _, length in segments), rows * vectors
    dispatch = (instructions(rows, vectors, segments) - outside) / core.issue_width
    loop = max(dispatch, k * rows * vectors / core.vector_pipes, k * core.fmla_latency)
    return loop + (arithmetic(outside) + after).cycles(core)


def multiply(
    a: tirx.Buffer,
    a_rows: Sequence[ir.Expr],
    segments: Sequence[tuple[int, int]],
    b: tirx.Buffer,
    b_panel: ir.Expr,
    start: Sequence[ir.Expr],
    pitch: int | None = None,
    *,
    constant: bool = False,
) -> tirx.Buffer:
    """Emit one tile's sum over k.

    All loads and stores of accumulators are whole vectors at constant offsets, so that LLVM keeps them in registers.

    Args:
        a: Flat float32.
        a_rows: Offset in `a` of each row of the tile.
        segments: (offset from the row's start, length) of each contiguous piece of a row's k.
        b: Flat float32; a panel is [k][4 * len(start)].
        b_panel: Offset in `b` of the panel.
        start: Initial value of each vector of four columns, the same for all rows.
        pitch: Distance in elements between two rows of B, if B is unpacked, in ascending k; None if B is a packed
            panel.
        constant: Whether the PrimFunc never writes to `b`, and the call is within `opaque.opaques`.

    Returns:
        The accumulators, float32 [len(a_rows)][4 * len(start)], flat.
    """
    # No scope "local": TVM would allocate the buffer from the workspace pool, and LLVM cannot remove stores to heap
    # memory.
    acc = T.alloc_buffer((len(a_rows) * len(start) * LANES,), "float32", layout=None)
    for row in range(len(a_rows)):
        for column, value in enumerate(start):
            store(acc, value, i64((row * len(start) + column) * LANES), LANES)
    tile = TileBuffers(a, b, acc, len(start), pitch, constant)
    panel = b_panel
    for first, step, count, length in runs(segments):
        size = length * tile.row_step
        if count == 1:
            tile.segment([offset + first for offset in a_rows], panel, length)
        else:
            with T.serial(i64(0), i64(count)) as index:
                at = T.Bind(index * step + first)
                tile.segment([offset + at for offset in a_rows], T.Bind(panel + index * size), length)
        panel = panel + count * size
    return acc


def runs(segments: Sequence[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Return groups of consecutive segments of equal length and distance: (first offset, distance, number, length)."""
    found: list[tuple[int, int, int, int]] = []
    for offset, length in segments:
        if found:
            first, step, count, size = found[-1]
            if size == length and (count == 1 or offset == first + step * count):
                found[-1] = (first, offset - first if count == 1 else step, count + 1, size)
                continue
        found.append((offset, 0, 1, length))
    return found


def pieces(length: int, done: int) -> list[tuple[int, range]]:
    """Return the vectors that load a segment's elements from `done` on: (first element, lanes not loaded before).

    No vector reaches past the end: if the number of elements is no multiple of a vector, the vector before the last
    overlaps its neighbours.
    """
    full, rest = divmod(length - done, LANES)
    if not rest:
        return [(done + LANES * vector, range(LANES)) for vector in range(full)]
    if not full:
        return [(length - LANES, range(LANES - rest, LANES))]
    found = [(done + LANES * vector, range(LANES)) for vector in range(full - 1)]
    first = length - LANES - rest
    at = max(0, first + rest - LANES)
    return [*found, (at, range(first - at, first - at + rest)), (length - LANES, range(LANES))]


def lane_step(
    instruction: Callable[[ir.Expr, ir.Expr, ir.Expr, int], ir.Expr],
    lanes: int,
    acc: tirx.Buffer,
    b: tuple[tirx.Buffer, ir.Expr],
    a: tuple[Sequence[ir.Expr], int],
    vectors: int,
) -> None:
    """Emit one k step of all rows.

    Args:
        instruction: FMLA by lane for the dtype of `acc`.
        lanes: Number of elements of a vector.
        acc: The accumulators, [row][vector][lanes], flat.
        b: Buffer of a panel, and the offset of one of its rows (`vectors` vectors).
        a: One vector for each row of A, and the lane to multiply by.
        vectors: Number of vectors of columns.
    """
    values, lane = a
    for column in range(vectors):
        vector = load(b[0], b[1] + column * lanes, lanes)
        for row, value in enumerate(values):
            place = i64((row * vectors + column) * lanes)
            total = instruction(acc.vload([place], f"{acc.dtype}x{lanes}"), vector, value, lane)
            store(acc, total, place, lanes)


@dataclass(frozen=True)
class TileBuffers:
    """The buffers of one tile with `vectors` vectors of columns; for `pitch` and `constant` see `multiply`."""

    a: tirx.Buffer
    b: tirx.Buffer
    acc: tirx.Buffer
    vectors: int
    pitch: int | None = None
    constant: bool = False

    def segment(self, rows: Sequence[ir.Expr], panel: ir.Expr, length: int) -> None:
        """Emit the sum over one contiguous segment of each row's k."""
        parts, trips = unrolled(length)
        if trips:
            with T.serial(i64(0), i64(trips)) as trip:
                self.iteration(rows, trips, panel, parts, trip)
        self.rest(rows, panel, length)

    def iteration(
        self, rows: Sequence[ir.Expr], distance: int, panel: ir.Expr, parts: int, trip: ir.Expr
    ) -> None:
        """Emit one loop iteration: `parts` vectors of each row, with a distance of `distance` vectors between them."""
        size = LANES * self.row_step
        between, stride = (size, parts * size) if self.pitch is None else (distance * size, size)
        tile, first = self, panel + trip * stride
        # With an odd number of vectors, LLVM would merge loads into LDPs immediately before their use, for which
        # in-order cores stall.
        if self.constant and self.vectors % 2 == 0:
            tile, first = replace(self, b=opaque_view(self.b, first)), i64(0)
        for part in range(parts):
            at = (trip + part * distance) * LANES
            tile.vector(rows, at, first + part * between, range(LANES))

    def rest(self, rows: Sequence[ir.Expr], panel: ir.Expr, length: int) -> None:
        """Emit the sum over the elements of a segment that remain after its loop."""
        parts, trips = unrolled(length)
        done = parts * trips * LANES
        if length < LANES:
            for at in range(length):
                self.step([load(self.a, row + at, 1) for row in rows], 0, panel + at * self.row_step)
            return
        for at, lanes in pieces(length, done):
            self.vector(rows, i64(at), panel + (at + lanes[0]) * self.row_step, lanes)

    @property
    def row_step(self) -> int:
        """Distance in elements between two rows of B."""
        return self.vectors * LANES if self.pitch is None else self.pitch

    def vector(self, rows: Sequence[ir.Expr], at: ir.Expr, panel: ir.Expr, lanes: Iterable[int]) -> None:
        """Emit the products of given lanes of each row's vector at `at`; B's row for the first lane is at `panel`."""
        values = [load(self.a, row + at, LANES) for row in rows]
        for index, lane in enumerate(lanes):
            self.step(values, lane, panel + index * self.row_step)

    def step(self, values: Sequence[ir.Expr], lane: int, panel: ir.Expr) -> None:
        """Emit one k step of all rows."""
        lane_step(fmla_lane, LANES, self.acc, (self.b, panel), (values, lane), self.vectors)
