# SPDX-License-Identifier: Apache-2.0
"""Vector loads of the rows of an implicit int8 matrix: chunks of up to 16 bytes, in multiples of a lane's bytes of k.

k may come in any order that the weights are packed in; what is read twice meets weights of zero, and nothing outside
of the data is read. The last chunk of a segment reaches back instead of past its end. Segments that are too short for
that are copied side by side first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.registers import VECTOR
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array
from schedules.kernels.gemm.implicit_rows import Rows
from schedules.kernels.gemm.product import NOTHING
from schedules.tir.emit import i64


@dataclass(frozen=True)
class Chunk:
    """A vector load from a row, and the bytes of it that are used.

    Attributes:
        offset: Offset from the start of the row.
        size: Number of bytes: 16, 8 or 4.
        first: The first byte that is used; a multiple of the unit, all behind it are used.
        at: Bytes that are used before it, in the order that weights are packed in.
    """

    offset: int
    size: int
    first: int
    at: int

    @property
    def used(self) -> int:
        """Number of bytes that are used."""
        return self.size - self.first


@dataclass(frozen=True)
class Reading:
    """The plan by which the rows of a matrix are loaded.

    Attributes:
        rows: The matrix whose rows are loaded.
        unit: Bytes of k that a lane of the product's instruction sums over.
        is_staged: Whether the segments of a row are copied side by side first.
    """

    rows: Rows
    unit: int
    is_staged: bool

    @classmethod
    def in_vectors(cls, rows: Rows, unit: int) -> "Reading":
        """Staged where a segment is shorter than a vector and no multiple of the unit."""
        short = any(length < VECTOR and length % unit for _, length in rows.segments)
        return cls(rows, unit, short)

    @property
    def depth(self) -> int:
        """Bytes of a row that are used, in the packed order."""
        return len(self.order())

    def chunks(self) -> tuple[tuple[Chunk, ...], ...]:
        """Return the loads of each segment of a row, or of a staged row."""
        return _chunks_of(self._segments(), self.unit)

    def order(self) -> Array:
        """Return the k index of each byte that is used, or `NOTHING`."""
        return _order(self._segments(), self.unit, self.rows.depth)

    def staging(self) -> int:
        """Count the loads that stage one row; there are as many stores."""
        segments = self.rows.segments if self.is_staged else ()
        return sum(len(copies.pieces(length, VECTOR)) for _, length in segments)

    def source(self, x: tirx.Buffer, starts: Sequence[ir.Expr]) -> tuple[tirx.Buffer, Sequence[ir.Expr]]:
        """Return the buffer that rows are loaded from and each row's offset, emitting the staging copy if needed."""
        if not self.is_staged:
            return x, starts
        pitch = self._aligned()
        stage = T.alloc_buffer((pitch * len(starts),), x.dtype, layout=None)
        for row, start in enumerate(starts):
            at = row * pitch
            for offset, length in self.rows.segments:
                copies.copy(x, start + offset, stage, i64(at), length)
                at += length
        return stage, [i64(row * pitch) for row in range(len(starts))]

    def _segments(self) -> tuple[tuple[int, int], ...]:
        return ((0, self._aligned()),) if self.is_staged else self.rows.segments

    def _aligned(self) -> int:
        return -(-self.rows.depth // self.unit) * self.unit


def whole(chunks: Sequence[Chunk]) -> int:
    """Count the chunks of a segment that are whole vectors one behind the other; the last may reach back."""
    return sum(
        (chunk.used, chunk.offset) == (VECTOR, chunks[0].offset + VECTOR * i)
        for i, chunk in enumerate(chunks)
    )


# Estimates of hundreds of tiles ask for the same of one matrix.
_REMEMBERED = 1024


@lru_cache(_REMEMBERED)
def _chunks_of(segments: tuple[tuple[int, int], ...], unit: int) -> tuple[tuple[Chunk, ...], ...]:
    at, found = 0, []
    for offset, length in segments:
        found.append(tuple(_chunks(offset, length, at, unit)))
        at += sum(chunk.used for chunk in found[-1])
    return tuple(found)


@lru_cache(_REMEMBERED)
def _order(segments: tuple[tuple[int, int], ...], unit: int, depth: int) -> Array:
    order, before = [], 0
    for (offset, length), chunks in zip(segments, _chunks_of(segments, unit), strict=True):
        done = 0
        for chunk in chunks:
            k = np.arange(chunk.offset + chunk.first, chunk.offset + chunk.size) - offset
            order.append(np.where(k >= done, k + before, NOTHING))
            done = int(k[-1]) + 1
        before += length
    found = np.concatenate(order)
    found = np.where(found < depth, found, NOTHING)
    found.flags.writeable = False
    return found


def _chunks(offset: int, length: int, at: int, unit: int) -> list[Chunk]:
    count, rest = divmod(length, VECTOR)
    found = [Chunk(offset + VECTOR * i, VECTOR, 0, at + VECTOR * i) for i in range(count)]
    used, end = -(-rest // unit) * unit, offset + length
    if rest and count:
        size = 1 << (used - 1).bit_length()
        return [*found, Chunk(end - size, size, size - used, at + VECTOR * count)]
    for start, size in copies.pieces(used, VECTOR // 2):
        found.append(Chunk(min(offset + start, end - size), size, 0, at + start))
    return found
