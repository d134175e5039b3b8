# SPDX-License-Identifier: Apache-2.0
"""Functions of two 8-bit operands a and b, of which b is broadcast or constant, as affine functions of a.

    q = saturate((a * 2**lift * m[b] + k[b]) >> shift)

The form is that of `binary_forms.Linear`, but with a separate multiplier m[b] and constant k[b] for each value b, so
that it also exists for products and for constants of binary32. Each value a gives k[b] a lower and an upper bound; the
bounds of all a leave an interval, or are contradictory. If 16-bit multipliers leave an interval for every b, they are
used: they take half of the registers and no second widening. Ratios of scales such as 1/2 or 75/76 produce ties, which
this form cannot round to even.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from schedules.kernels.elementwise.binary_forms import SHIFTS, WORD, Op, Per, QuantizedBinary, Rescaled
from schedules.numerics.qdq.binary import binary
from schedules.numerics.qdq.values import dequantize, every_value
from schedules.numerics.tosa import RescaleFactor, rescale
from schedules.numerics.tosa.binary import Term, Terms, of_terms

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

LIFT = 7
"""Number of bits by which SSHLL shifts a byte left into 16 bits, which gives 16-bit multipliers more fraction bits."""

NEIGHBOURS = (0, 1, -1, 2, -2)
"""Multipliers that are tried, in units from the nearest one."""

CHUNK = 4096
"""Number of values of b whose intervals are computed at once: 8 MB of differences."""


@dataclass(frozen=True)
class BroadcastFunction:
    """A quantised binary function of a tensor and a broadcast operand, in the numerics `qdq`.

    Attributes:
        op: The binary function.
        first: Whether the tensor is the function's first operand.
        x: Quantisation of the tensor.
        y: Quantisation of the result.
        limits: Minimum and maximum of the result.
    """

    op: Op
    first: bool
    x: Per
    y: Per
    limits: tuple[int, int]

    @property
    def dtype(self) -> str:
        """Dtype of the values of the broadcast operand that the methods take: dequantised values."""
        return "float32"

    def every(self, b: Per) -> Array:
        """Return the dequantised value of each of the 256 values of an 8-bit broadcast operand, in ascending order."""
        return dequantize(every_value(b.dtype), b)

    def real(self, numbers: Array) -> Reals:
        """Return values of the broadcast operand as a flat float64 array."""
        return numbers.astype(np.float64).ravel()

    def pair(self, b: Per) -> QuantizedBinary:
        """Return the same function of two run-time tensors; `b` is the quantisation of the broadcast tensor."""
        return QuantizedBinary(self.op, *self.ordered(self.x, b), self.y, *self.limits)

    def ordered(self, own: Any, other: Any) -> tuple[Any, Any]:
        """Order a pair (the tensor's, the broadcast operand's) as first and second operand."""
        return (own, other) if self.first else (other, own)

    def values(self, numbers: Array) -> Ints:
        """Return the results, [values, 256], for each given broadcast value and all tensor values, ascending."""
        x, other = dequantize(every_value(self.x.dtype), self.x)[None, :], numbers.reshape(-1, 1)
        with np.errstate(over="ignore"):  # overflowing values saturate
            q = binary(self.op, *self.ordered(x, other), self.y)
        return np.clip(q.astype(np.int64), *self.limits)

    def ratios(self, numbers: Array) -> Reals:
        """Return, for each broadcast value, the slope of the result in steps of y per step of the tensor."""
        real = self.real(numbers)
        sign = -1 if self.op == "subtract" and not self.first else 1
        slope = real if self.op == "multiply" else np.full(real.shape, float(sign))
        return slope * (self.x.scale / self.y.scale)


@dataclass(frozen=True)
class RescaledBroadcastFunction(BroadcastFunction):
    """A broadcast function in the numerics `tosa`, where the broadcast operand's values are integers.

    Attributes:
        own: The RESCALE of the tensor.
        term: Zero point and RESCALE of the broadcast tensor, or the rescaled values of a constant.
        result: The RESCALE of the result.
    """

    own: RescaleFactor
    term: Term
    result: RescaleFactor

    @property
    def dtype(self) -> str:
        """Dtype of the values of the broadcast operand that the methods take: quantised values."""
        return "int32"

    def every(self, b: Per) -> Array:
        """Return the 256 values of an 8-bit broadcast operand, in ascending order."""
        return every_value(b.dtype)

    def real(self, numbers: Array) -> Reals:
        """Return values of the broadcast operand minus its zero point, rescaled, as a flat float64 array."""
        whole = numbers.astype(np.int64).ravel() - self.term.zero_point
        return rescale(whole, self.term.scale.multiplier, self.term.scale.shift).astype(np.float64)

    def pair(self, b: Per) -> QuantizedBinary:
        """Return the same function of two run-time tensors; `b` is the quantisation of the broadcast tensor."""
        scales = (*self.ordered(self.own, self.term.scale), self.result)
        return Rescaled(self.op, *self.ordered(self.x, b), self.y, *self.limits, scales)

    def values(self, numbers: Array) -> Ints:
        """Return the results, [values, 256], for each given broadcast value and all tensor values, ascending."""
        values = self.ordered(every_value(self.x.dtype)[None, :], numbers.reshape(-1, 1))
        terms = Terms(*self.ordered(Term(self.x.zero_point, self.own), self.term), self.result)
        return of_terms(self.op, values, terms, self.y, self.limits).astype(np.int64)


@dataclass(frozen=True)
class Affine:
    """The constants of an affine form, as the module defines it.

    Attributes:
        shift: Right shift of the sum, 17 to 24.
        lift: Left shift of the input: 7 with 16-bit multipliers, 0 with 32-bit multipliers.
        m: int16 or int32, one per value of b.
        k: int32, one per value of b.
    """

    shift: int
    lift: int
    m: npt.NDArray[Any]
    k: npt.NDArray[np.int32]


def of_constant(function: BroadcastFunction, constant: Array) -> Affine | None:
    """Return the affine form with m and k for each element of a constant; None if some element has no such form."""
    return _of_bytes(function, np.asarray(constant, function.dtype).tobytes())


def of_values(function: BroadcastFunction, b: Per) -> Affine | None:
    """Return the affine form with m and k for all 256 values of an 8-bit b; None if some value has no such form."""
    return of_constant(function, function.every(b))


@lru_cache(maxsize=256)
def _of_bytes(function: BroadcastFunction, content: bytes) -> Affine | None:
    numbers, inverse = np.unique(np.frombuffer(content, function.dtype), return_inverse=True)
    ratios = function.ratios(numbers)
    if not np.isfinite(ratios).all():
        return None
    for lift in (LIFT, 0):
        dtype = np.int16 if lift else np.int32
        most = np.iinfo(np.int16).max if lift else 1 << (WORD - 10)
        for shift in SHIFTS:
            step = 1 << (shift - lift)
            if np.abs(ratios).max() * step + max(NEIGHBOURS) > most:
                continue
            parts = []
            for at in range(0, len(numbers), CHUNK):
                nearest = np.rint(ratios[at : at + CHUNK] * step).astype(np.int64)
                parts.append(_intervals(function, numbers[at : at + CHUNK], nearest, lift, shift))
                if parts[-1] is None:
                    break
            else:
                m, k = (np.concatenate(column)[inverse] for column in zip(*parts, strict=True))
                return Affine(shift, lift, m.astype(dtype), k.astype(np.int32))
    return None


def _intervals(
    function: BroadcastFunction, numbers: Array, nearest: Ints, lift: int, shift: int
) -> tuple[Ints, Ints] | None:
    """Return (m, k), one element per value of the broadcast operand; None if there is no k for some value."""
    q, a = function.values(numbers), every_value(function.x.dtype).astype(np.int64) << lift
    m, k, left = nearest.copy(), np.zeros_like(nearest), np.arange(len(q))
    for neighbour in NEIGHBOURS:
        tried, wanted = nearest[left] + neighbour, q[left]
        total = tried[:, None] * a
        least = np.max((wanted << shift) - total, 1, where=wanted > function.limits[0], initial=-(1 << 62))
        most = np.min(
            ((wanted + 1) << shift) - 1 - total, 1, where=wanted < function.limits[1], initial=1 << 62
        )
        # Neither the sum nor k may exceed 32 bits: a value that wraps around has the wrong sign.
        word = 1 << (WORD - 1)
        least = np.maximum(least, -word - np.minimum(total.min(1), 0))
        most = np.minimum(most, word - 1 - np.maximum(total.max(1), 0))
        solved = least <= most
        m[left[solved]], k[left[solved]] = tried[solved], (least[solved] + most[solved]) >> 1
        left = left[~solved]
        if not left.size:
            return m, k
    return None
