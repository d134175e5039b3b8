# SPDX-License-Identifier: Apache-2.0
"""2**y of four binary32 numbers in eleven instructions.

    n = rne(y), r = y - n (exact), 2**y = 2**n + (2**n * r) * p(r),  p(r) near (2**r - 1) / r on [-1/2, 1/2]

Adding 1.5 * 2**23 + 127 rounds y and leaves n + 127 in the low bits: 23 bits to the left it is 2**n. The coefficients
of p minimise the greatest relative error of 2**r (Lawson's algorithm), which is 1.8 * 2**-24 once they are rounded.
"""

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

LOG2_E = 1.4426950408889634
"""exp(x) = 2**(x * log2(e))."""

ERROR = 3 * 2.0**-24
"""Bound of the relative error where the result is a normal number."""

LEAST = -127.0
"""Arguments below count as this: the bits of 2**LEAST are those of 0, so that what is below -126.5 gives 0."""

_SHIFTER = 12582912.0 + 127.0
_COEFFICIENTS = (
    0.6931470036506653,
    0.24022242426872253,
    0.05550733581185341,
    0.009671512991189957,
    0.0013264723820611835,
)
_MANTISSA = 23


def exp2(y: ir.Expr) -> ir.Expr:
    """2**y for float32x4 y of at most 127.5; a NaN stays one.

    Raises:
        ValueError: y is no float32x4.
    """
    if str(y.ty.dtype) != "float32x4":
        raise ValueError(f"exp2: y is {y.ty.dtype}, expected float32x4")
    y = T.Bind(fmax(y, _splat(LEAST)))
    shifted = T.Bind(y + _splat(_SHIFTER))
    bits = tirx.reinterpret("int32x4", shifted)
    power = T.Bind(tirx.reinterpret("float32x4", bits << tirx.Broadcast(tirx.IntImm("int32", _MANTISSA), 4)))
    # By fma with 1, an addition to LLVM: TVM would simplify (y + c) - c.
    n = fma(shifted, _splat(1.0), _splat(-_SHIFTER))
    r = T.Bind(y - T.Bind(n))
    p = _splat(_COEFFICIENTS[-1])
    for coefficient in reversed(_COEFFICIENTS[:-1]):
        p = fma(p, r, _splat(coefficient))
    return T.Bind(fma(T.Bind(power * r), p, power))


def fma(a: ir.Expr, b: ir.Expr, c: ir.Expr) -> ir.Expr:
    """Of float32x4: a * b + c, rounded once, which is FMLA."""
    return tirx.call_llvm_pure_intrin("float32x4", "llvm.fma.v4f32", a, b, c)


def fmax(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The greater of float32x4, NaN if either is: FMAX."""
    return tirx.call_llvm_pure_intrin("float32x4", "llvm.maximum.v4f32", a, b)


def _splat(value: float) -> ir.Expr:
    return tirx.Broadcast(tirx.FloatImm("float32", value), 4)
