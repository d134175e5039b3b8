# SPDX-License-Identifier: Apache-2.0
"""TIR's math functions of binary32 (exp, erf, log, extrema) as inlined vector code instead of a libm call per lane.

Bounds, with eps = 2^-24: exp 4, log 2 and erf 6 eps of the value, sigmoid and tanh as in `activation_f32`. exp is 0
below -88 and infinity above 89; a NaN stays a NaN.
"""

import math
from collections.abc import Callable

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.generic.expressions import lanes_of
from schedules.intrinsics.exp_f32 import reduced
from schedules.intrinsics.vector_f32 import EXPONENT, Vector
from schedules.kernels.epilogues import activation_f32


def exp(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit e**x."""
    near = v.minimum(v.maximum(x, activation_f32.EXP_LOW), activation_f32.EXP_HIGH)
    scale, rest = reduced(v, near, base_e=True)
    # The sum first: of two terms, infinity times a negative number would be one.
    return scale * T.Bind(rest + v.const(1))


def erf(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit the error function of x, by the rational polynomial that `activation_f32` fits to erf of x / sqrt(2)."""
    limit = activation_f32.ERF_LIMIT / math.sqrt(2)
    near = T.Bind(v.minimum(v.maximum(x, -limit), limit) * v.const(math.sqrt(2)))
    square = T.Bind(near * near)
    above = v.polynomial(square, activation_f32.ERF_P)
    return near * above / v.polynomial(square, activation_f32.ERF_Q)


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

    # 23 more bits of the exponent where x has none.
    tiny = x < v.const(LEAST_NORMAL)
    scaled = T.Bind(tirx.Select(tiny, x * v.const(2.0**EXPONENT), x))
    above = T.Bind(v.bits(scaled) - integer(ROOT_HALF))
    shifted = T.Bind((above >> integer(EXPONENT)) - tirx.Select(tiny, integer(EXPONENT), integer(0)))
    e = T.Bind(tirx.Cast(str(x.ty.dtype), shifted))
    mantissa = (above & integer((1 << EXPONENT) - 1)) + integer(ROOT_HALF)
    f = T.Bind(tirx.reinterpret(str(x.ty.dtype), mantissa) - v.const(1))
    square = T.Bind(f * f)
    small = v.fma(e, v.const(LOG_2[1]), T.Bind(T.Bind(square * f) * v.polynomial(f, LOG)))
    rest = v.fma(square, v.const(-0.5), small)
    value = v.fma(e, v.const(LOG_2[0]), T.Bind(f + rest))
    ended = tirx.Select(x < v.const(math.inf), value, x)  # a NaN is not below either
    low = tirx.Select(tirx.EQ(x, v.const(0)), v.const(-math.inf), v.const(math.nan))
    return tirx.Select(x <= v.const(0), low, ended)


FUNCTIONS: dict[str, Callable[[Vector, ir.Expr], ir.Expr]] = {
    "exp": exp,
    "log": log,
    "sigmoid": activation_f32.sigmoid,
    "tanh": activation_f32.tanh,
    "erf": erf,
}
"""Emitters by the name of TIR's operator."""


def extremum(kind: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit IEEE 754-2019 maximum or minimum (FMAX, FMIN), which returns a NaN if an operand is one."""
    dtype = str(a.ty.dtype)
    lanes, bits = lanes_of(a), dtype.partition("x")[0].removeprefix("float")
    return tirx.call_llvm_pure_intrin(dtype, f"llvm.{kind}.{f'v{lanes}' if lanes > 1 else ''}f{bits}", a, b)
