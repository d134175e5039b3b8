# SPDX-License-Identifier: Apache-2.0
"""How SDOT by lane reads the rows of an implicit matrix: vectors of 16 k, of which lanes of four k are used.

k may come in any order that the weights are packed in; what is read twice meets weights of zero, and nothing outside
of the data is read. The last vector of a segment reaches back instead of past its end. Where a segment has less than a
vector, and is no multiple of four, the segments of a row are copied side by side first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.emit import i64
from schedules.kernel import Array
from schedules.kernels import copies
from schedules.kernels.product_s8 import Product

K_STEP = 4
"""k that one instruction sums over: the bytes of a lane."""

VECTOR = 16
"""Bytes of a vector register."""

NOTHING = -1
"""In an order of k: a byte that meets a weight of zero."""


@dataclass(frozen=True)
class Chunk:
    """A load of one row.

    Attributes:
        offset: From the row's start.
        size: Bytes: 16, 8 or 4.
        first: The first byte that is used; a multiple of four, all behind it are used.
        step: The k step of the first lane that is used.
    """

    offset: int
    size: int
    first: int
    step: int

    @property
    def steps(self) -> int:
        """Lanes that are used."""
        return (self.size - self.first) // K_STEP


def is_staged(product: Product) -> bool:
    """Whether the rows are copied."""
    return any(length < VECTOR and length % K_STEP for _, length in product.rows.segments)


def chunks_of(product: Product) -> list[list[Chunk]]:
    """The loads of each segment, or of a staged row."""
    step, found = 0, []
    for offset, length in _segments(product):
        found.append(_chunks(offset, length, step))
        step += sum(chunk.steps for chunk in found[-1])
    return found


def k_order(product: Product) -> Array:
    """For each byte of the used lanes which k it holds, or `NOTHING`."""
    if is_staged(product):
        depth = product.rows.depth
        return np.concatenate([np.arange(depth), np.full(_aligned(depth) - depth, NOTHING)])
    order, first = [], 0
    for (offset, length), chunks in zip(product.rows.segments, chunks_of(product), strict=True):
        done = 0
        for chunk in chunks:
            k = np.arange(chunk.offset + chunk.first, chunk.offset + chunk.size) - offset
            order.append(np.where(k >= done, k + first, NOTHING))
            done = int(k[-1]) + 1
        first += length
    return np.concatenate(order)


def packed_weights(product: Product, weights: Array) -> Array:
    """Weights int8 [groups, columns, depth] as [groups, columns, packed depth]."""
    order = k_order(product)
    return np.where(order == NOTHING, 0, weights[:, :, np.maximum(order, 0)]).astype(np.int8)


def staged(product: Product, x: tirx.Buffer, starts: Sequence[ir.Expr]) -> tuple[tirx.Buffer, list[ir.Expr]]:
    """The rows' segments side by side, and where each row begins."""
    pitch = _aligned(product.rows.depth)
    stage = T.alloc_buffer((pitch * len(starts),), x.dtype, layout=None)
    for row, start in enumerate(starts):
        at = row * pitch
        for offset, length in product.rows.segments:
            copies.copy(x, start + offset, stage, i64(at), length)
            at += length
    return stage, [i64(row * pitch) for row in range(len(starts))]


def _segments(product: Product) -> tuple[tuple[int, int], ...]:
    return ((0, _aligned(product.rows.depth)),) if is_staged(product) else product.rows.segments


def _aligned(depth: int) -> int:
    return -(-depth // K_STEP) * K_STEP


def _chunks(offset: int, length: int, step: int) -> list[Chunk]:
    whole, rest = divmod(length, VECTOR)
    lanes = VECTOR // K_STEP
    found = [Chunk(offset + VECTOR * i, VECTOR, 0, step + lanes * i) for i in range(whole)]
    step, at = step + lanes * whole, offset + VECTOR * whole
    used = -(-rest // K_STEP) * K_STEP
    if rest and length >= VECTOR:
        found.append(Chunk(offset + length - VECTOR, VECTOR, VECTOR - used, step))
        return found
    for start, size in copies.pieces(used, VECTOR // 2):
        found.append(Chunk(at + start, size, 0, step + start // K_STEP))
    return found
