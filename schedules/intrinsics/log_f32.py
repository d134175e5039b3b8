# SPDX-License-Identifier: Apache-2.0
"""The natural logarithm of float32 vectors by a polynomial, without calls, branches or tables.

Error bounds, with eps = 2^-24:

    log     2 eps of the value
    log1p   2 eps of the value, for arguments from 0 to 1

The bounds are maxima over half a million arguments, measured by a test and rounded up.
"""

import math

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.vector_f32 import EXPONENT, Vector

LOG = (
    0.3333333,
    -0.24999997,
    0.20000716,
    -0.16667803,
    0.14249058,
    -0.12425687,
    0.1168542,
    -0.11479734,
    0.06971612,
)
"""p of log(1 + f) = f - f^2 / 2 + f^3 p(f) for 1 + f from sqrt(1/2) to sqrt(2), constant term first: interpolation at
Chebyshev nodes, as the tests do it; rounded to float32, it is within 0.1 eps of log."""

LOG_2 = (0.693359375, math.log(2) - 0.693359375)
"""The logarithm of 2 in two parts; the first has 9 bits, so that its product with an exponent is exact."""

ROOT_HALF = 0x3F3504F3
"""Bits of the root of 1/2 as float32."""

LEAST_NORMAL = 2.0**-126


def log(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit the natural logarithm, from the exponent and the significand: x = 2^e (1 + f)."""

    def integer(value: int) -> ir.Expr:
        scalar = tirx.IntImm("int32", value)
        return scalar if v.lanes == 1 else tirx.Broadcast(scalar, v.lanes)

    # Scale subnormal x by 2**23, and subtract 23 from the exponent.
    tiny = x < v.const(LEAST_NORMAL)
    scaled = T.Bind(tirx.Select(tiny, x * v.const(2.0**EXPONENT), x))
    above = T.Bind(v.bits(scaled) - integer(ROOT_HALF))
    shifted = T.Bind((above >> integer(EXPONENT)) - tirx.Select(tiny, integer(EXPONENT), integer(0)))
    e = T.Bind(tirx.Cast(str(x.ty.dtype), shifted))
    mantissa = (above & integer((1 << EXPONENT) - 1)) + integer(ROOT_HALF)
    value = _of_parts(v, e, T.Bind(tirx.reinterpret(str(x.ty.dtype), mantissa) - v.const(1)))
    ended = tirx.Select(x < v.const(math.inf), value, x)  # false for NaN, too
    low = tirx.Select(tirx.EQ(x, v.const(0)), v.const(-math.inf), v.const(math.nan))
    return tirx.Select(x <= v.const(0), low, ended)


def log1p(v: Vector, x: ir.Expr) -> ir.Var:
    """Emit log(1 + x) for x from 0 to 1, so that the exponent of 1 + x is 0 or 1; NaN gives NaN.

    1 + x is not rounded to binary32, so that no bits of small x are lost.
    """
    is_halved = x > v.const(math.sqrt(2) - 1)
    half = v.fma(x, v.const(0.5), v.const(-0.5))  # (1 + x) / 2 - 1
    e = T.Bind(tirx.Select(is_halved, v.const(1), v.const(0)))
    return _of_parts(v, e, T.Bind(tirx.Select(is_halved, half, x)))


def _of_parts(v: Vector, e: ir.Expr, f: ir.Var) -> ir.Var:
    """Emit the logarithm of 2^e (1 + f), given e and f."""
    square = T.Bind(f * f)
    small = v.fma(e, v.const(LOG_2[1]), T.Bind(T.Bind(square * f) * v.polynomial(f, LOG)))
    rest = v.fma(square, v.const(-0.5), small)
    return v.fma(e, v.const(LOG_2[0]), T.Bind(f + rest))
