# SPDX-License-Identifier: Apache-2.0
"""The int8 register tile on SMULL, SMLAL and SADALP: unpacked rows of A times a packed panel of columns.

An accumulator holds four partial sums of one output: lane i sums k = 2 i and 2 i + 1 of each eight k. Sixteen elements
of a row a and a column b take

    t = a[0:8] * b[0:8]; t += a[8:16] * b[8:16]; accumulator[i] += t[2 i] + t[2 i + 1]

that is three instructions, where t has 16-bit lanes. This is exact unless both weights of a 16-bit sum are -128
(`pairs_fit`), as (-128) * (-128 - 127) = 32640 < 2**15; if they are, each product is widened separately, by four
instructions. A panel of B is [k / 16][columns][16 k], and for a remainder of eight k [columns][8 k].
"""

from collections.abc import Sequence

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.pin import pinned
from schedules.intrinsics.registers import LANES, VECTOR, check_tile
from schedules.intrinsics.smull import addp, sadalp, saddlp, smlal, smull
from schedules.intrinsics.vector import high, low
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import LOOP_OVERHEAD, Cost, arithmetic, scalar
from schedules.kernels.gemm.k_chunks_s8 import Chunk, whole
from schedules.kernels.gemm.product_s8 import flip
from schedules.kernels.tiles.tile_stores import HALF
from schedules.tir.emit import i64, load, store

STREAMING_REGISTERS = 12
"""Registers inside a tile for B (this group of columns and the next) and for the 16-bit sums that are being
computed.
"""

IN_FLIGHT = 4
"""Sums that are computed together while the next columns are loaded: SMULL, SMLAL and SADALP of one sum are four cycles
apart on cores that issue in order (LLVM's model of Cortex-A53)."""

UNROLL = 2
"""Vectors of k of one loop iteration: an LDP of each row."""

LEAST = -128
"""The weight of which two in a lane do not fit."""


def check_registers(rows: int, columns: int) -> None:
    """Raise ValueError if a tile's accumulators, vectors of A and temporary vectors exceed the register file."""
    check_tile(
        f"a tile of {rows} x {columns}", (rows, columns), rows * columns + UNROLL * rows + STREAMING_REGISTERS
    )


def cost(rows: int, columns: int, segments: Sequence[Sequence[Chunk]], chain: int) -> Cost:
    """Return the cost of a tile's sum over k: products, widening, paired loads, loops, and additions of lanes."""
    chunks = [chunk for segment in segments for chunk in segment]
    eights = sum(chunk.size for chunk in chunks) // HALF
    widened = len(chunks) if chain > 1 else eights
    loads = len(chunks) * (rows / UNROLL + columns / 2)
    reduction = rows * columns * (LANES - 1) / LANES
    loops = len(chunks) / UNROLL
    products = arithmetic(rows * columns * (eights + widened) + reduction)
    return products + scalar(loads + loops * LOOP_OVERHEAD)


def pairs_fit(weights: Array, segments: Sequence[Sequence[Chunk]]) -> bool:
    """Whether sums of two products fit 16 bits for any data; weights are int8 [..., packed depth]."""
    for chunk in (chunk for segment in segments for chunk in segment if chunk.size == VECTOR):
        lane = weights[..., chunk.at : chunk.at + VECTOR]
        if np.any((lane[..., :HALF] == LEAST) & (lane[..., HALF:] == LEAST)):
            return False
    return True


def pack_columns(b: Array, columns: int, segments: Sequence[Sequence[Chunk]]) -> Array:
    """Pack B, int8 [n, packed depth] with n a multiple of `columns`, into panels [n / columns, bytes]."""
    blocks = b.reshape(len(b) // columns, columns, -1)
    parts = [
        blocks[:, :, chunk.at : chunk.at + chunk.size].reshape(len(blocks), -1)
        for segment in segments
        for chunk in segment
    ]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def multiply(
    a: tirx.Buffer,
    a_rows: Sequence[ir.Expr],
    b: tirx.Buffer,
    b_panel: ir.Expr,
    columns: int,
    segments: Sequence[Sequence[Chunk]],
    chain: int,
    flipped: bool,
) -> tirx.Buffer:
    """Emit the sum over k of one tile.

    Args:
        a: Flat int8, or uint8 if `flipped`.
        a_rows: Offset in `a` of each row of the tile.
        b: Flat int8.
        b_panel: Offset in `b` of the panel.
        columns: Number of columns of the tile.
        segments: The chunks of each segment of a row, in the packed order of k.
        chain: Products that are summed in 16 bits: 1 or 2.
        flipped: Whether the top bit of the data is flipped.

    Returns:
        The accumulators, int32 [row][column][4], flat.
    """
    # Not scope "local": on CPUs TVM allocates that from the workspace pool, and LLVM never drops stores to the heap.
    group = max(1, IN_FLIGHT // len(a_rows))
    acc = T.alloc_buffer((len(a_rows) * columns * LANES,), "int32", layout=None)

    def take(chunks: Sequence[Chunk], later: ir.Expr, first: bool) -> None:
        """Emit the products of the chunks `later` vectors further on; if `first`, they initialise the accumulators."""
        rows = [
            [
                T.Bind(flip(load(a, row + (later * VECTOR + chunk.offset), chunk.size), flipped))
                for row in a_rows
            ]
            for chunk in chunks
        ]
        groups = [(index, column) for index in range(len(chunks)) for column in range(0, columns, group)]

        def factors(index: int, column: int) -> list[ir.Expr]:
            chunk = chunks[index]
            at = b_panel + (later * (VECTOR * columns) + chunk.at * columns)
            return [load(b, at + (column + i) * chunk.size, chunk.size) for i in range(group)]

        ahead = factors(*groups[0])
        for (index, column), following in zip(groups, [*groups[1:], None], strict=True):
            now, ahead = ahead, factors(*following) if following else []
            for i, factor in enumerate(now):
                for row, value in enumerate(rows[index]):
                    place = i64((row * columns + column + i) * LANES)
                    total = None if first and index == 0 else acc.vload([place], "int32x4")
                    store(acc, pinned(_add(total, value, factor, chunks[index].size, chain)), place, LANES)

    start = True
    for chunks in segments:
        if start:
            take(chunks[:1], i64(0), first=True)
        trips = (whole(chunks) - start) // UNROLL
        if trips > 1:
            with T.serial(i64(0), i64(trips)) as outer:
                take(chunks[start : start + UNROLL], outer * UNROLL, first=False)
        rest = chunks[start + trips * UNROLL if trips > 1 else start :]
        for at in range(0, len(rest), UNROLL):
            take(rest[at : at + UNROLL], i64(0), first=False)
        start = False
    return acc


def sums(acc: tirx.Buffer, columns: int, row: int, first: int) -> ir.Expr:
    """Emit the sums of four columns from column `first` on, by adding the accumulators' lanes; int32x4."""
    lanes = [acc.vload([i64((row * columns + first + i) * LANES)], "int32x4") for i in range(LANES)]
    return addp(addp(lanes[0], lanes[1]), addp(lanes[2], lanes[3]))


def _add(total: ir.Expr | None, a: ir.Expr, b: ir.Expr, size: int, chain: int) -> ir.Expr:
    """Emit `total` (None for 0) plus the products of 8 or 16 k, int32x4."""
    if size == HALF:
        products = [smull(a, b)]
    elif chain > 1:
        products = [smlal(smull(low(a), low(b)), high(a), high(b))]
    else:
        products = [smull(low(a), low(b)), smull(high(a), high(b))]
    for product in products:
        total = saddlp(product) if total is None else sadalp(total, product)
    assert total is not None
    return total
