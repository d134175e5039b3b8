# SPDX-License-Identifier: Apache-2.0
"""The int8 register tile on SDOT by lane: unpacked rows of A times a packed panel of columns.

A panel of B is [k / 4][vectors][4 columns][4 k]; accumulator (r, v) holds row r of columns 4 v to 4 v + 3. A is not
packed: a load reads up to 16 bytes of a row, and SDOT multiplies by one lane of four bytes.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics.pin import barrier, pinned
from schedules.intrinsics.quad import QUAD, VectorStream
from schedules.intrinsics.registers import LANES, REGISTERS, STREAMING_PAIR, VECTOR, check_tile
from schedules.intrinsics.sdot import K_STEP, sdot_lane
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import LOOP_OVERHEAD, Cost, arithmetic, scalar, waiting
from schedules.kernels.gemm.k_chunks_s8 import Chunk, Reading, whole
from schedules.kernels.gemm.product_s8 import flip
from schedules.tir.emit import i64, load, store

UNROLL = ((20, 4), (0, 2))
"""(least number of accumulators, vectors of k of one loop iteration), where registers are left for a second vector of
each row; elsewhere one, or LLVM loads ahead of what the register file holds. B's panel is then in reach of one LDP."""

STREAMED = 2
"""Vectors of k of one loop iteration where B is streamed: the stream's address needs no offsets."""

REACHED = 8
"""Vectors of columns up to which one or two vectors of k are within the offset range of LDP; beyond, only one is."""

STRAIGHT_CHUNKS = 2
"""Number of vectors of k up to which LLVM unrolls the loop wholly, and mixes its code with the requantisation after
it.
"""

STRAIGHT_TILE = 8
"""Number of accumulators that leave registers for both product and requantisation in such code, where constants are in
registers, too."""

STRAIGHT_REGISTERS = 6
"""Registers in such code beside accumulators and rows, which LLVM loads once for all panels of columns. A row takes a
register for each vector; a staged row one for each lane, which LLVM keeps in all lanes of a register."""

GATHERED_REGISTERS = 12
"""Registers beside accumulators and gathered rows: four vectors of B, of multipliers, and of addends or initial
accumulators."""

SPILL = 4
"""Stack accesses for each register that such code lacks, and as many stall cycles."""


def check_registers(rows: int, vectors: int) -> None:
    """Raise ValueError if a tile's accumulators, its vectors of A and two vectors of B exceed the register file."""
    check_tile(
        f"a tile of {rows} x {vectors} vectors", (rows, vectors), rows * vectors + rows + STREAMING_PAIR
    )


def _streamed(rows: int, vectors: int) -> int:
    """Return the number of vectors of B that one instruction loads: 4 if registers suffice, else 2."""
    return QUAD if rows * vectors + rows + QUAD <= REGISTERS else STREAMING_PAIR


def _unroll(rows: int, vectors: int, count: int, *, by_quads: bool) -> int:
    """Return the number of vectors of A per row and loop iteration, if a segment has `count` vectors."""
    if by_quads:
        return STREAMED if count >= 2 * STREAMED else 1
    spare = rows * vectors + 2 * rows + STREAMING_PAIR <= REGISTERS
    unroll = next(unroll for least, unroll in UNROLL if rows * vectors >= least)
    unroll = 1 if vectors > REACHED else unroll
    return unroll if spare and count >= 2 * unroll else 1


def cost(
    rows: int, vectors: int, reading: Reading, core: Core, *, reload: bool, by_quads: bool = False
) -> Cost:
    """Return the cost of a tile's sum over k: initial accumulators, products, loads of A and B, loops."""
    segments = reading.chunks()
    chunks = [chunk for segment in segments for chunk in segment]
    steps = sum(chunk.used for chunk in chunks) // K_STEP
    unrolls = [_unroll(rows, vectors, len(segment), by_quads=by_quads) for segment in segments]
    loops = sum(len(segment) / unroll for segment, unroll in zip(segments, unrolls, strict=True))
    loads = steps * vectors / (_streamed(rows, vectors) if by_quads else STREAMING_PAIR)
    if not reading.is_gathered:
        loads += len(chunks) * rows
    loaded = vectors // QUAD + vectors % QUAD / 2 if by_quads else vectors / 2
    starts = scalar(rows * loaded) if reload else arithmetic(rows * vectors)
    spilled = 0
    if reading.is_gathered:
        spilled = max(0, rows * (vectors + len(chunks)) + GATHERED_REGISTERS - REGISTERS)
    elif max(len(segment) for segment in segments) <= STRAIGHT_CHUNKS:
        kept = rows * (vectors + (steps if reading.is_staged else len(chunks))) + STRAIGHT_REGISTERS
        few = reload and len(chunks) <= STRAIGHT_CHUNKS
        spilled = max(0, kept - REGISTERS if few else rows * vectors - STRAIGHT_TILE)
    products = arithmetic(steps * rows * vectors)
    return starts + products + scalar(loads + loops * LOOP_OVERHEAD) + waiting(SPILL, SPILL, core) * spilled


def pack_columns(b: Array, vectors: int) -> Array:
    """Pack B, int8 [n, k], into panels [n / (4 * vectors), bytes].

    n must be a multiple of 4 * vectors, and k a multiple of 4.
    """
    n, k = b.shape
    blocks = b.reshape(n // (LANES * vectors), vectors, LANES, k // K_STEP, K_STEP)
    return np.ascontiguousarray(blocks.transpose(0, 3, 1, 2, 4)).reshape(len(blocks), -1)


def _kept(held: tirx.Buffer, offset: ir.Expr) -> ir.Expr:
    """Return a vector of a buffer that is in registers, pinned, because LLVM would hoist a DUP of each lane."""
    value = load(held, offset, VECTOR)
    own = tirx.reinterpret(f"{held.dtype}x{VECTOR}", pinned(T.Bind(tirx.reinterpret("int32x4", value))))
    store(held, own, offset, VECTOR)
    return load(held, offset, VECTOR)


def multiply(
    a: tirx.Buffer,
    a_rows: Sequence[ir.Expr],
    b: tirx.Buffer,
    b_panel: ir.Expr,
    vectors: int,
    segments: Sequence[Sequence[Chunk]],
    start: Callable[[int], Sequence[ir.Expr]],
    *,
    flipped: bool = False,
    by_quads: bool = False,
    held: bool = False,
) -> tirx.Buffer:
    """Emit the sum over k of one tile; must be called within `pin.pins`.

    The pins prevent LLVM from loading whole rows at once in straight-line code, and spilling them.

    Args:
        a: Flat int8, or uint8 if `flipped`.
        a_rows: Offset in `a` of each row of the tile.
        b: Flat int8.
        b_panel: Offset in `b` of the panel.
        vectors: Number of vectors of columns.
        segments: The chunks of each segment of a row, in the packed order of k.
        start: Returns the initial accumulators of a row, one int32x4 per vector of columns; called for each row.
        flipped: Whether the top bit of the data is flipped.
        by_quads: Whether one instruction loads four vectors of B, within the context manager `quads`.
        held: Whether `a` is a buffer in registers, with one vector for each chunk of `segments`.

    Returns:
        The accumulators, int32 [row][vector][4], flat.
    """
    # No scope "local": TVM would allocate the buffer from the workspace pool, and LLVM cannot remove stores to heap
    # memory.
    acc = T.alloc_buffer((len(a_rows) * vectors * LANES,), "int32", layout=None)
    for row in range(len(a_rows)):
        for column, value in enumerate(start(row)):
            store(acc, value, i64((row * vectors + column) * LANES), LANES)

    stream = VectorStream(b, b_panel) if by_quads else None

    def panel(first: ir.Expr | int, count: int) -> Iterator[ir.Expr]:
        """Yield `count` vectors of B from vector `first` on; each is loaded when the iterator reaches it."""
        if stream is None:
            yield from (load(b, b_panel + (first + i) * VECTOR, VECTOR) for i in range(count))
            return
        size = _streamed(len(a_rows), vectors)
        for done in range(0, count, size):
            yield from map(T.Bind, stream.next(min(size, count - done)))

    def take(chunk: Chunk, later: ir.Expr | int) -> None:
        """Emit the products of the chunk that is `later` vectors behind `chunk`."""
        offset = later * VECTOR + chunk.offset
        if held:
            index = i64(segments[0].index(chunk) * VECTOR)
            found = [_kept(a, row + index) for row in a_rows]
        else:
            found = [load(a, row + offset, chunk.size) for row in a_rows]
        values = [T.Bind(flip(value, flipped)) for value in found]
        at, steps = later * (VECTOR // K_STEP) + chunk.at // K_STEP, chunk.used // K_STEP
        b_values = panel(at * vectors, steps * vectors)
        for step in range(steps):
            for column in range(vectors):
                b_value = next(b_values)
                for row, value in enumerate(values):
                    place = i64((row * vectors + column) * LANES)
                    lane = chunk.first // K_STEP + step
                    total = sdot_lane(acc.vload([place], "int32x4"), b_value, value, lane)
                    store(acc, total, place, LANES)

    for chunks in segments:
        count = whole(chunks)
        unroll = _unroll(len(a_rows), vectors, count, by_quads=by_quads)
        trips = count // unroll
        if trips > 1:
            with T.serial(i64(0), i64(trips)) as outer:
                for u in range(unroll):
                    take(chunks[u], outer * unroll)
                if vectors > REACHED and stream is None:
                    # A barrier, because LLVM would unroll the loop for in-order cores until offsets exceed the
                    # range of LDP.
                    barrier()
        for chunk in chunks[trips * unroll if trips > 1 else 0 :]:
            take(chunk, i64(0))
            barrier()
    return acc
