# SPDX-License-Identifier: Apache-2.0
"""Discrete Fourier transforms as products with constant matrices, in two factors if that takes fewer operations.

    X[k] = sum over n of x[n] w(N, n k)    w(N, a) = exp(-2 pi i a / N); inverse: exp(2 pi i a / N), and X divided by N

One factor: a product with the matrix w(N, n k), which takes N² multiply-accumulates.

Two factors, N = N1 N2 with n = n1 N2 + n2 and k = k1 + N1 k2 (J. W. Cooley, J. W. Tukey, "An Algorithm for the Machine
Calculation of Complex Fourier Series", Mathematics of Computation 19, 1965, where N = r s):

    a[k1, n2] = sum over n1 of w(N1, n1 k1) x[n1, n2]    transforms of N1 elements: a product with a constant
    b[k1, n2] = w(N, k1 n2) a[k1, n2]                    twiddle factors
    X[k2, k1] = sum over n2 of w(N2, n2 k2) b[k1, n2]    transforms of N2 elements: a product with a constant

The constants stand on the left of both products, so that the data's own layout is that of the result: neither product
needs a transposed copy. Real data and half spectra take half of the work:

- Real data: a[N1 - k1] is the conjugate of a[k1], so the first product computes N1 real rows, and the twiddle step
  reads each of them for two k1. Of X, only k2 up to (bins - 1) / N1 are computed.
- The half spectrum of a real result: b[k1, N2 - n2] is the conjugate of b[k1, n2], so only n2 up to N2 / 2 are
  computed, and the second product counts the inner ones twice.

`factor_of` decides by the number of multiply-accumulates, so short and prime lengths have one factor. A third one would
take half of them at 2,048 elements, in products of 16 terms, and another twiddle step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Expr

from arm_ext.frontends.graph import Value

Array = npt.NDArray[Any]
Emit = Callable[[Expr], Expr]
"""Function that binds a call to a variable, and returns the variable."""

R = relax.op

TWIDDLE_MACS = 14
"""Multiply-accumulates that take as long as the twiddle step of one real element.

From the profile of 511 transforms of 2,048 real elements on the virtual Neoverse N2: an element takes 1.4 cycles in the
twiddle step and 1.2 to be packed for the second product, while products compute 5.4 multiply-accumulates a cycle.
"""


@dataclass(frozen=True)
class Fourier:
    """A discrete Fourier transform.

    Attributes:
        length: N. Data are cut to it, or padded with zeros.
        bins: How many elements of the result are computed, from the first.
        inverse: Whether the transform is the inverse one, which is scaled by 1 / N.
        half: Whether the data are the first half of a conjugate-symmetric spectrum, the first `length // 2 + 1`
            elements, so that the result is real. The imaginary parts of its ends are taken as zero.
    """

    length: int
    bins: int
    inverse: bool = False
    half: bool = False

    @property
    def results(self) -> int:
        """Number of parts of the result: 2 for complex results (real and imaginary part), 1 for real ones."""
        return 1 if self.half else 2

    @property
    def longest(self) -> int:
        """Maximum number of elements of the data that the transform reads."""
        return self.length // 2 + 1 if self.half else self.length


def fourier(x: Value, transform: Fourier) -> Value:
    """Return the Fourier transform [..., parts, bins] of data [..., parts, elements] along the last axis."""
    return x.graph.hold(_emitted(x.graph.emit, x.full, transform))


def _emitted(emit: Emit, x: Expr, transform: Fourier) -> Expr:
    """Emit a Fourier transform along the last axis.

    Args:
        emit: Binds each call.
        x: Data of static shape [..., parts, elements] and a float dtype: part 0 is real; part 1, if there is one,
            imaginary.
        transform: The transform to compute.

    Returns:
        The transform [..., parts, bins] of the same dtype: its real part, and unless `half` is set its imaginary part.
    """
    *lead, parts, given = _shape(x)
    if given > transform.longest:
        given = transform.longest
        x = emit(R.strided_slice(x, [len(lead) + 1], [0], [given]))
    if transform.half and parts == 1:
        parts = 2
        x = emit(R.nn.pad(x, [*[0] * (2 * len(lead)), 0, 1, 0, 0]))
    rows, factor = prod(lead), factor_of(transform, parts, given)
    y = (
        _by_one_factor(emit, x, transform, (rows, parts, given))
        if factor == 1
        else _by_two_factors(emit, x, _Factors(transform, parts, given, factor), rows)
    )
    return _reshaped(emit, y, (*lead, transform.results, transform.bins))


@lru_cache(maxsize=64)
def factor_of(transform: Fourier, parts: int, given: int) -> int:
    """Return the factor N1 that needs the fewest multiply-accumulates, twiddle step included; 1 for a single product.

    Args:
        transform: The transform to compute.
        parts: 1 for real data, 2 for complex data.
        given: Number of elements of the data, of which missing ones are zero.
    """
    n = transform.length
    divisors = [d for d in range(2, int(n**0.5) + 1) if n % d == 0]
    factors = sorted({*divisors, *(n // d for d in divisors)})
    work = {1: parts * given * transform.results * transform.bins}
    work |= {factor: _Factors(transform, parts, given, factor).work for factor in factors}
    return min(work, key=lambda factor: work[factor])


def _by_one_factor(emit: Emit, x: Expr, transform: Fourier, dims: tuple[int, int, int]) -> Expr:
    rows, parts, given = dims
    wave = _wave(transform.length, np.outer(np.arange(transform.bins), np.arange(given)), transform.inverse)
    if transform.half:
        wave = wave * _multiplicity(transform.length, given)
    matrix = _real_form(wave, transform.results, parts)
    data = _reshaped(emit, x, (rows, parts * given))
    return emit(R.matmul(data, _constant(matrix.T, x)))


def _by_two_factors(emit: Emit, x: Expr, f: "_Factors", rows: int) -> Expr:
    data = _half_spectrum(emit, x, f, rows) if f.transform.half else _padded(emit, x, f, rows)
    data = emit(R.matmul(_constant(f.first(), x), data))
    (own, other), (factors, crossed) = f.twiddled_rows(), f.twiddles()
    terms = [
        emit(R.multiply(emit(R.take(data, relax.const(index), axis=1, mode="clip")), _constant(values, x)))
        for index, values in ((own, factors), (other, crossed))
    ]
    data = _reshaped(emit, emit(R.add(*terms)), (rows, f.n1, 2 * f.columns))
    data = emit(R.matmul(_constant(f.second(), x), emit(R.permute_dims(data, [0, 2, 1]))))
    data = _reshaped(emit, data, (rows, f.transform.results, f.blocks * f.n1))
    if f.blocks * f.n1 == f.transform.bins:
        return data
    return emit(R.strided_slice(data, [2], [0], [f.transform.bins]))


def _padded(emit: Emit, x: Expr, f: "_Factors", rows: int) -> Expr:
    """Emit the data as [rows, parts n1, n2], padded with zeros to a multiple of n2."""
    x = _reshaped(emit, x, (rows, f.parts, f.given))
    missing = f.given_n1 * f.n2 - f.given
    if missing:
        x = emit(R.nn.pad(x, [0, 0, 0, 0, 0, missing]))
    return _reshaped(emit, x, (rows, f.parts * f.given_n1, f.n2))


def _half_spectrum(emit: Emit, x: Expr, f: "_Factors", rows: int) -> Expr:
    """Emit the spectrum [rows, 2 n1, n2] for n2 up to N2 / 2, completed from its first half."""
    n = np.arange(f.n1)[:, None] * f.n2 + np.arange(f.columns)
    conjugate = n > f.transform.length // 2
    place = np.where(conjugate, f.transform.length - n, n)
    known = place < f.given
    signs = np.stack([known, known * np.where(conjugate, -1, 1) * (2 * place % f.transform.length > 0)])
    index = np.where(known, place, 0) + np.arange(2)[:, None, None] * f.given
    data = _reshaped(emit, x, (rows, 2 * f.given))
    data = emit(R.take(data, relax.const(index.reshape(2 * f.n1, f.columns)), axis=1, mode="clip"))
    return emit(R.multiply(data, _constant(signs.reshape(2 * f.n1, f.columns), x)))


@dataclass(frozen=True)
class _Factors:
    """A transform in two factors N1 · N2, and its constants.

    Attributes:
        transform: The transform.
        parts: 1 if the data are real, else 2.
        given: Number of elements of the data.
        n1: The factor N1.
    """

    transform: Fourier
    parts: int
    given: int
    n1: int

    @property
    def n2(self) -> int:
        """The factor N2 = N / N1."""
        return self.transform.length // self.n1

    @property
    def given_n1(self) -> int:
        """Number of indices n1 that the first product reads; the data at all other n1 is zero."""
        return self.n1 if self.transform.half else -(-self.given // self.n2)

    @property
    def columns(self) -> int:
        """Number of indices n2 for which a product is computed."""
        return self.n2 // 2 + 1 if self.transform.half else self.n2

    @property
    def blocks(self) -> int:
        """Number of indices k2 for which results are computed."""
        return -(-self.transform.bins // self.n1)

    @property
    def work(self) -> int:
        """Number of multiply-accumulates of one transform, including those of the twiddle step."""
        first = self.n1 * self.parts * self.parts * self.given_n1 * self.columns
        second = self.transform.results * self.blocks * 2 * self.columns * self.n1
        return first + second + TWIDDLE_MACS * 2 * self.n1 * self.columns

    def first(self) -> Array:
        """Return the constant matrix of the first product, [parts k1, parts n1].

        For real data, rows that are zero or repeated are left out.
        """
        wave = _wave(self.n1, np.outer(np.arange(self.n1), np.arange(self.given_n1)), self.transform.inverse)
        matrix = _real_form(wave, 2, self.parts)
        if self.parts == 1:
            real, imaginary = range(self.n1 // 2 + 1), range(1, (self.n1 + 1) // 2)
            matrix = matrix[[*real, *(self.n1 + k1 for k1 in imaginary)]]
        return matrix

    def _row(self, k1: int, part: int) -> tuple[int, int]:
        """Return the row of the first product that has a part of a[k1], and the sign of that row.

        0 if the part is zero.
        """
        if self.parts > 1:
            return part * self.n1 + k1, 1
        low = min(k1, self.n1 - k1)
        if not part:
            return low, 1
        return (0, 0) if 2 * low % self.n1 == 0 else (self.n1 // 2 + low, 1 if low == k1 else -1)

    def twiddled_rows(self) -> tuple[Array, Array]:
        """Return the first product's rows that the twiddle step reads for each (k1, part): of it, of the other part."""
        rows = np.array([[self._row(k1, part)[0] for part in (0, 1)] for k1 in range(self.n1)], np.int64)
        return rows.reshape(-1), rows[:, ::-1].reshape(-1)

    def twiddles(self) -> tuple[Array, Array]:
        """Return factors [(k1, part), n2] of the part itself, and of the other part.

        They include the signs of the first product's rows.
        """
        signs = np.array([[self._row(k1, part)[1] for part in (0, 1)] for k1 in range(self.n1)])[..., None]
        places = np.outer(np.arange(self.n1), np.arange(self.columns))
        factor = _turns(self.transform.length, places, self.transform.inverse)[:, None, :]
        # Of (c + i s) (a + i b), the real part is c a - s b and the imaginary one c b + s a.
        crossed = np.concatenate([-factor.imag, factor.imag], axis=1) * signs[:, ::-1]
        shape = 2 * self.n1, self.columns
        return (factor.real * signs).reshape(shape), crossed.reshape(shape)

    def second(self) -> Array:
        """Return the constant matrix of the second product, [parts k2, parts n2]."""
        wave = _wave(
            self.n2, np.outer(np.arange(self.blocks), np.arange(self.columns)), self.transform.inverse
        )
        if self.transform.half:
            wave = wave * _multiplicity(self.n2, self.columns)
        return _real_form(wave, self.transform.results, 2)


def _turns(length: int, places: Array, inverse: bool) -> Array:
    """Return w(length, places), in complex128; w is the module's."""
    # The places are taken modulo the length while they are exact.
    turns: Array = np.exp((2j if inverse else -2j) * np.pi * (places % length) / length)
    return turns


def _wave(length: int, places: Array, inverse: bool) -> Array:
    """Return w(length, places), scaled by 1 / length if inverse."""
    return _turns(length, places, inverse) / (length if inverse else 1)


def _multiplicity(length: int, given: int) -> Array:
    """Return how often each element of a half spectrum occurs in the complete one: 2 except at its real ends."""
    place = np.arange(given)
    return np.where(2 * place % length == 0, 1, 2)


def _real_form(matrix: Array, results: int, parts: int) -> Array:
    """Return a complex matrix as a real one [results rows, parts columns], on real and imaginary parts."""
    whole = np.block([[matrix.real, -matrix.imag], [matrix.imag, matrix.real]])
    return whole[: results * matrix.shape[0], : parts * matrix.shape[1]]


def _constant(values: Array, like: Expr) -> Expr:
    dtype = str(like.ty.dtype)
    return relax.const(np.ascontiguousarray(values, dtype), dtype)


def _reshaped(emit: Emit, x: Expr, shape: tuple[int, ...]) -> Expr:
    return x if _shape(x) == list(shape) else emit(R.reshape(x, list(shape)))


def _shape(x: Expr) -> list[int]:
    return [int(size) for size in x.ty.shape]
