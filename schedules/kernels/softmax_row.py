# SPDX-License-Identifier: Apache-2.0
"""One row of a softmax in binary32: its greatest value, then the powers of two and their sum.

Four vectors are on the way at once, each with a sum of its own, and the order of the sum is the same on every machine
and thread count: lane l of sum u takes elements 16 i + 4 u + l.
"""

from collections.abc import Callable

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.emit import i64, load, store
from schedules.intrinsics.exp_f32 import LOG2_E, exp2, fmax
from schedules.intrinsics.fmla import LANES

UNROLL = 4
"""Vectors on the way: the latency of FMAX and FADD over their throughput (2 to 4 cycles, two pipes)."""

INSTRUCTIONS = (1.5, 18.0)
"""For a vector of four: of the greatest value (half an LDP, FMAX); of the power (the load, FSUB, eleven, four copies of
coefficients, FADD, a store)."""


def greatest(source: tirx.Buffer, at: ir.Expr, vectors: int) -> ir.Expr:
    """Emits the greatest of `4 * vectors` elements from `at`: float32, NaN if one is."""

    def step(part: tirx.Buffer, vector: ir.Expr, u: int) -> None:
        store(part, fmax(_part(part, u), load(source, at + vector * LANES, LANES)), i64(u * LANES), LANES)

    parts = _reduced(vectors, float("-inf"), step, fmax)
    return T.Bind(tirx.call_llvm_pure_intrin("float32", "llvm.vector.reduce.fmaximum.v4f32", parts))


def powers(
    source: tirx.Buffer,
    at: ir.Expr,
    target: tirx.Buffer,
    to: ir.Expr,
    vectors: int,
    top: ir.Expr,
    *,
    base_e: bool,
) -> ir.Expr:
    """Emits target = b**(source - top), and the sum of what is stored.

    Args:
        source: Flat float32.
        at: Offset of the row.
        target: Flat float32; may be the source.
        to: Offset of the row there.
        vectors: A quarter of its length.
        top: float32 that no element is above.
        base_e: Whether b is e, else 2.

    Returns:
        The sum: float32.
    """
    top = tirx.Broadcast(top, LANES)
    factor = tirx.Broadcast(tirx.FloatImm("float32", LOG2_E), LANES)

    def step(part: tirx.Buffer, vector: ir.Expr, u: int) -> None:
        below = load(source, at + vector * LANES, LANES) - top
        value = exp2(T.Bind(below * factor if base_e else below))
        store(target, value, to + vector * LANES, LANES)
        store(part, _part(part, u) + value, i64(u * LANES), LANES)

    parts = _reduced(vectors, 0.0, step, lambda a, b: a + b)
    return total(parts)


def total(vector: ir.Expr) -> ir.Expr:
    """(v0 + v1) + (v2 + v3)."""
    lanes = [tirx.Shuffle([vector], [lane]) for lane in range(LANES)]
    return T.Bind((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))


def _part(parts: tirx.Buffer, u: int) -> ir.Expr:
    return parts.vload([i64(u * LANES)], "float32x4")


def _reduced(
    vectors: int,
    start: float,
    step: Callable[[tirx.Buffer, ir.Expr, int], None],
    join: Callable[[ir.Expr, ir.Expr], ir.Expr],
) -> ir.Expr:
    """Emits a reduction over vectors with `UNROLL` partial results, then their join: float32x4."""
    used = min(UNROLL, vectors)
    parts = T.alloc_buffer((used * LANES,), "float32", layout=None)
    for u in range(used):
        store(parts, tirx.Broadcast(tirx.FloatImm("float32", start), LANES), i64(u * LANES), LANES)
    whole = vectors // UNROLL
    if whole:
        with T.serial(i64(0), i64(whole)) as outer:
            for u in range(UNROLL):
                step(parts, outer * UNROLL + u, u)
    for u in range(vectors - whole * UNROLL):
        step(parts, i64(whole * UNROLL + u), u)
    values = [T.Bind(_part(parts, u)) for u in range(used)]
    while len(values) > 1:
        pairs = [T.Bind(join(a, b)) for a, b in zip(values[0::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]
