# SPDX-License-Identifier: Apache-2.0
"""Activations of float32 vectors as polynomials: no call, no branch, no table.

Bounds, with eps = 2^-24 half a unit in the last place of 1, for every finite x; a result below 2^-119 may be 0:

    sigmoid       4 eps of the value
    tanh          5 eps of the value
    silu          4 eps of the value
    gelu          4 eps of |x|
    gelu_tanh     4 eps of |x|
    hard_sigmoid  1 eps
    hard_swish    2 eps of |x|

They are what a test finds over a million arguments, rounded up; an ulp of a value is 1 to 2 eps of it.

exp(x) = 2^n exp(r) with n = rint(x / ln 2), |r| <= ln 2 / 2, and exp(r) = 1 + r p(r). gelu needs erf, a ratio of
polynomials. The coefficients are fitted, by the tests' `fits.py`, which also holds their errors: p interpolates
expm1(r) / r at Chebyshev nodes, the ratio is a reweighted least squares fit of erf; rounded to float32, both are within
2 eps of what they stand for.

A NaN stays a NaN.
"""

import math
from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.emit import splat

EXPM1 = (
    1.0e00,
    5.0e-01,
    1.6666499e-01,
    4.1666456e-02,
    8.36987e-03,
    1.3934541e-03,
)
"""p of exp(r) = 1 + r p(r), constant term first."""

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
"""Q of the same."""

ERF_LIMIT = 5.6
"""|x| from which on erf(x / sqrt 2) is 1 in float32; there, the ratio is exactly 1."""

LN2_HIGH = 0.693145751953125
"""ln 2 with 15 bits, whose product with an n of 8 bits is exact."""

LN2_LOW = math.log(2) - LN2_HIGH

EXPONENT = 23
"""Bits below the exponent of a float32."""

MAGIC = 1.5 * 2**EXPONENT + 127
"""A float32 to which adding x rounds x to an integer, whose low bits are then that integer with the exponent's bias."""

EXP_LOW, EXP_HIGH = -88.0, 89.0
"""Arguments below give 0 (2^-127, whose exponent bits are 0), above infinity (2^128, whose exponent bits are all 1)."""

GELU_TANH_LINEAR = 2 * math.sqrt(2 / math.pi)
"""gelu_tanh(x) = x sigmoid(a x + b x^3) with this a and b = 0.044715 a (Hendrycks and Gimpel, arXiv 1606.08415)."""

GELU_TANH_CUBIC = 0.044715 * GELU_TANH_LINEAR

TANH_LIMIT = 10.0
"""|x| from which on tanh(x) is 1 in float32."""


class Vector:
    """Arithmetic on vectors of `lanes` float32, scalars if `lanes` is 1; each result is bound, and so computed once."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._dtype = "float32" if lanes == 1 else f"float32x{lanes}"
        self._suffix = "f32" if lanes == 1 else f"v{lanes}f32"

    def const(self, value: float) -> ir.Expr:
        """The value in every lane."""
        return splat(value, "float32", self._lanes)

    def fma(self, a: ir.Expr, b: ir.Expr, c: ir.Expr) -> ir.Var:
        """The sum a * b + c, rounded once; of plain products and sums LLVM would choose which to contract."""
        return T.Bind(self._call("fma", a, b, c))

    def maximum(self, x: ir.Expr, bound: float) -> ir.Var:
        """IEEE 754-2019 maximum, which is FMAX: a NaN stays a NaN."""
        return T.Bind(self._call("maximum", x, self.const(bound)))

    def minimum(self, x: ir.Expr, bound: float) -> ir.Var:
        """IEEE 754-2019 minimum, which is FMIN: a NaN stays a NaN."""
        return T.Bind(self._call("minimum", x, self.const(bound)))

    def absolute(self, x: ir.Expr) -> ir.Var:
        """Without its sign."""
        return T.Bind(self._call("fabs", x))

    def with_sign(self, x: ir.Expr, sign: ir.Expr) -> ir.Var:
        """With the sign of `sign`."""
        return T.Bind(self._call("copysign", x, sign))

    def polynomial(self, x: ir.Expr, coefficients: Sequence[float]) -> ir.Expr:
        """Horner's scheme; constant term first."""
        value: ir.Expr = self.const(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = self.fma(value, x, self.const(coefficient))
        return value

    def reduced(self, x: ir.Expr) -> tuple[ir.Var, ir.Var]:
        """(2^n, r p(r)) of exp(x) = 2^n (1 + r p(r)), for EXP_LOW <= x <= EXP_HIGH."""
        shifted = self.fma(x, self.const(1 / math.log(2)), self.const(MAGIC))
        n = T.Bind(shifted - self.const(MAGIC))
        r = self.fma(n, self.const(-LN2_LOW), self.fma(n, self.const(-LN2_HIGH), x))
        bits = "int32" if self._lanes == 1 else f"int32x{self._lanes}"
        shift = tirx.IntImm("int32", EXPONENT)
        shifts = shift if self._lanes == 1 else tirx.Broadcast(shift, self._lanes)
        scale = T.Bind(tirx.reinterpret(self._dtype, tirx.reinterpret(bits, shifted) << shifts))
        return scale, T.Bind(r * self.polynomial(r, EXPM1))

    def one_plus_exp(self, x: ir.Expr) -> ir.Var:
        """1 + exp(x) for any x."""
        scale, rest = self.reduced(self.minimum(self.maximum(x, EXP_LOW), EXP_HIGH))
        return self.fma(scale, rest + self.const(1), self.const(1))

    def _call(self, name: str, *operands: ir.Expr) -> ir.Expr:
        return tirx.call_llvm_pure_intrin(self._dtype, f"llvm.{name}.{self._suffix}", *operands)


def sigmoid(v: Vector, x: ir.Expr) -> ir.Expr:
    """1 / (1 + exp(-x))."""
    return v.const(1) / v.one_plus_exp(-x)


def silu(v: Vector, x: ir.Expr) -> ir.Expr:
    """SiLU, x / (1 + exp(-x))."""
    return x / v.one_plus_exp(-x)


def tanh(v: Vector, x: ir.Expr) -> ir.Expr:
    """-t / (2 + t) with t = expm1(-2 |x|), and the sign of x."""
    scale, rest = v.reduced(T.Bind(v.minimum(v.absolute(x), TANH_LIMIT) * v.const(-2)))
    t = v.fma(scale, rest, scale - v.const(1))
    return v.with_sign(t / (t + v.const(2)), x)


def gelu(v: Vector, x: ir.Expr) -> ir.Expr:
    """GELU, x / 2 (1 + erf(x / sqrt 2))."""
    near = v.minimum(v.maximum(x, -ERF_LIMIT), ERF_LIMIT)
    square = T.Bind(near * near)
    erf = T.Bind(near * v.polynomial(square, ERF_P) / v.polynomial(square, ERF_Q))
    half = T.Bind(x * v.const(0.5))
    return v.fma(half, erf, half)


def gelu_tanh(v: Vector, x: ir.Expr) -> ir.Expr:
    """GELU by tanh, x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): x sigmoid of twice that argument."""
    square = T.Bind(x * x)
    factor = v.fma(square, v.const(-GELU_TANH_CUBIC), v.const(-GELU_TANH_LINEAR))
    return x / v.one_plus_exp(T.Bind(x * factor))


def hard_sigmoid(v: Vector, x: ir.Expr) -> ir.Expr:
    """clip(x / 6 + 1 / 2, 0, 1)."""
    return v.minimum(v.maximum(v.fma(x, v.const(1 / 6), v.const(0.5)), 0), 1)


def hard_swish(v: Vector, x: ir.Expr) -> ir.Expr:
    """The product x hard_sigmoid(x)."""
    return x * hard_sigmoid(v, x)


FUNCTIONS: dict[str, Callable[[Vector, ir.Expr], ir.Expr]] = {
    "sigmoid": sigmoid,
    "tanh": tanh,
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": hard_swish,
}
"""Those without parameters, by the name of their step."""

INSTRUCTIONS = {
    "sigmoid": 24.0,
    "tanh": 25.0,
    "silu": 24.0,
    "gelu": 27.0,
    "gelu_tanh": 27.0,
    "hard_sigmoid": 4.0,
    "hard_swish": 5.0,
}
"""What each takes for a vector, with a copy of the coefficient that each FMLA of Horner's scheme overwrites."""
