# SPDX-License-Identifier: Apache-2.0
"""Vector loops over rows of any length; if lanes do not divide the length, the last two vectors overlap.

Reductions count overlapping elements once; stores write them twice with equal values. A row shorter than a vector is
copied to a padded buffer first.
"""

from collections.abc import Callable

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.pin import barrier
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector import lanes_of
from schedules.kernels.common import copies
from schedules.tir.emit import i64, load, store

PARTS = 4
"""Number of partial results of a reduction, each in a vector: the latency of FADD and FMAX over their throughput (2 to
4 cycles, two pipes)."""


def starts(length: int, lanes: int) -> tuple[int, ...]:
    """Return the first element of each vector of a row."""
    last = (max(0, length - lanes),) if length % lanes else ()
    return (*range(0, length - lanes + 1, lanes), *last)


def staged(
    data: tirx.Buffer, at: ir.Expr, length: int, lanes: int, rest: float, dtype: str = ""
) -> tuple[tirx.Buffer, ir.Expr]:
    """Return (buffer, offset) from which full vectors of a row can be loaded; a short row is padded with `rest`.

    The copy of the row is emitted if it is shorter than a vector, or if `dtype` differs from that of the data.
    """
    if length >= lanes and dtype in ("", str(data.dtype)):
        return data, at
    pitch = max(length, lanes)
    stage = T.alloc_buffer((pitch,), dtype or data.dtype, layout=None)
    copies.fill(stage, i64(length), pitch - length, rest)
    copies.copy(data, at, stage, i64(0), length)
    return stage, i64(0)


def fresh(vector: ir.Expr, count: int, rest: float) -> ir.Expr:
    """Return a vector whose lanes are `rest`, except the last `count`, which no earlier vector contained."""
    lanes = lanes_of(vector)
    if count == lanes:
        return vector
    dtype = str(vector.ty.dtype).rpartition("x")[0]
    order = [lane if lane >= lanes - count else lanes + lane for lane in range(lanes)]
    return tirx.Shuffle([vector, tirx.Broadcast(tirx.const(rest, dtype), lanes)], order)


def each(
    length: int,
    lanes: int,
    unroll: int,
    step: Callable[[ir.Expr, ir.Expr, int], None],
    *,
    apart: int = 0,
) -> None:
    """Emit a loop over the vectors of a row.

    Args:
        length: Length of the row.
        lanes: Number of lanes of a vector.
        unroll: Number of vectors per iteration.
        step: Emits the code for a vector: (first element, index of the vector, lanes that no earlier vector contained).
        apart: Number of vectors after which a barrier is emitted, also at the end of each iteration; 0 for no barriers.
            Without barriers LLVM fully unrolls short loops, and spills a row that it keeps in registers between passes.
    """
    whole = max(1, length // lanes)
    trips = whole // unroll
    if trips:
        with T.serial(i64(0), i64(trips)) as outer:
            for u in range(unroll):
                index = outer * unroll + u
                step(index * lanes, index, lanes)
                if apart and (u + 1 == unroll or (u + 1) % apart == 0):
                    barrier()
    for index in range(trips * unroll, whole):
        step(i64(index * lanes), i64(index), lanes)
    if length > lanes and length % lanes:
        step(i64(length - lanes), i64(whole), length % lanes)


def reduced(
    length: int,
    start: float,
    step: Callable[[ir.Expr, ir.Expr, int], ir.Expr],
    join: Callable[[ir.Expr, ir.Expr], ir.Expr],
    *,
    apart: int = 0,
) -> ir.Expr:
    """Emit a float32 reduction of a row in `PARTS` partial results, and their combination: float32x4.

    The order is the same on every machine and thread count: lane l of part u takes elements 16 i + 4 u + l.

    Args:
        length: Length of the row.
        start: Initial value of a partial result.
        step: Returns a partial result combined with one more vector, given (partial result, first element, number of
            lanes that no earlier vector contained).
        join: Combines two partial results.
        apart: Number of vectors between two barriers, as for `each`.
    """
    vectors = len(starts(length, LANES))
    used = min(PARTS, vectors)
    parts = T.alloc_buffer((used * LANES,), "float32", layout=None)
    for u in range(used):
        store(parts, tirx.Broadcast(tirx.FloatImm("float32", start), LANES), i64(u * LANES), LANES)
    turn = [0]

    def one(at: ir.Expr, _index: ir.Expr, count: int) -> None:
        where = i64(turn[0] % used * LANES)
        turn[0] += 1
        store(parts, step(parts.vload([where], "float32x4"), at, count), where, LANES)

    each(length, LANES, used, one, apart=apart)
    values = [load(parts, i64(u * LANES), LANES) for u in range(used)]
    while len(values) > 1:
        pairs = [T.Bind(join(a, b)) for a, b in zip(values[0::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]


def total(vector: ir.Expr) -> ir.Expr:
    """Emit (v0 + v1) + (v2 + v3)."""
    lanes = [tirx.Shuffle([vector], [lane]) for lane in range(LANES)]
    return T.Bind((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))
