# SPDX-License-Identifier: Apache-2.0
"""Vector loads ("chunks") of 4, 8 or 16 bytes of the rows of an implicit int8 matrix, for dot-product instructions.

The bytes of k may be loaded in any order, as weights are packed in the same order. The last chunk of a segment overlaps
the chunk before it instead of reading past the segment; weights of bytes that are loaded twice are zero the second
time. Segments that are too short for this are "staged", that is copied side by side first. Or they are "gathered" in
registers, if a vector may be loaded past the end of the data: each segment is loaded as one vector, and the bytes that
do not fill a lane are moved, for several segments, into a shared lane.
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
from schedules.kernels.gemm.implicit_rows import ImplicitRows
from schedules.kernels.gemm.product import NOTHING
from schedules.tir.emit import i64, load, store


@dataclass(frozen=True)
class Chunk:
    """A vector load from a row, and the bytes of it that are used.

    Attributes:
        offset: Offset from the start of the row.
        size: Number of bytes: 16, 8 or 4.
        first: Index of the first byte that is used, a multiple of `Reading.unit`; earlier bytes overlap another chunk.
        at: Number of used bytes in the chunks before, that is the chunk's position in the packed order of k.
        end: Index after the last byte that is used; 0 if all bytes from `first` on are used.
        tails: For a gathered chunk, the (offset from the row's start, length) of the remainders of other segments that
            are inserted in its last lane.
    """

    offset: int
    size: int
    first: int
    at: int
    end: int = 0
    tails: tuple[tuple[int, int], ...] = ()

    @property
    def used(self) -> int:
        """Number of bytes that are used."""
        return (self.end or self.size) - self.first


@dataclass(frozen=True)
class Reading:
    """How the rows of a matrix are loaded: directly, staged or gathered, and in which chunks.

    Attributes:
        rows: The matrix whose rows are loaded.
        unit: Bytes of k that a lane of the product's instruction sums over.
        is_staged: Whether the segments of a row are copied side by side first.
        is_gathered: Whether the segments are gathered in registers.
    """

    rows: ImplicitRows
    unit: int
    is_staged: bool
    is_gathered: bool = False

    @classmethod
    def in_vectors(cls, rows: ImplicitRows, unit: int, *, may_gather: bool = False) -> "Reading":
        """Return how to load a matrix: rows with a short segment are staged or gathered, others loaded from the data.

        A segment is short if it is shorter than a vector and its length is not a multiple of `unit`.

        Args:
            rows: The matrix.
            unit: Bytes of k that a lane of the product's instruction sums over.
            may_gather: Whether a vector may be loaded past the end of the data; short segments of one length are then
                gathered.
        """
        lengths = {length for _, length in rows.segments}
        short = any(length < VECTOR and length % unit for length in lengths)
        gathered = short and may_gather and len(lengths) == 1
        return cls(rows, unit, short and not gathered, gathered)

    @property
    def depth(self) -> int:
        """Number of bytes of a packed row, padding included."""
        return len(self.order())

    def chunks(self) -> tuple[tuple[Chunk, ...], ...]:
        """Return the chunks of each segment of a row; a staged or gathered row counts as one segment."""
        if self.is_gathered:
            return (_gathered(self.rows.segments, self.unit),)
        return _chunks_of(self._segments(), self.unit)

    def order(self) -> Array:
        """Return the k index of each byte of a packed row, `NOTHING` for bytes whose weights are zero."""
        if self.is_gathered:
            return _gathered_order(self.rows.segments, self.unit)
        return _order(self._segments(), self.unit, self.rows.depth)

    def staging(self) -> int:
        """Count the loads that stage one row, which is also the number of stores."""
        segments = self.rows.segments if self.is_staged else ()
        return sum(len(copies.pieces(length, VECTOR)) for _, length in segments)

    def gathering(self) -> tuple[int, int]:
        """Count the loads and the insertions that gather one row."""
        if not self.is_gathered:
            return 0, 0
        (chunks,) = self.chunks()
        return len(self.rows.segments), sum(len(chunk.tails) for chunk in chunks)

    def gathered(self, x: tirx.Buffer, starts: Sequence[ir.Expr]) -> tuple[tirx.Buffer, Sequence[ir.Expr]]:
        """Emit the gathering of rows; return the buffer (registers) of their chunks, and each row's offset in it."""
        pitch = VECTOR * len(self.chunks()[0])
        held = T.alloc_buffer((pitch * len(starts),), x.dtype, layout=None)
        for row, start in enumerate(starts):
            for index, vector in enumerate(self._gather(x, start)):
                store(held, vector, i64(row * pitch + index * VECTOR), VECTOR)
        return held, [i64(row * pitch) for row in range(len(starts))]

    def _gather(self, x: tirx.Buffer, start: ir.Expr) -> list[ir.Expr]:
        """Emit the chunks of a gathered row, one vector each."""
        loaded = {at: load(x, start + at, VECTOR) for at, _ in self.rows.segments}
        found, (chunks,) = [], self.chunks()
        for chunk in chunks:
            value, to = loaded[chunk.offset], chunk.end - self.unit
            for offset, length in chunk.tails:
                to += length
                own = next(at for at, size in self.rows.segments if at <= offset < at + size)
                lanes = list(range(VECTOR))
                lanes[to : to + length] = range(VECTOR + offset - own, VECTOR + offset - own + length)
                value = T.Bind(tirx.Shuffle([value, loaded[own]], lanes))
            found.append(value)
        return found

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
    """Count the chunks at the start of a segment that are full, contiguous vectors, which one loop can load."""
    return sum(
        (chunk.used, chunk.offset) == (VECTOR, chunks[0].offset + VECTOR * i)
        for i, chunk in enumerate(chunks)
    )


# Cache size. Estimates of hundreds of tiles need the chunks of the same matrix.
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


@lru_cache(_REMEMBERED)
def _gathered(segments: tuple[tuple[int, int], ...], unit: int) -> tuple[Chunk, ...]:
    whole, tail = divmod(segments[0][1], unit)
    sharing, at, found = unit // tail, 0, []
    for number, (offset, _) in enumerate(segments):
        # `sharing` consecutive segments put their remainders into one lane, in the chunk of the first of them.
        others = segments[number + 1 : number + sharing] if number % sharing == 0 else ()
        end = (whole + (number % sharing == 0)) * unit
        tails = tuple((other + whole * unit, tail) for other, _ in others)
        if end:
            found.append(Chunk(offset, VECTOR, 0, at, end, tails))
        at += end
    return tuple(found)


@lru_cache(_REMEMBERED)
def _gathered_order(segments: tuple[tuple[int, int], ...], unit: int) -> Array:
    before = np.cumsum([0, *(length for _, length in segments)])
    k_of = {offset + i: before[n] + i for n, (offset, length) in enumerate(segments) for i in range(length)}
    order: list[int] = []
    for chunk in _gathered(segments, unit):
        read = [*range(chunk.offset, chunk.offset + min(chunk.end, segments[0][1]))]
        read += [each for offset, length in chunk.tails for each in range(offset, offset + length)]
        order += [*map(k_of.__getitem__, read), *[NOTHING] * (chunk.end - len(read))]
    found = np.array(order)
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
