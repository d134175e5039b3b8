# SPDX-License-Identifier: Apache-2.0
"""Ways ("forms") to compute the sum, difference or product of two 8-bit tensors, each proven equal to the definition.

The definition has five roundings and a division,

    q = saturate(rne(fl(fl(fl(da * sa) op fl(db * sb)) / sc)) + zc)    da = a - za, db = b - zb

but there are only 65536 pairs of values. A form is used only if it gives the result of the definition for all pairs:

- `Linear`, for sums and differences: ((a + k) * ma + b * mb modulo 2**32) >> shift, saturated. The multipliers are
  the ratios of scales in units of 2**-shift, or integers next to these; each pair (a, b) gives the constant term k * ma
  a lower and an upper bound. If the bounds of all pairs leave an interval, and ma is odd, k is a term of the interval
  times the inverse of ma modulo 2**32.
- `Scaled`, for products: da * db is an integer, requantised by one fused multiply-add as in `requantize_fused`.
- `Exact`: the definition step by step; a multiplication by the reciprocal replaces the division if it is equal for all
  pairs.

Scales that are powers of two produce ties, which `Linear` cannot round to even: for these, `Exact` is used. The
numerics `tosa` rounds ties up, as `Linear` does. If `Linear` has no constants, as for near ties of short decimals, and
for products, `tosa` uses:

- `Steps`: the definition, RESCALE by RESCALE; and `Product`, if only the RESCALE of the result is not the identity.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product as pairs_of
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from schedules.kernels.epilogues import tosa_rescale
from schedules.kernels.epilogues.requantize import MAGIC_LIMIT
from schedules.kernels.epilogues.requantize_fused import LARGEST_EXPONENT, constants_of, decompose
from schedules.numerics.qdq.binary import binary
from schedules.numerics.qdq.values import dequantize, every_value
from schedules.numerics.tosa import RescaleFactor, rescale
from schedules.numerics.tosa.binary import Term, Terms, of_terms

Op = Literal["add", "subtract", "multiply"]

OPS: tuple[Op, ...] = ("add", "subtract", "multiply")

WORD = 32
"""Bits of a sum."""

SHIFTS = range(24, 16, -1)
"""Right shifts, largest first: 16 by taking the upper half, 1 to 8 by SQSHRN."""

NEIGHBOURS = sorted(pairs_of(range(-2, 3), repeat=2), key=lambda step: abs(step[0]) + abs(step[1]))
"""Multipliers that are tried, in units from the nearest ones."""

COARSE = 7
"""Every so many values of each operand make the pairs that are tried first."""

RECIPROCALS = (0, 1, -1)
"""Multipliers that are tried instead of a division, in units of the last place from the nearest."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Per:
    """A per-tensor quantisation.

    Attributes:
        scale: The scale, exact in binary32.
        zero_point: The quantised value of 0.
        dtype: "int8" or "uint8".
    """

    scale: float
    zero_point: int
    dtype: str


@dataclass(frozen=True)
class QuantizedBinary:
    """A quantised binary function y = a op b, clamped to [low, high], in the numerics `qdq`."""

    op: Op
    a: Per
    b: Per
    y: Per
    low: int
    high: int

    def definition(self) -> Ints:
        """Compute the result for every pair of values, int64 [256, 256]."""
        a, b = dequantize(every_value(self.a.dtype), self.a), dequantize(every_value(self.b.dtype), self.b)
        with np.errstate(over="ignore"):  # overflowing values saturate
            q = binary(self.op, a[:, None], b[None, :], self.y)
        return np.clip(q.astype(np.int64), self.low, self.high)


@dataclass(frozen=True)
class Rescaled(QuantizedBinary):
    """A quantised binary function in the numerics `tosa`; the scales of a and b are relative to that of y.

    Attributes:
        scales: Multipliers and shifts of the RESCALEs of a, of b and of the result.
    """

    scales: tuple[RescaleFactor, RescaleFactor, RescaleFactor]

    def definition(self) -> Ints:
        """Compute the result for every pair of values, int64 [256, 256]."""
        pairs = every_value(self.a.dtype)[:, None], every_value(self.b.dtype)[None, :]
        a, b, y = self.scales
        found = Terms(Term(self.a.zero_point, a), Term(self.b.zero_point, b), y)
        return of_terms(self.op, pairs, found, self.y, (self.low, self.high)).astype(np.int64)

    def exact(self) -> bool:
        """Whether `Steps` equals the definition: no RESCALE's operand exceeds the range that its shift allows."""
        bounds = []
        for per, scale in zip((self.a, self.b), self.scales, strict=False):
            whole = every_value(per.dtype).astype(np.int64) - per.zero_point
            bits = int(np.abs(whole).max()).bit_length()
            if not tosa_rescale.exact(scale.shift, bits):
                return False
            bounds.append(int(np.abs(rescale(whole, scale.multiplier, scale.shift)).max()))
        result = bounds[0] * bounds[1] if self.op == "multiply" else bounds[0] + bounds[1]
        return result < 1 << (WORD - 1) and tosa_rescale.exact(self.scales[2].shift, result.bit_length())


@dataclass(frozen=True)
class Linear:
    """Constants of the form `Linear` of sums and differences, see the module; int32 modulo 2**32."""

    shift: int
    k: int
    ma: int
    mb: int

    def constants(self) -> npt.NDArray[Any]:
        """Return (k, ma, mb) as int32, as the emitter reads them."""
        return np.array([self.k, self.ma, self.mb], np.int64).astype(np.int32)


@dataclass(frozen=True)
class Scaled:
    """Constants of the form `Scaled` of products, see the module.

    Attributes:
        base: int32 to which da * db is added, so that the bits of the sum are a binary32 number.
        m: Multiplier of the fused multiply-add, float32.
        addend: Addend of the fused multiply-add, float32.
    """

    base: int
    m: float
    addend: float


@dataclass(frozen=True)
class Exact:
    """The form that computes the definition step by step; a `reciprocal`, unless None, replaces the division."""

    reciprocal: float | None


@dataclass(frozen=True)
class Steps:
    """The form of a function in the numerics `tosa` that computes the definition RESCALE by RESCALE."""


@dataclass(frozen=True)
class Product(Steps):
    """The form of a product in the numerics `tosa`, whose operands need no RESCALE."""


Form = Linear | Scaled | Exact | Steps


@lru_cache(maxsize=1024)
def form_of(what: QuantizedBinary) -> Form:
    """Return the cheapest form that is proven equal to the definition."""
    q = what.definition()
    if isinstance(what, Rescaled):
        return Product() if what.op == "multiply" else _linear(what, q) or Steps()
    found = _scaled(what, q) if what.op == "multiply" else _linear(what, q)
    return found or Exact(_reciprocal(what, q))


def _bounds(what: QuantizedBinary, q: Ints) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return masks of the pairs whose result is not saturated at `low`, and of those not saturated at `high`."""
    return q > what.low, q < what.high


def _linear(what: QuantizedBinary, q: Ints) -> Linear | None:
    a, b = every_value(what.a.dtype).astype(np.int64), every_value(what.b.dtype).astype(np.int64)
    rising, falling = _bounds(what, q)
    ratios = (what.a.scale / what.y.scale, what.b.scale / what.y.scale * (-1 if what.op == "subtract" else 1))
    # With larger ratios, the sums exceed 32 bits for every shift, or the multipliers are too large to be worth
    # trying.
    for shift in SHIFTS if max(map(abs, ratios)) < 1 << (WORD - SHIFTS[-1]) else ():
        nearest = [round(ratio * (1 << shift)) for ratio in ratios]
        for step_a, step_b in NEIGHBOURS:
            ma, mb = nearest[0] + step_a, nearest[1] + step_b
            if ma % 2 == 0:  # has no inverse
                continue
            # Try a few pairs first, because most multipliers fail for some of them.
            for some in (slice(None, None, COARSE), slice(None)):
                total = a[some, None] * ma + b[None, some] * mb
                least, most = _terms(total, shift, q[some, some], rising[some, some], falling[some, some])
                if least > most:
                    break
            else:
                k = (least + most) // 2 * pow(ma, -1, 1 << WORD) % (1 << WORD)
                return Linear(shift, _signed(k), ma, mb)
    return None


def _terms(
    total: Ints, shift: int, q: Ints, rising: npt.NDArray[np.bool_], falling: npt.NDArray[np.bool_]
) -> tuple[int, int]:
    """Return the minimum and maximum constant term for which all sums, shifted right, give their values `q`."""
    least = np.max((q << shift) - total, where=rising, initial=-(1 << 62))
    most = np.min(((q + 1) << shift) - 1 - total, where=falling, initial=1 << 62)
    # The sum must not exceed 32 bits: a value that wraps around has the wrong sign.
    least = max(int(least), -(1 << (WORD - 1)) - int(total.min()))
    return least, min(int(most), (1 << (WORD - 1)) - 1 - int(total.max()))


def _signed(word: int) -> int:
    return word - (1 << WORD) if word >> (WORD - 1) else word


def _scaled(what: QuantizedBinary, q: Ints) -> Scaled | None:
    a, b = every_value(what.a.dtype).astype(np.int64), every_value(what.b.dtype).astype(np.int64)
    products = (a - what.a.zero_point)[:, None] * (b - what.b.zero_point)[None, :]
    bound = int(np.abs(products).max()) + 1
    m = np.float32(what.a.scale * what.b.scale / what.y.scale)
    significand, exponent = (int(part[0]) for part in decompose(np.array([m])))
    if not 0 < exponent <= LARGEST_EXPONENT or float(m) * bound + abs(what.y.zero_point) >= MAGIC_LIMIT - 1:
        return None
    whole, half = q - what.y.zero_point, 1 << (exponent - 1)
    odd = whole & 1
    rising, falling = _bounds(what, q)
    for step in RECIPROCALS:
        scaled = products * (significand + step)
        least = np.max((2 * whole - 1) * half + odd - scaled, where=rising, initial=1 - half)
        most = np.min((2 * whole + 1) * half - odd - scaled, where=falling, initial=half - 1)
        if least <= most:
            window = (int(least), int(most))
            constants = constants_of(significand + step, exponent, window, bound, what.y.zero_point)
            if constants is not None:
                return Scaled(*constants)
    return None


def _reciprocal(what: QuantizedBinary, q: Ints) -> float | None:
    a, b = dequantize(every_value(what.a.dtype), what.a), dequantize(every_value(what.b.dtype), what.b)
    with np.errstate(over="ignore"):
        real = getattr(np, what.op)(a[:, None], b[None, :])
        nearest = np.float32(1) / np.float32(what.y.scale)
        for step in RECIPROCALS:
            factor = (nearest.view(np.int32) + np.int32(step)).view(np.float32)
            whole = np.rint(real * factor).astype(np.float64) + what.y.zero_point
            if np.isfinite(factor) and (np.clip(whole, what.low, what.high) == q).all():
                return float(factor)
    return None
