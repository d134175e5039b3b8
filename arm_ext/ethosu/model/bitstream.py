# SPDX-License-Identifier: Apache-2.0
"""The standard entropy code of weights: a bit stream decodes to 9-bit numbers.

Slices of up to 2^15 numbers, each with a header that may set a palette, then Golomb-Rice codes in
chunks of 12 unary bits whose remainders follow in the next chunk; runs of zeros may be coded beside the numbers. As
Vela 5.2 reads it, regor/dependencies/mlw_codec/source/mlw_decode.cpp. A stream that is not of this form raises.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.bits import Bits, Integers
from arm_ext.ethosu.model.errors import StreamError

Numbers = NDArray[np.int16]

_Z_NONE, _Z_END, _Z_MAX = 6, 7, 3  # zero-run dividers: no runs, end of stream, maximum
_W_PLAIN, _W_MAX = 7, 5  # weight dividers: no unary part, maximum
_CHUNK = 12  # unary bits of a chunk
_AHEAD = 8  # maximum number of numbers decoded before their runs
_VALUES = 512  # a number has 9 bits

_ONES = [n.bit_count() for n in range(1 << _CHUNK)]


@dataclass
class _Palette:
    """A map from numbers to weights: numbers below the palette's size are indices, others encode weights directly."""

    entries: Integers
    offset: int
    bits: int
    zero_runs: bool

    @classmethod
    def read(cls, bits: Bits, zero_runs: bool) -> "_Palette":
        offset = bits.take(5)
        size = bits.take(5)
        size += size > 0
        width = bits.take(3) + 2
        return cls(np.array([bits.take(width) for _ in range(size)], np.int64), offset, width, zero_runs)

    def weights(self, numbers: Integers) -> Integers:
        if len(numbers) and int(numbers.max()) >= _VALUES:
            raise StreamError("a weight stream holds a number of more than 9 bits")
        size = len(self.entries)
        folded = numbers - size + self.offset
        if size:
            folded = np.where(numbers < size, self.entries[np.minimum(numbers, size - 1)], folded)
        magnitude = folded >> 1
        return np.where(folded & 1, -magnitude, magnitude)

    @property
    def plain_bits(self) -> int:
        """Number of bits of a number without a unary part."""
        return (len(self.entries) - 1).bit_length() if len(self.entries) else self.bits


@dataclass
class _Slice:
    """The header of a slice of the stream."""

    count: int
    runs: int
    z_divider: int
    w_divider: int
    plain: bool
    truncated: bool


@dataclass
class _Chunks:
    """Contents of a slice's chunks before they are combined."""

    unary0: list[int]
    unary1: list[int]
    runs: list[int]
    number_bits: list[tuple[int, int]]  # bit offset and number of the remainders of each chunk
    run_bits: list[tuple[int, int]]


def decode(data: bytes, expected: int) -> Numbers:
    """Decode the weights of a standard stream.

    Args:
        data: The stream, padded to whole bytes after each end mark.
        expected: How many weights there have to be.

    Raises:
        StreamError: There are more or fewer, or the stream is malformed.
    """
    bits = Bits(data)
    palette: _Palette | None = None
    parts: list[Integers] = []
    found = 0
    while True:
        divider = bits.take(3) if bits.end - bits.at >= 3 else _Z_END
        while divider == _Z_END:
            bits.at = -(-bits.at // 8) * 8
            if bits.at >= bits.end:
                return _checked(parts, expected)
            divider = bits.take(3)
        if _Z_MAX < divider != _Z_NONE:
            raise StreamError(f"a weight stream's slice has the divider {divider} for zero runs")
        zero_runs = divider != _Z_NONE
        count, w_divider, truncated, new = bits.take(15) + 1, bits.take(3), bits.take(1), bits.take(1)
        if new:
            palette = _Palette.read(bits, zero_runs)
        if palette is None or palette.zero_runs != zero_runs:
            raise StreamError("a weight stream's slice uses a palette that was not set")
        if _W_MAX < w_divider != _W_PLAIN:
            raise StreamError(f"a weight stream's slice has the divider {w_divider} for weights")
        plain = w_divider == _W_PLAIN
        w_divider = palette.plain_bits if plain else w_divider
        header = _Slice(count, count + new if zero_runs else 0, divider, w_divider, plain, bool(truncated))
        part = _slice(bits, header, palette, expected - found, bool(new))
        found += len(part)
        parts.append(part)


def _checked(parts: list[Integers], expected: int) -> Numbers:
    found = sum(map(len, parts))
    if found != expected:
        raise StreamError(f"a weight stream holds {found} weights, the operation has {expected}")
    return np.asarray(np.concatenate([*parts, np.zeros(0, np.int64)]), np.int16)


def _slice(bits: Bits, header: _Slice, palette: _Palette, limit: int, new: bool) -> Integers:
    """Return the weights of a slice, including the zeros of runs."""
    if header.count > limit:
        raise StreamError(
            f"a weight stream's slice of {header.count} weights exceeds the {limit} remaining weights"
        )
    if header.plain and not header.runs:
        numbers = bits.gather(bits.at + np.arange(header.count) * header.w_divider, header.w_divider)
        bits.at += header.count * header.w_divider
        return palette.weights(numbers)
    try:
        chunks = _chunks(bits, header)
    except IndexError:
        raise StreamError("a weight stream ends within a slice") from None
    if bits.at > bits.end:
        raise StreamError("a weight stream ends within a slice")
    weights = palette.weights(_numbers(bits, header, chunks))
    if not header.runs:
        return weights
    runs = _runs(bits, header, chunks)
    if int(runs.sum()) + header.count > limit:
        raise StreamError("a weight stream's zero runs exceed the weights of the operation")
    out = np.zeros(header.count + int(runs.sum()), np.int64)
    before = np.cumsum(runs)[: header.count] if new else np.cumsum(np.concatenate([[0], runs[:-1]]))
    out[before + np.arange(header.count)] = weights
    return out


def _chunks(bits: Bits, header: _Slice) -> _Chunks:
    """Read the chunks of a slice one by one, the only part of decoding that must be sequential."""
    windows, at = bits.window_list, bits.at
    out = _Chunks([], [], [], [], [])
    count, runs, plain, w_div, z_div = (
        header.count,
        header.runs,
        header.plain,
        header.w_divider,
        header.z_divider,
    )
    z_length = _CHUNK if z_div < _Z_MAX else 8
    z_mask = (1 << z_length) - 1
    plain_symbols = 8 if w_div > 5 else _CHUNK
    numbers = zeros = 0  # symbols so far
    w_before = z_before = 0  # symbols of the previous chunk, whose remainders come next
    while True:
        w_now = numbers < count and (not runs or numbers - zeros < _AHEAD)
        z_now = zeros < runs and numbers >= zeros
        w_symbols = z_symbols = 0
        if w_now and not plain:
            unary0 = windows[at >> 3] >> (at & 7) & 0xFFF
            at += _CHUNK
        if z_now:
            run = windows[at >> 3] >> (at & 7) & z_mask
            at += z_length
            out.runs.append(run)
            z_symbols = min(z_length - _ONES[run], runs - zeros)
        if w_now and plain:
            w_symbols = min(plain_symbols, count - numbers)
        elif w_now:
            length = _ONES[unary0]
            unary1 = windows[at >> 3] >> (at & 7) & ((1 << length) - 1)
            at += length
            out.unary0.append(unary0)
            out.unary1.append(unary1)
            w_symbols = min(_CHUNK if header.truncated else _CHUNK - _ONES[unary1], count - numbers)
        if w_before:
            out.number_bits.append((at, w_before))
            at += w_before * w_div
        if z_before:
            out.run_bits.append((at, z_before))
            at += z_before * z_div
        if not (w_now or z_now):
            bits.at = at
            return out
        numbers += w_symbols
        zeros += z_symbols
        w_before, z_before = w_symbols, z_symbols


def _remainders(bits: Bits, where: list[tuple[int, int]], width: int) -> Integers:
    starts, counts = np.array(where, np.int64).reshape(-1, 2).T
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return bits.gather(np.repeat(starts, counts) + within * width, width)


def _numbers(bits: Bits, header: _Slice, chunks: _Chunks) -> Integers:
    remainders = _remainders(bits, chunks.number_bits, header.w_divider)
    if header.plain:
        return remainders
    places = np.arange(_CHUNK)
    first = np.array(chunks.unary0, np.int64)[:, None] >> places & 1
    second = np.array(chunks.unary1, np.int64)[:, None] >> np.maximum(np.cumsum(first, 1) - 1, 0) & first
    steps = (first + second).reshape(-1)
    ends = np.ones(len(steps), bool) if header.truncated else steps < 2
    return (_totals(steps, ends)[: header.count] << header.w_divider) + remainders


def _runs(bits: Bits, header: _Slice, chunks: _Chunks) -> Integers:
    places = np.arange(_CHUNK if header.z_divider < _Z_MAX else 8)
    steps = (np.array(chunks.runs, np.int64)[:, None] >> places & 1).reshape(-1)
    quotients = _totals(steps, steps == 0)[: header.runs]
    return (quotients << header.z_divider) + _remainders(bits, chunks.run_bits, header.z_divider)


def _totals(steps: Integers, ends: NDArray[np.bool_]) -> Integers:
    """Return, for each end, the sum of steps after it up to and including the next end."""
    return np.diff(np.cumsum(steps)[ends], prepend=0)
