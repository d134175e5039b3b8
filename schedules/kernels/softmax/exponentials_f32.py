# SPDX-License-Identifier: Apache-2.0
"""Exponentials of one softmax row in binary32: the row's maximum, then the powers and their sum.

Both go through the row as `row_vectors.reduced` does, in an order that no machine or thread count changes.
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
    """Emit the maximum of `4 * vectors` elements from `at`: float32, NaN if an element is NaN."""

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
    """Emit target = b**(source - top), and return the sum of the stored values; to be called inside `pin.pins`.

    LLVM would unroll the loop for cores that issue in order, and bring so much forward that it is on the stack.

    Args:
        source: Flat float32.
        at: Offset of the row.
        target: Flat float32; may be the source.
        to: Offset of the row there.
        vectors: A quarter of its length.
        top: float32 that no element is above.
        base_e: Whether b is e, else 2.
        v: Vectors of four, best with the `constants` of powers held; plain ones if there are none.

    Returns:
        The sum: float32.
    """
    top, vectors_of_four = tirx.Broadcast(top, LANES), v or Vector(LANES)

    def step(part: ir.Expr, first: ir.Expr, _fresh: int) -> ir.Expr:
        below = T.Bind(load(source, at + first, LANES) - top)
        value = power(vectors_of_four, below, base_e=base_e)
        store(target, value, to + first, LANES)
        return part + value

    return total(reduced(vectors * LANES, 0.0, step, lambda a, b: a + b, apart=PAIR))


def _greater(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit FMAX: the greater of each pair of float32x4 lanes, NaN if either is."""
    return tirx.call_llvm_pure_intrin("float32x4", "llvm.maximum.v4f32", a, b)
