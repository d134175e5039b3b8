# SPDX-License-Identifier: Apache-2.0
"""Quantising division, round-half-even of x / c between two limits, by multiplications instead of FDIV.

    r = fl(1 / c), q = fl(x * r), e = fma(-q, c, x), x / c = fma(e, r, q)

The last step adds a correction to q and rounds once. The result equals fl(x / c) unless an intermediate value overflows
or underflows (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990; no
difference was found for 33 constants and every significand of x). A quotient that underflows rounds to 0 in both cases.
Nothing overflows, because x is clamped first, to the range whose rounded quotients are within the limits; the quotients
then need no clamp.

A divisor that is computed at run time (the scale of dynamically quantised data) is tested: if it is not in the usual
range, or has the one significand that the theorem excludes, FDIV is used.
"""

import math
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.ir.prim import expr as prim
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import A64
from schedules.generic.expressions import call_name, element
from schedules.generic.functions_f32 import extremum
from schedules.intrinsics.vector_f32 import Vector

ROUNDINGS = frozenset({"round", "nearbyint"})
"""TVM rounds half to even for both names."""

_CONSTANTS = (2.0**-40, 2.0**40)
"""Range of constants whose products with limits of 16 bits are far from the ends of binary32."""

_LIMIT = 2.0**16

_SIGNIFICAND = 2**23 - 1
"""Bits of the significand of a float32."""

_ALL_ONES = 1 - 2.0**-24
"""The only significand (as of `math.frexp`) that the theorem does not cover."""


@dataclass(frozen=True)
class Rounded:
    """A quantising division by a constant: clamp(round_half_even(x / constant), low, high) + zero_point."""

    x: ir.Expr
    constant: float
    low: float
    high: float
    zero_point: int = 0


def rounded_quotient(expr: ir.Expr) -> Rounded | None:
    """Match `round(max(min(x / c, high), low))` or `cast(max(min(round(x / c) + zero_point, high), low))`."""
    if call_name(expr) in ROUNDINGS:
        return _rounded(_between(expr.args[0]), 0)
    if not (isinstance(expr, prim.Cast) and element(expr).lstrip("u") in {"int8", "int16"}):
        return None
    inside, low, high = _between(expr.value)
    zero_point = 0.0
    if isinstance(inside, prim.Add) and isinstance(inside.b, prim.FloatImm):
        zero_point, inside = float(inside.b.value), inside.a
    if call_name(inside) not in ROUNDINGS or not zero_point.is_integer():
        return None
    return _rounded((inside.args[0], low - zero_point, high - zero_point), int(zero_point))


def limited_quotient(expr: ir.Expr) -> ir.Call | None:
    """Return round(x / c) in `cast(max(min(round(x / c) + zero_point, high), low))` with c of run time, or None.

    The limits and the zero point have 8 or 16 bits, so that quotients beyond 2^16 need not be exact.
    """
    if not (isinstance(expr, prim.Cast) and element(expr).lstrip("u") in {"int8", "int16"}):
        return None
    inside, low, high = _between(expr.value)
    if max(abs(low), abs(high)) > _LIMIT:
        return None
    if isinstance(inside, prim.Add) and isinstance(inside.b, prim.Cast):
        narrow = element(inside.b.value).lstrip("u") in {"int8", "int16"}
        inside = inside.a if narrow else inside
    if call_name(inside) not in ROUNDINGS:
        return None
    divided = inside.args[0]
    by_value = isinstance(divided, prim.Div) and not isinstance(divided.b, prim.FloatImm)
    return inside if by_value and element(divided) == "float32" else None


def divide(v: Vector, x: ir.Expr, divisor: ir.Var) -> ir.Expr:
    """Emit x / divisor if its magnitude is at most 2^16, else any number of at least this magnitude."""

    def number(value: float) -> ir.Expr:
        return tirx.const(value, "float32")

    def lanes(value: ir.Expr) -> ir.Expr:
        return value if v.lanes == 1 else tirx.Broadcast(value, v.lanes)

    limit, reciprocal = T.Bind(divisor * number(_LIMIT)), T.Bind(number(1.0) / divisor)
    least, most = lanes(number(0.0) - limit), lanes(limit)
    limited = T.Bind(extremum("minimum", T.Bind(extremum("maximum", x, least, A64)), most, A64))
    q = T.Bind(limited * lanes(reciprocal))
    missed = v.fma(q, lanes(number(0.0) - divisor), limited)
    quotient = v.fma(missed, lanes(reciprocal), q)
    significand = tirx.reinterpret("int32", divisor) & tirx.IntImm("int32", _SIGNIFICAND)
    usual = tirx.all(
        divisor >= number(_CONSTANTS[0]),
        divisor <= number(_CONSTANTS[1]),
        significand != tirx.IntImm("int32", _SIGNIFICAND),
    )
    return tirx.if_then_else(usual, quotient, x / lanes(divisor))


def compute(v: Vector, x: ir.Expr, rounded: Rounded) -> ir.Expr:
    """Emit the clamped quotient before rounding."""
    c = np.float32(rounded.constant)
    limited = v.minimum(v.maximum(x, -_last(-rounded.low, c)), _last(rounded.high, c))
    reciprocal = v.const(float(np.float32(1) / c))
    q = T.Bind(limited * reciprocal)
    return v.fma(v.fma(q, v.const(-float(c)), limited), reciprocal, q)


def _rounded(parts: tuple[ir.Expr, float, float], zero_point: int) -> Rounded | None:
    divided, low, high = parts
    if not (
        isinstance(divided, prim.Div)
        and isinstance(divided.b, prim.FloatImm)
        and element(divided) == "float32"
    ):
        return None
    constant = float(np.float32(divided.b.value))
    usual = _CONSTANTS[0] <= constant <= _CONSTANTS[1] and math.frexp(constant)[0] != _ALL_ONES
    whole = all(abs(limit) <= _LIMIT and limit.is_integer() for limit in (low, high))
    return Rounded(divided.a, constant, low, high, zero_point) if usual and whole else None


def _between(expr: ir.Expr) -> tuple[ir.Expr, float, float]:
    """Return (operand, lower limit, upper limit) of an expression that clamps an operand by constant min and max."""
    low, high = -math.inf, math.inf
    while isinstance(expr, (prim.Min, prim.Max)) and isinstance(expr.b, prim.FloatImm):
        bound = float(expr.b.value)
        low, high = (low, min(high, bound)) if isinstance(expr, prim.Min) else (max(low, bound), high)
        expr = expr.a
    return expr, low, high


def _last(most: float, c: np.float32) -> float:
    """Return the maximum binary32 number whose quotient by c rounds to at most `most`."""
    x = np.float32((most + 0.5) * float(c))
    while np.rint(x / c) > most:
        x = np.nextafter(x, np.float32(-np.inf))
    while np.rint(np.nextafter(x, np.float32(np.inf)) / c) <= most:
        x = np.nextafter(x, np.float32(np.inf))
    return float(x)
