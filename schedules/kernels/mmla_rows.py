# SPDX-License-Identifier: Apache-2.0
"""From the rows of an implicit matrix to SMMLA's panel of A: 8 k of two rows beside each other.

A panel is [k step][row pair][2 rows][8 k], and k may come in any order that the weights are packed in. What a step
reads beside its own k, or twice, meets weights of zero; nothing outside of the data is read. Three ways:

- "direct": every segment has eight bytes or more. Vectors are loaded where they lie; the last of a segment reaches
  back instead of past its end.
- "gather": short segments, as of three channels, where one vector holds those of a row and of its neighbour. A step
  is a permutation of one vector or more.
- "staged": the segments are copied side by side first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.emit import i64, load, store
from schedules.intrinsics.mmla import BLOCK, K_STEP
from schedules.intrinsics.vector import zip_halves
from schedules.kernel import Array
from schedules.kernels import copies
from schedules.kernels.product_s8 import Product, flip

VECTOR = 16
"""Bytes of a vector register."""

NOTHING = -1
"""In an order of k: a byte that meets a weight of zero."""

Way = Literal["direct", "gather", "staged"]


@dataclass(frozen=True)
class Chunk:
    """A vector of one row.

    Attributes:
        offset: From the row's start.
        lanes: Bytes, 8 or 16.
        step: The first k step that it fills.
    """

    offset: int
    lanes: int
    step: int


def way_of(product: Product) -> Way:
    """How the product's rows are packed."""
    rows = product.rows
    lengths = [length for _, length in rows.segments]
    # Both rows of a pair in one vector: neighbours on one line, which pairs are where lines are even.
    in_one = max(lengths) + rows.strides[2] <= VECTOR and rows.shape[2] % BLOCK == 0
    if in_one and any(length % K_STEP for length in lengths):
        return "gather"
    return "direct" if min(lengths) >= K_STEP else "staged"


def k_order(product: Product) -> Array:
    """For each byte of a packed row which k it holds, or `NOTHING`; a multiple of eight long."""
    match way_of(product):
        case "direct":
            parts = []
            first = 0
            for _, length in product.rows.segments:
                parts += [np.where(own, own_k + first, NOTHING) for own, own_k in _owned(length)]
                first += length
            return np.concatenate(parts)
        case "gather":
            taken = [k for step in _gathered(product) for k in step]
            return np.array([NOTHING if k is None else _index(product, k) for k in taken])
    depth = product.rows.depth
    return np.concatenate([np.arange(depth), np.full(-depth % K_STEP, NOTHING)])


def steps_of(product: Product) -> int:
    """How many k steps a packed row has."""
    return len(k_order(product)) // K_STEP


def reads_past_the_data(product: Product) -> bool:
    """Whether vectors may begin inside of the data and end up to a register behind it."""
    return way_of(product) == "gather"


def instructions(product: Product) -> tuple[float, float]:
    """Instructions to pack one pair of rows: all, and those on vector pipes."""
    steps = steps_of(product)
    if way_of(product) == "gather":
        segments = len(product.rows.segments)
        vector = steps + sum(max(1, len(_sources(step)) - 1) for step in _gathered(product))
        return segments + vector, vector
    lengths = [length for _, length in product.rows.segments]
    staging = 0
    if way_of(product) == "staged":
        staging = BLOCK * sum(len(copies.pieces(length, VECTOR)) for length in lengths)
        lengths = [K_STEP * steps]
    chunks = [chunk for length in lengths for chunk in _chunks(length)]
    # Two loads and two stores of each; vectors of two steps are permuted in between.
    permutations = BLOCK * sum(chunk.lanes == VECTOR for chunk in chunks)
    vector = permutations + BLOCK * len(chunks) + staging
    return vector + BLOCK * len(chunks) + staging, vector


def pack_rows(product: Product, x: tirx.Buffer, panel: tirx.Buffer, starts: Sequence[ir.Expr]) -> None:
    """Emits the packing of a tile.

    Args:
        product: Whose rows.
        x: The data, padded.
        panel: Flat int8, [k step][row pair][2][8].
        starts: Where each row begins; an even number.
    """
    pairs = len(starts) // BLOCK
    if way_of(product) == "gather":
        _gather(product, x, panel, starts)
        return
    source, segments = x, product.rows.segments
    if way_of(product) == "staged":
        source, starts = _staged(product, x, starts)
        segments = ((0, len(k_order(product))),)

    def chunk(offset: ir.Expr, step: ir.Expr, lanes: int) -> None:
        for pair in range(pairs):
            first, second = (
                flip(load(source, starts[BLOCK * pair + e] + offset, lanes), product.flipped)
                for e in range(BLOCK)
            )
            interleave(panel, step, pairs, pair, first, second)

    at = 0
    for offset, length in segments:
        whole = length // VECTOR
        if whole > 1:
            with T.serial(i64(0), i64(whole)) as outer:
                chunk(outer * VECTOR + offset, outer * (VECTOR // K_STEP) + at, VECTOR)
        for each in _chunks(length)[whole if whole > 1 else 0 :]:
            chunk(i64(offset + each.offset), i64(at + each.step), each.lanes)
        at += sum(each.lanes for each in _chunks(length)) // K_STEP


def interleave(
    panel: tirx.Buffer, at: ir.Expr, row_pairs: int, pair: int, first: ir.Expr, second: ir.Expr
) -> None:
    """Stores one or two k steps of a row pair into a panel.

    Args:
        panel: Flat int8.
        at: The k step.
        row_pairs: Of the panel.
        pair: Which.
        first: int8x16, or int8x8 for one step: the pair's first row.
        second: The same of its second row.
    """
    offset = at * (row_pairs * VECTOR) + pair * VECTOR
    if str(first.ty.dtype) == "int8x8":
        store(panel, first, offset, K_STEP)
        store(panel, second, offset + K_STEP, K_STEP)
        return
    one, two = zip_halves(first, second, "int64x2")
    store(panel, one, offset, VECTOR)
    store(panel, two, offset + row_pairs * VECTOR, VECTOR)


def _chunks(length: int) -> list[Chunk]:
    """The vectors of a segment: sixteens, then what is left, reaching back where it is no whole vector."""
    whole, rest = divmod(length, VECTOR)
    found = [Chunk(VECTOR * i, VECTOR, BLOCK * i) for i in range(whole)]
    step = BLOCK * whole
    if rest > K_STEP and whole:
        found.append(Chunk(length - VECTOR, VECTOR, step))
    elif rest > K_STEP:
        found += [Chunk(0, K_STEP, 0), Chunk(length - K_STEP, K_STEP, 1)]
    elif rest:
        found.append(Chunk(length - K_STEP, K_STEP, step))
    return found


def _owned(length: int) -> list[tuple[Array, Array]]:
    """For each vector of a segment which bytes no vector before had, and which k they are."""
    found, done = [], 0
    for chunk in _chunks(length):
        k = np.arange(chunk.offset, chunk.offset + chunk.lanes)
        found.append((k >= done, k))
        done = chunk.offset + chunk.lanes
    return found


Byte = tuple[int, int]
"""(segment, byte of the segment)."""


def _gathered(product: Product) -> list[list[Byte | None]]:
    """The bytes of each k step: as many steps as can be from one segment, then what is left of all of them."""
    steps: list[list[Byte | None]] = []
    left: list[Byte | None] = []
    for segment, (_, length) in enumerate(product.rows.segments):
        whole = length // K_STEP * K_STEP
        steps += [[(segment, at + i) for i in range(K_STEP)] for at in range(0, whole, K_STEP)]
        left += [(segment, i) for i in range(whole, length)]
    left += [None] * (-len(left) % K_STEP)
    return steps + [left[at : at + K_STEP] for at in range(0, len(left), K_STEP)]


def _index(product: Product, byte: Byte) -> int:
    segment, at = byte
    return sum(length for _, length in product.rows.segments[:segment]) + at


def _sources(step: Sequence[Byte | None]) -> list[int]:
    return sorted({byte[0] for byte in step if byte is not None})


def _gather(product: Product, x: tirx.Buffer, panel: tirx.Buffer, starts: Sequence[ir.Expr]) -> None:
    pairs, pixel = len(starts) // BLOCK, product.rows.strides[2]
    for pair in range(pairs):
        vectors = [
            T.Bind(flip(load(x, starts[BLOCK * pair] + offset, VECTOR), product.flipped))
            for offset, _ in product.rows.segments
        ]
        for number, step in enumerate(_gathered(product)):
            value = _permuted(vectors, step, pixel)
            store(panel, value, i64((number * pairs + pair) * VECTOR), VECTOR)


def _permuted(vectors: Sequence[ir.Expr], step: Sequence[Byte | None], pixel: int) -> ir.Expr:
    """The bytes of a step of both rows; a row's neighbour lies `pixel` bytes behind it."""
    sources = _sources(step)
    wanted = [None if b is None else (b[0], b[1] + row * pixel) for row in range(BLOCK) for b in step]
    value = vectors[sources[0]]
    # Two vectors at a time: what is there already keeps its place.
    for count, source in enumerate(sources[1:] or sources[:1]):
        earlier = sources[: count + 1]
        lanes = []
        for lane, byte in enumerate(wanted):
            if byte is None:
                lanes.append(lane)
            elif byte[0] == source:
                lanes.append(byte[1] + (VECTOR if len(sources) > 1 else 0))
            elif byte[0] in earlier:
                lanes.append(lane if count else byte[1])
            else:
                lanes.append(lane)
        value = T.Bind(tirx.Shuffle([value, vectors[source]] if len(sources) > 1 else [value], lanes))
    return value


def _staged(product: Product, x: tirx.Buffer, starts: Sequence[ir.Expr]) -> tuple[tirx.Buffer, list[ir.Expr]]:
    """The rows' segments side by side, and where each row begins."""
    pitch = len(k_order(product))
    stage = T.alloc_buffer((pitch * len(starts),), x.dtype, layout=None)
    for row, start in enumerate(starts):
        at = row * pitch
        for offset, length in product.rows.segments:
            copies.copy(x, start + offset, stage, i64(at), length)
            at += length
    return stage, [i64(row * pitch) for row in range(len(starts))]


def packed_weights(product: Product, weights: Array) -> Array:
    """Weights int8 [groups, columns, depth] as [groups, columns, packed depth]."""
    order = k_order(product)
    return np.where(order == NOTHING, 0, weights[:, :, np.maximum(order, 0)]).astype(np.int8)
