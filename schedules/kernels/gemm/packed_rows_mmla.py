# SPDX-License-Identifier: Apache-2.0
"""Packing of rows of an implicit matrix into SMMLA's panel of A: blocks of two rows by eight elements of k.

A panel is [k step][row pair][2 rows][8 k]. The bytes of k may come in any order, as weights are packed in the same
order; padding and bytes that occur twice are multiplied by zero weights. There are three ways to pack:

- "direct": every segment has eight bytes or more. Vectors are loaded from the data; see `k_chunks_s8`.
- "gather": short segments (such as 3 channels), if one vector load holds a segment of both rows of a pair; see
  `gathered_rows_mmla`.
- "staged": the segments are copied side by side first.
"""

from collections.abc import Sequence
from typing import Literal

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.mmla import BLOCK, K_STEP
from schedules.intrinsics.registers import VECTOR
from schedules.intrinsics.vector import zip_halves
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.gemm import gathered_rows_mmla
from schedules.kernels.gemm.k_chunks_s8 import Chunk, Reading, whole
from schedules.kernels.gemm.product_s8 import IntegerProduct, flip
from schedules.tir.emit import i64, load, store

Way = Literal["direct", "gather", "staged"]


def way_of(product: IntegerProduct) -> Way:
    """Return how a product's rows are packed: "gather", "direct" or "staged"."""
    rows = product.rows
    lengths = [length for _, length in rows.segments]
    # One vector holds a segment of both rows of every pair: pairs do not cross image lines, whose lengths are even.
    in_one = max(lengths) + rows.strides[2] <= VECTOR and rows.shape[2] % BLOCK == 0
    if in_one and any(length % K_STEP for length in lengths):
        return "gather"
    return "direct" if min(lengths) >= K_STEP else "staged"


def k_order(product: IntegerProduct) -> Array:
    """Return the k index of each byte of a packed row, `NOTHING` for padding; the length is a multiple of eight."""
    return (
        gathered_rows_mmla.k_order(product.rows) if way_of(product) == "gather" else _reading(product).order()
    )


def steps_of(product: IntegerProduct) -> int:
    """Return the number of k steps in a packed row."""
    return len(k_order(product)) // K_STEP


def reads_past_the_data(product: IntegerProduct) -> bool:
    """Whether vector loads may reach up to 15 bytes past the end of the data."""
    return way_of(product) == "gather"


def cost(product: IntegerProduct) -> Cost:
    """Return the cost of packing one pair of rows."""
    if way_of(product) == "gather":
        return gathered_rows_mmla.cost(product.rows)
    reading = _reading(product)
    chunks = [chunk for segment in reading.chunks() for chunk in segment]
    # A pair of rows takes two loads and two stores per chunk; chunks of two steps are permuted in between.
    permutations = BLOCK * sum(chunk.size == VECTOR for chunk in chunks)
    moved = BLOCK * (len(chunks) + reading.staging())
    return arithmetic(permutations + moved) + scalar(moved)


def pack_rows(product: IntegerProduct, x: tirx.Buffer, panel: tirx.Buffer, starts: Sequence[ir.Expr]) -> None:
    """Emit the packing of a tile's rows.

    Args:
        product: The product whose rows are packed.
        x: The data, with its border.
        panel: Flat int8, [k step][row pair][2][8].
        starts: Offsets of the rows, an even number of them.
    """
    pairs = len(starts) // BLOCK
    if way_of(product) == "gather":
        gathered_rows_mmla.gather(product.rows, (x, product.flipped), panel, starts)
        return
    reading = _reading(product)
    source, starts = reading.source(x, starts)

    def pack(chunk: Chunk, later: ir.Expr) -> None:
        """Emit the packing of the chunk that is `later` vectors behind `chunk`, for all pairs of rows."""
        offset = later * VECTOR + chunk.offset
        step = later * (VECTOR // K_STEP) + chunk.at // K_STEP
        for pair in range(pairs):
            first, second = (
                flip(load(source, starts[BLOCK * pair + e] + offset, chunk.size), product.flipped)
                for e in range(BLOCK)
            )
            interleave(panel, step, pairs, pair, first, second)

    for chunks in reading.chunks():
        count = whole(chunks)
        if count > 1:
            with T.serial(i64(0), i64(count)) as outer:
                pack(chunks[0], outer)
        for chunk in chunks[count if count > 1 else 0 :]:
            pack(chunk, i64(0))


def interleave(
    panel: tirx.Buffer, at: ir.Expr, row_pairs: int, pair: int, first: ir.Expr, second: ir.Expr
) -> None:
    """Emit the stores of one or two k steps of a row pair, with the two rows interleaved by eight bytes.

    Args:
        panel: Flat int8.
        at: Index of the first k step.
        row_pairs: Number of row pairs of the panel.
        pair: Index of the pair of rows.
        first: int8x16, or int8x8 for one step: the pair's first row.
        second: int8x16, or int8x8 for one step: the pair's second row.
    """
    offset = at * (row_pairs * VECTOR) + pair * VECTOR
    if str(first.ty.dtype) == "int8x8":
        store(panel, first, offset, K_STEP)
        store(panel, second, offset + K_STEP, K_STEP)
        return
    one, two = zip_halves(first, second, "int64x2")
    store(panel, one, offset, VECTOR)
    store(panel, two, offset + row_pairs * VECTOR, VECTOR)


def _reading(product: IntegerProduct) -> Reading:
    return Reading(product.rows, K_STEP, way_of(product) == "staged")
