# SPDX-License-Identifier: Apache-2.0
"""Activations of float32 vectors by polynomials, without calls, branches or tables.

Error bounds for every finite x, with eps = 2^-24 (half a unit in the last place of 1); results below 2^-119 may be 0:

    sigmoid       4 eps of the value
    tanh          5 eps of the value
    silu          4 eps of the value
    gelu          4 eps of |x|
    gelu_tanh     4 eps of |x|
    hard_sigmoid  1 eps
    hard_swish    2 eps of |x|
    softplus      4 eps of the value

The bounds are maxima over a million arguments, measured by a test and rounded up; an ulp of a value is 1 to 2 eps of
it.

Exponentials are computed by `exp_f32`, logarithms by `log_f32`. gelu computes erf as a ratio of polynomials, whose
coefficients are a reweighted least squares fit by `fits.py` of the tests; rounded to float32, it is within 2 eps of
erf.

A NaN stays a NaN.
"""

import math
from collections.abc import Callable

from tvm import ir

from schedules.intrinsics.exp_f32 import power, reduced
from schedules.intrinsics.log_f32 import log1p
from schedules.intrinsics.vector_f32 import Vector

__all__ = ["FUNCTIONS", "INSTRUCTIONS", "POLYNOMIALS", "Vector"]

ERF_P = (
    7.978845e-01,
    6.7854054e-02,
    9.35439e-03,
    3.3780932e-04,
    1.2578502e-05,
    4.4593527e-08,
)
"""P of erf(x / sqrt 2) = x P(x^2) / Q(x^2), constant term first."""

ERF_Q = (
    1.0e00,
    2.5170878e-01,
    2.8676327e-02,
    1.8853536e-03,
    7.333444e-05,
    1.1795987e-06,
)
"""Q of erf(x / sqrt 2) = x P(x^2) / Q(x^2), constant term first."""

ERF_LIMIT = 5.6
"""|x| from which on erf(x / sqrt 2) is 1 in float32; there, the ratio is exactly 1."""

GELU_TANH_LINEAR = 2 * math.sqrt(2 / math.pi)
"""gelu_tanh(x) = x sigmoid(a x + b x^3) with this a and b = 0.044715 a (Hendrycks and Gimpel, arXiv 1606.08415)."""

GELU_TANH_CUBIC = 0.044715 * GELU_TANH_LINEAR

TANH_LIMIT = 10.0
"""|x| from which on tanh(x) is 1 in float32."""

EXP_LOW, EXP_HIGH = -88.0, 128 * math.log(2)
"""Arguments of exp: below, 1 + exp(x) is 1; above, it is infinity, as is 2^128, whose exponent bits are all 1."""


def one_plus_exp(v: Vector, x: ir.Expr) -> ir.Var:
    """Emit 1 + exp(x) for any x."""
    scale, rest = reduced(v, v.minimum(v.maximum(x, EXP_LOW), EXP_HIGH), base_e=True, add=1.0)
    return v.fma(scale, rest, v.const(1))


def sigmoid(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit 1 / (1 + exp(-x))."""
    return v.const(1) / one_plus_exp(v, -x)


def silu(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit SiLU, x / (1 + exp(-x))."""
    return x / one_plus_exp(v, -x)


def tanh(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit tanh as -t / (2 + t) with t = expm1(-2 |x|), and the sign of x."""
    t = _expm1(v, v.bind(v.minimum(v.absolute(x), TANH_LIMIT) * v.const(-2)))
    return v.with_sign(t / (t + v.const(2)), x)


def expm1_below_0(v: Vector, x: ir.Expr) -> ir.Var:
    """Emit exp(min(x, 0)) - 1."""
    return _expm1(v, v.bind(v.minimum(v.maximum(x, EXP_LOW), 0)))


def _expm1(v: Vector, x: ir.Var) -> ir.Var:
    scale, rest = reduced(v, x, base_e=True, minus_one=True)
    return v.fma(scale, rest, scale - v.const(1))


def gelu(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit GELU, x / 2 (1 + erf(x / sqrt 2))."""
    near = v.minimum(v.maximum(x, -ERF_LIMIT), ERF_LIMIT)
    square = v.bind(near * near)
    erf = v.bind(near * v.polynomial(square, ERF_P) / v.polynomial(square, ERF_Q))
    half = v.bind(x * v.const(0.5))
    return v.fma(half, erf, half)


def gelu_tanh(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit GELU by tanh, x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as x sigmoid of twice that argument."""
    square = v.bind(x * x)
    factor = v.fma(square, v.const(-GELU_TANH_CUBIC), v.const(-GELU_TANH_LINEAR))
    return x / one_plus_exp(v, v.bind(x * factor))


def hard_sigmoid(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit clip(x / 6 + 1 / 2, 0, 1)."""
    return v.minimum(v.maximum(v.fma(x, v.const(1 / 6), v.const(0.5)), 0), 1)


def hard_swish(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit x hard_sigmoid(x)."""
    return x * hard_sigmoid(v, x)


def softplus(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|)), whose exponential is at most 1."""
    return v.maximum(x, 0) + log1p(v, power(v, -v.absolute(x), base_e=True))


FUNCTIONS: dict[str, Callable[[Vector, ir.Expr], ir.Expr]] = {
    "sigmoid": sigmoid,
    "tanh": tanh,
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": hard_swish,
}
"""Name of a step → its function, for functions without parameters."""

POLYNOMIALS = ("sigmoid", "tanh", "silu", "gelu", "gelu_tanh")
"""Functions that SVE instructions make shorter."""

INSTRUCTIONS = {
    "sigmoid": 22.0,
    "tanh": 25.0,
    "silu": 22.0,
    "gelu": 27.0,
    "gelu_tanh": 25.0,
    "hard_sigmoid": 4.0,
    "hard_swish": 5.0,
    "elu": 22.0,
    "scaled_tanh": 27.0,
    "softplus": 49.0,
}
"""Instructions per vector, including copies of the coefficients that FMLA overwrites in Horner's scheme."""
