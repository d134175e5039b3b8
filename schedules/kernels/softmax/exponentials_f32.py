# SPDX-License-Identifier: Apache-2.0
"""Maximum, exponentials and their sum of one softmax row in binary32.

Both reductions have the order of `row_vectors.reduced`, which depends neither on the machine nor on threads.
"""

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.exp_f32 import power
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.rowwise.row_vectors import reduced, total
from schedules.tir.emit import load, store

INSTRUCTIONS = {False: (1.5, 18.0), True: (1.5, 12.5)}
"""Instructions for a vector of four, without SVE and with it: for the greatest value (half an LDP, FMAX), and for
the power (half an LDP, FSUB, eleven and four copies of coefficients, or nine and one of them, FADD, half an STP)."""

PAIR = 2
"""Vectors of powers that are computed at a time: with more, LLVM spills constants on some cores."""


def greatest(source: tirx.Buffer, at: ir.Expr, vectors: int) -> ir.Expr:
    """Emit the maximum, float32, of the `4 * vectors` elements from `at` on; NaN if an element is NaN."""

    def step(part: ir.Expr, first: ir.Expr, _fresh: int) -> ir.Expr:
        return _greater(part, load(source, at + first, LANES))

    parts = reduced(vectors * LANES, float("-inf"), step, _greater)
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
    v: Vector | None = None,
) -> ir.Expr:
    """Emit target = b**(source - top); return the sum of these values. Must be called within `pin.pins`.

    A barrier prevents LLVM from unrolling the loop for in-order cores, where it would load far ahead and spill.

    Args:
        source: Flat float32.
        at: Offset of the row.
        target: Flat float32; may be the source.
        to: Offset of the row in `target`.
        vectors: Number of vectors of four in the row.
        top: float32 upper bound of the elements.
        base_e: Whether b is e, else 2.
        v: Emitter of operations on vectors of four, best with the constants of exp in registers; None for a default.

    Returns:
        The sum, float32.
    """
    top, vectors_of_four = tirx.Broadcast(top, LANES), v or Vector(LANES)

    def step(part: ir.Expr, first: ir.Expr, _fresh: int) -> ir.Expr:
        below = T.Bind(load(source, at + first, LANES) - top)
        value = power(vectors_of_four, below, base_e=base_e)
        store(target, value, to + first, LANES)
        return part + value

    return total(reduced(vectors * LANES, 0.0, step, lambda a, b: a + b, apart=PAIR))


def _greater(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit FMAX: the maximum of each pair of lanes of two float32x4, NaN if either is NaN."""
    return tirx.call_llvm_pure_intrin("float32x4", "llvm.maximum.v4f32", a, b)
