# SPDX-License-Identifier: Apache-2.0
"""Packing of rows with short segments (such as 3 channels) into SMMLA's panel of A by vector permutations.

One vector load holds a segment of a row and the same segment of the next row. A k step of eight bytes comes from a
single segment as far as possible; the remainders of all segments fill the last steps.
"""

from collections.abc import Sequence

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.mmla import BLOCK, K_STEP
from schedules.intrinsics.registers import VECTOR
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.gemm.implicit_rows import ImplicitRows
from schedules.kernels.gemm.product import NOTHING
from schedules.kernels.gemm.product_s8 import flip
from schedules.tir.emit import i64, load, store

Byte = tuple[int, int]
"""(segment, byte of the segment)."""


def k_order(rows: ImplicitRows) -> Array:
    """Return the k index of each byte of a packed row, `NOTHING` for padding."""
    taken = [k for step in _gathered(rows) for k in step]
    return np.array([NOTHING if k is None else _index(rows, k) for k in taken])


def cost(rows: ImplicitRows) -> Cost:
    """Return the cost of packing one pair of rows: loads, permutations, stores."""
    steps = _gathered(rows)
    return scalar(len(rows.segments)) + arithmetic(
        len(steps) + sum(max(1, len(_sources(step)) - 1) for step in steps)
    )


def gather(
    rows: ImplicitRows, data: tuple[tirx.Buffer, bool], panel: tirx.Buffer, starts: Sequence[ir.Expr]
) -> None:
    """Emit the packing of a tile's rows; `data` is (buffer, whether it is uint8 and its top bits are to be flipped)."""
    (x, flipped), pairs, pixel = data, len(starts) // BLOCK, rows.strides[2]
    for pair in range(pairs):
        vectors = [
            T.Bind(flip(load(x, starts[BLOCK * pair] + offset, VECTOR), flipped))
            for offset, _ in rows.segments
        ]
        for number, step in enumerate(_gathered(rows)):
            value = _permuted(vectors, step, pixel)
            store(panel, value, i64((number * pairs + pair) * VECTOR), VECTOR)


def _gathered(rows: ImplicitRows) -> list[list[Byte | None]]:
    """Return (segment, index) of each byte of each k step, None for padding; remainders of segments come last."""
    steps: list[list[Byte | None]] = []
    left: list[Byte | None] = []
    for segment, (_, length) in enumerate(rows.segments):
        whole = length // K_STEP * K_STEP
        steps += [[(segment, at + i) for i in range(K_STEP)] for at in range(0, whole, K_STEP)]
        left += [(segment, i) for i in range(whole, length)]
    left += [None] * (-len(left) % K_STEP)
    return steps + [left[at : at + K_STEP] for at in range(0, len(left), K_STEP)]


def _index(rows: ImplicitRows, byte: Byte) -> int:
    segment, at = byte
    return sum(length for _, length in rows.segments[:segment]) + at


def _sources(step: Sequence[Byte | None]) -> list[int]:
    return sorted({byte[0] for byte in step if byte is not None})


def _permuted(vectors: Sequence[ir.Expr], step: Sequence[Byte | None], pixel: int) -> ir.Expr:
    """Emit the 16 bytes of one k step for two rows; the second row starts `pixel` bytes behind the first."""
    sources = _sources(step)
    wanted = [None if b is None else (b[0], b[1] + row * pixel) for row in range(BLOCK) for b in step]
    value = vectors[sources[0]]
    # Combine two vectors at a time; bytes that are already in the result keep their positions.
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
