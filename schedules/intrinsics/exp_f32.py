# SPDX-License-Identifier: Apache-2.0
"""Exponentials 2**x and e**x in binary32 by polynomials, without calls or branches; FEXPA's is the only table.

    b**x = 2**n * 2**r,  n = y rounded to a multiple of a step,  r = y - n,  2**r = 1 + r p(r),  y = x log2(b)

The step is 1, or 1/64 with SVE's FEXPA, which computes 2**n for multiples of 1/64. Adding 1.5 * 2**23 * step + 127
rounds y, and leaves n + 127, in units of the step, in the low bits. For the base e, y is not rounded to binary32:
log2(e) is the sum of two constants, and r is rounded once.

The coefficients are fits by `fits.py` of the tests. `EXP` minimises the maximum relative error of 2**r; `EXPM1` that of
r p(r), for functions that subtract 1; `FINE` is for |r| up to 1/128.
"""

from collections.abc import Sequence

from tvm import ir

from schedules.intrinsics import sve
from schedules.intrinsics.vector_f32 import EXPONENT, Vector

LOG2_E = 1.4426950408889634
"""exp(x) = 2**(x * log2(e))."""

LOG2_E_HIGH = 1.44269502162933349609375
"""Rounded to binary32."""

LOG2_E_LOW = LOG2_E - LOG2_E_HIGH

ERROR = 3.25 * 2.0**-24
"""Bound of the relative error of `power` where the result is a normal number."""

LEAST = -127.0
"""Least exponent of 2 for `power`; lower ones count as this. The bits of 2**LEAST are those of 0, so that lower
powers are 0. From there up to -126, where numbers are not normal, a result is off by 2**-126 at most."""

EXP = (
    0.6931470036506653,
    0.24022242426872253,
    0.05550733581185341,
    0.009671512991189957,
    0.0013264723820611835,
)
"""p of 2**r = 1 + r p(r), constant term first."""

EXPM1 = (
    0.6931472,
    0.2402265,
    0.05550355,
    0.00961808,
    0.0013392017,
    0.00015454162,
)
"""Coefficients of the polynomial p if r p(r) must be right relative to itself."""

FINE = (
    0.6931489,
    0.2402268,
)
"""Coefficients of the polynomial for steps of 1/64."""


def power(v: Vector, x: ir.Expr, *, base_e: bool) -> ir.Var:
    """Emit b**x, for powers below 2**127.5; NaN gives NaN.

    Args:
        v: Arithmetic on vectors.
        x: The exponent.
        base_e: Whether b is e, else 2.
    """
    least = LEAST / LOG2_E if base_e else LEAST
    scale, rest = reduced(v, v.maximum(x, least), base_e=base_e)
    return v.fma(scale, rest, scale)


def constants(*, base_e: bool, table: bool) -> tuple[float, ...]:
    """Return the constants of `power`, with FEXPA if `table`, that a loop should keep in registers."""
    base = (LEAST / LOG2_E, LOG2_E_HIGH, LOG2_E_LOW) if base_e else (LEAST,)
    return (*base, _shifter(table), *(FINE if table else EXP))


def _shifter(table: bool) -> float:
    return 1.5 * 2.0 ** (EXPONENT - (sve.FEXPA_FRACTION if table else 0)) + 127


def reduced(
    v: Vector, x: ir.Expr, *, base_e: bool, minus_one: bool = False, add: float = 0.0
) -> tuple[ir.Var, ir.Var]:
    """Emit 2**n and r p(r) + `add` such that b**x = 2**n (1 + r p(r)), for powers from 2**-127 to 2**128.

    Args:
        v: Arithmetic on vectors.
        x: The exponent.
        base_e: Whether b is e, else 2.
        minus_one: Whether the caller subtracts 1 from the power, which requires a small relative error of r p(r).
        add: Added to r p(r) by an FMA, on every target: LLVM would make one only where the target has it.
    """
    table = v.sve and not minus_one
    shifter = _shifter(table)
    # Additions and subtractions are FMAs, too, because TVM would simplify (y + c) - c.
    shifted = v.fma(x, v.const(LOG2_E_HIGH if base_e else 1.0), v.const(shifter))
    minus_n = v.fma(shifted, v.const(-1.0), v.const(shifter))
    inside = v.fma(x, v.const(LOG2_E_HIGH), minus_n) if base_e else v.bind(x + minus_n)
    r = v.fma(x, v.const(LOG2_E_LOW), inside) if base_e else inside
    scale = v.bind(sve.fexpa(v.bits(shifted))) if table else v.power(v.bits(shifted))
    coefficients: Sequence[float] = EXPM1 if minus_one else FINE if table else EXP
    value = v.polynomial(r, coefficients)
    return scale, v.fma(r, value, v.const(add)) if add else v.bind(r * value)
