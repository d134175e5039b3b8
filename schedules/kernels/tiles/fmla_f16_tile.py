# SPDX-License-Identifier: Apache-2.0
"""The float16 register tile: unpacked rows of A times one panel of B; sums of chunks of k are added in binary32.

FMLA on eight lanes of binary16 does twice as many products as any instruction that adds to binary32 (FMLAL: four
lanes). So chunks of at most `CHUNK` products are summed in binary16, and the sums of chunks are added to binary32 sums,
which are stored in L1.

Error. With u = 2^-11, half a unit in the last place of 1, the error of a chunk of n products is at most (1 + u)^n - 1
of the sum of their magnitudes: 1.6 % for n = 32, for any K. The sum of the chunks adds K / n roundings of binary32. If
roundings have random signs, the error is 0.29 sqrt(n) u of the root of the sum of squares, which is 0.08 %. For
comparison, rounding data, weights and result to binary16 gives 0.03 %, and one binary16 sum over K = 1024 0.45 %.

Range. No binary16 sum overflows: `column_powers` returns for each column a power of two by which its weights are
multiplied, so that the maximum over chunks of the sum of |weights| is in (1/4, 1/2]. Partial sums then stay below
max |a|, and the binary32 sums are scaled back. Rounding sums and weights below 2^-14 loses at most 2^-25 per step, of
max |a| / 4.
"""

from collections.abc import Sequence

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics.fmla_f16 import LANES, fmla_lane, fmlal, widened
from schedules.intrinsics.registers import LANES as WIDE_LANES
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import LOOP_OVERHEAD, Cost, arithmetic, converting, scalar
from schedules.kernels.gemm.product import NOTHING
from schedules.kernels.tiles.fmla_tile import lane_step, runs
from schedules.kernels.tiles.half_sums import HalfSums
from schedules.tir.emit import i64, load, splat, store

VECTORS = 4
"""Vectors of a row of A, of eight k, whose products are added up in binary16."""

CHUNK = VECTORS * LANES
"""Products added up in binary16."""

ADDING = 2.0
"""Instructions that add eight binary16 sums to binary32: two FMLAL, or two FADD behind `WIDENING`."""

WIDENING = 2.0
"""Instructions that convert eight binary16 sums to binary32: FCVTL, FCVTL2."""

BATCH = 2
"""Vectors of binary16 sums that go to binary32 together. Loads stay before the stores that follow, which may be to the
same place for all that LLVM knows: a batch makes pairs of both."""

WINDOW_LIMIT = 0.5
"""Upper bound of the sum of |weights| of a chunk, after scaling."""


def steps_of(length: int) -> int:
    """Return the number of vectors of a segment (the last two may overlap), or of its elements if it is shorter."""
    return -(-length // LANES) if length >= LANES else length


def order(segments: Sequence[tuple[int, int]]) -> Array:
    """Return the k index of each row of a panel of B, counted through the segments; `NOTHING` for zero rows."""
    found, first = [], 0
    for _, length in segments:
        k = np.arange(first, first + length)
        if length > LANES and length % LANES:
            whole = length // LANES * LANES
            again = np.full(LANES - length % LANES, NOTHING)
            k = np.concatenate([k[:whole], again, k[whole:]])
        found.append(k)
        first += length
    return np.concatenate(found)


def column_powers(b: Array) -> Array:
    """Return the power of two that scales each column of B, float32 [..., n]; B is [..., k in `order`, n]."""
    magnitudes = np.cumsum(np.abs(b.astype(np.float64)), axis=-2)
    windows = magnitudes.copy()
    windows[..., CHUNK:, :] -= magnitudes[..., :-CHUNK, :]
    largest = windows.max(axis=-2)
    powers = np.floor(np.log2(WINDOW_LIMIT / np.where(largest > 0, largest, WINDOW_LIMIT)))
    return np.asarray(np.exp2(powers), np.float32)


def cost(rows: int, vectors: int, segments: Sequence[tuple[int, int]], core: Core, *, widening: bool) -> Cost:
    """Return the cost of one tile's sum over k, conversion to binary32 included."""
    depth, chunks = len(order(segments)), _chunks(segments)
    steps = sum(steps_of(length) for _, length in segments)
    of_sums = (arithmetic(1) + _to_binary32(chunks, core, widening=widening)) * chunks
    loop = scalar(depth * vectors / 2 + (rows + LOOP_OVERHEAD) * steps)
    return loop + (arithmetic(depth) + of_sums) * (rows * vectors)


def _to_binary32(chunks: int, core: Core, *, widening: bool) -> Cost:
    """Return the cost of converting eight binary16 sums to binary32, and of adding them in memory if chunks > 1."""
    if chunks == 1:
        return converting(WIDENING, core)
    adding = arithmetic(ADDING) if widening else arithmetic(ADDING) + converting(WIDENING, core)
    return adding + scalar(1) + Cost(1, 2)


def cycles(
    rows: int, vectors: int, segments: Sequence[tuple[int, int]], after: Cost, core: Core, *, widening: bool
) -> float:
    """Return the cycles of one tile with all loads in L1; `after` is the cost of its epilogue and stores.

    The sum over k takes the maximum of the cycles of dispatch, vector pipes and dependent FMLAs.
    """
    chains = len(order(segments)) * core.fmla_latency
    return max(cost(rows, vectors, segments, core, widening=widening).cycles(core), chains) + after.cycles(
        core
    )


def _chunks(segments: Sequence[tuple[int, int]]) -> int:
    return sum(_chunks_of(length) for _, length in segments)


def _chunks_of(length: int) -> int:
    return -(-steps_of(length) // VECTORS) if length >= LANES else 1


def multiply(
    a: tirx.Buffer,
    a_rows: Sequence[ir.Expr],
    segments: Sequence[tuple[int, int]],
    b: tirx.Buffer,
    b_panel: ir.Expr,
    vectors: int,
    sums: HalfSums,
    zero: ir.Expr,
    *,
    widening: bool,
) -> list[ir.Expr]:
    """Emit the sum over k of one tile.

    Args:
        a: Flat float16.
        a_rows: Offset in `a` of each row of the tile.
        segments: (offset from the row's start, length) of each contiguous piece of a row's k.
        b: Flat float16; a panel is [k in its order][8 * vectors].
        b_panel: Offset in `b` of the panel.
        vectors: Number of vectors of eight columns.
        sums: Binary32 sums, shared by all tiles of a task, because an allocation per tile costs 3 % more instructions.
        zero: An int64 expression of value 0 that LLVM cannot fold. With constant trip counts LLVM would unroll loops of
            few iterations, reorder them by accumulator, and spill B.
        widening: Whether the core has FMLAL.

    Returns:
        The sums, float32x4 [len(a_rows)][2 * vectors].
    """
    tile = _HalfTile(a, b, len(a_rows), vectors, sums, zero, widening)
    if _chunks(segments) == 1:
        ((offset, length),) = segments
        tile.chunk([row + offset for row in a_rows], b_panel, length, 0)
        return tile.result()
    tile.clear()
    for first, step, count, length in runs(segments):
        size, start = len(order([(0, length)])) * vectors * LANES, tile.added
        with T.serial(i64(0), i64(count)) as index:
            at, panel = T.Bind(index * step + first), T.Bind(b_panel + index * size)
            with T.serial(i64(0), i64(_chunks_of(length))) as chunk:
                tile.added = start + index * _chunks_of(length) + chunk
                tile.chunk([row + at for row in a_rows], panel, length, chunk)
                tile.flush()
        tile.added = start + count * _chunks_of(length)
        b_panel = b_panel + count * size
    return tile.result()


class _HalfTile:
    """Emitter of one tile; `added` is the number of chunks whose binary16 sums were added to the binary32 sums."""

    def __init__(
        self,
        a: tirx.Buffer,
        b: tirx.Buffer,
        rows: int,
        vectors: int,
        sums: HalfSums,
        zero: ir.Expr,
        widening: bool,
    ) -> None:
        self._a, self._b, self._vectors = a, b, vectors
        self._sums, self._zero, self._widening = sums, zero, widening
        self._size = rows * vectors * LANES
        # No scope "local": TVM would allocate the buffer from the workspace pool, and LLVM cannot remove stores to heap
        # memory.
        self._acc = T.alloc_buffer((self._size,), "float16", layout=None)
        self._binary32 = False
        self.added: ir.Expr = i64(0)

    def clear(self) -> None:
        """Emit zeros for the binary32 sums, to which all chunks are added from now on."""
        self._sums.clear(self._size)
        self._binary32 = True

    def chunk(self, rows: Sequence[ir.Expr], panel: ir.Expr, length: int, chunk: ir.Expr) -> None:
        """Emit the binary16 sums of one chunk of a segment."""
        for at in range(0, self._size, LANES):
            store(self._acc, splat(0.0, "float16", LANES), i64(at), LANES)
        steps, width = steps_of(length), self._vectors * LANES
        if length < LANES:
            with T.serial(i64(0), i64(steps) + self._zero) as k:
                self._step([load(self._a, row + k, 1) for row in rows], 0, T.Bind(panel + k * width))
            return
        first = T.Bind(chunk * VECTORS)
        count = i64(steps) - first if steps <= VECTORS else tirx.min(i64(VECTORS), steps - first)
        with T.serial(i64(0), count + self._zero) as inner:
            step = T.Bind(first + inner)
            at = step * LANES if length % LANES == 0 else tirx.min(step * LANES, length - LANES)
            at, place = T.Bind(at), T.Bind(panel + step * (LANES * width))
            values = [load(self._a, row + at, LANES) for row in rows]
            for lane in range(LANES):
                self._step(values, lane, place + lane * width)

    def flush(self) -> None:
        """Emit the addition of the binary16 sums to the binary32 sums."""
        to = HalfSums.copy(self.added + 1)
        for first in range(0, self._size, BATCH * LANES):
            batch = range(first, min(first + BATCH * LANES, self._size), LANES)
            totals = [T.Bind(total) for total in self._totals(batch, pending=True)]
            for at, total in enumerate(totals):
                self._sums.store(to, first + at * WIDE_LANES, total)

    def result(self) -> list[ir.Expr]:
        """Return the tile's sums as float32x4 vectors."""
        return [
            T.Bind(total) for total in self._totals(range(0, self._size, LANES), pending=not self._binary32)
        ]

    def _totals(self, places: Sequence[int], *, pending: bool) -> list[ir.Expr]:
        """Return the binary32 sums of the vectors at `places`, plus their binary16 sums if these are `pending`."""
        halves = [(at, half) for at in places for half in range(2)]
        if self._binary32:
            copy = HalfSums.copy(self.added)
            totals = [self._sums.load(copy, at + half * WIDE_LANES) for at, half in halves]
        parts = {at: T.Bind(self._acc.vload([i64(at)], "float16x8")) for at in places} if pending else {}
        if not pending:
            return totals
        if not self._binary32:
            return [widened(parts[at], half) for at, half in halves]
        if not self._widening:
            return [
                total + widened(parts[at], half) for total, (at, half) in zip(totals, halves, strict=True)
            ]
        one = splat(1.0, "float16", LANES)
        return [fmlal(total, parts[at], one, half) for total, (at, half) in zip(totals, halves, strict=True)]

    def _step(self, values: Sequence[ir.Expr], lane: int, panel: ir.Expr) -> None:
        """Emit the products of one k by all rows and columns."""
        lane_step(fmla_lane, LANES, self._acc, (self._b, panel), (values, lane), self._vectors)
