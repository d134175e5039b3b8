# SPDX-License-Identifier: Apache-2.0
"""TIR's functions of binary32 as vector code, without a call a lane.

Bounds, with eps = 2^-24: exp 4 eps and erf 6 eps of the value, sigmoid and tanh as in `activation_f32`. exp is 0 below
-88 and infinity above 89; a NaN stays a NaN.
"""

import math
from collections.abc import Callable

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.generic.expressions import lanes_of
from schedules.intrinsics.exp_f32 import reduced
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels import activation_f32


def exp(v: Vector, x: ir.Expr) -> ir.Expr:
    """e**x."""
    near = v.minimum(v.maximum(x, activation_f32.EXP_LOW), activation_f32.EXP_HIGH)
    scale, rest = reduced(v, near, base_e=True)
    # The sum first: of two terms, infinity times a negative number would be one.
    return scale * T.Bind(rest + v.const(1))


def erf(v: Vector, x: ir.Expr) -> ir.Expr:
    """By the ratio of polynomials that is fitted to erf of x over the root of 2."""
    limit = activation_f32.ERF_LIMIT / math.sqrt(2)
    near = T.Bind(v.minimum(v.maximum(x, -limit), limit) * v.const(math.sqrt(2)))
    square = T.Bind(near * near)
    above = v.polynomial(square, activation_f32.ERF_P)
    return near * above / v.polynomial(square, activation_f32.ERF_Q)


FUNCTIONS: dict[str, Callable[[Vector, ir.Expr], ir.Expr]] = {
    "exp": exp,
    "sigmoid": activation_f32.sigmoid,
    "tanh": activation_f32.tanh,
    "erf": erf,
}
"""By the name of TIR's operator."""


def extremum(kind: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """IEEE 754-2019 "maximum" or "minimum", FMAX or FMIN: of a number and a NaN the NaN."""
    dtype = str(a.ty.dtype)
    lanes, bits = lanes_of(a), dtype.partition("x")[0].removeprefix("float")
    return tirx.call_llvm_pure_intrin(dtype, f"llvm.{kind}.{f'v{lanes}' if lanes > 1 else ''}f{bits}", a, b)
