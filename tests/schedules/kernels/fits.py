# SPDX-License-Identifier: Apache-2.0
"""How the coefficients of `exp_f32` and `activation_f32` are found, but for Lawson's `EXP`; run it to print them."""

import math

import numpy as np
from numpy.polynomial import chebyshev, polynomial

from schedules.kernels.epilogues.activation_f32 import ERF_LIMIT
from tests.schedules.programs import Array

SQUARES = 4000
ROUNDS = 60


def erf(x: Array) -> Array:
    """The error function in float64."""
    return np.vectorize(math.erf)(x)


def expm1(degree: int, largest: float) -> Array:
    """p of 2**r = 1 + r p(r) on |r| <= largest and 1 % more: interpolation at Chebyshev nodes."""
    half = 1.01 * largest

    def ratio(u: Array) -> Array:
        # Even degrees have a node at 0.
        r = np.where(u == 0, 1.0, u * half)
        return np.where(u == 0, math.log(2), np.expm1(r * math.log(2)) / r)

    unit = chebyshev.cheb2poly(chebyshev.chebinterpolate(ratio, degree))
    return unit / half ** np.arange(degree + 1)


def erf_ratio(degree: int) -> tuple[Array, Array]:
    """P and Q of erf(x / sqrt 2) = x P(x^2) / Q(x^2) on |x| <= ERF_LIMIT, both of `degree`.

    P - f Q is linear in the coefficients. It is solved by least squares, weighted with 1 / (f Q) of the round before,
    which makes it the relative error, and with Lawson's weights, which lower the largest.
    """
    x = (1 + np.cos(np.pi * (np.arange(SQUARES) + 0.5) / SQUARES)) / 2 * ERF_LIMIT
    f, square = erf(x / math.sqrt(2)) / x, (x / ERF_LIMIT) ** 2
    powers = square[:, None] ** np.arange(degree + 1)
    weights, q_values = np.ones_like(x), np.ones_like(x)
    best = (math.inf, powers[0], powers[0])
    for _ in range(ROUNDS):
        scale = np.sqrt(weights) / (f * q_values)
        system = np.concatenate([powers, -f[:, None] * powers[:, 1:]], axis=1) * scale[:, None]
        found = np.linalg.lstsq(system, f * scale, rcond=None)[0]
        p, q = found[: degree + 1], np.concatenate([[1.0], found[degree + 1 :]])
        q_values = polynomial.polyval(square, q)
        error = np.abs(polynomial.polyval(square, p) / q_values / f - 1)
        best = min(best, (float(error.max()), p, q), key=lambda each: each[0])
        weights *= error / error.mean() + 1e-3
        weights /= weights.mean()
    shrink = ERF_LIMIT ** (-2.0 * np.arange(degree + 1))
    return best[1] * shrink, best[2] * shrink


def expm1_error(p: Array, largest: float) -> float:
    """Largest relative error of r p(r)."""
    r = np.linspace(-largest, largest, 20_000)
    return float(np.abs(r * polynomial.polyval(r, p) / np.expm1(r * math.log(2)) - 1).max())


def erf_error(p: Array, q: Array) -> float:
    """Largest relative error of x P / Q."""
    x = np.linspace(1e-3, ERF_LIMIT, 20_000)
    ratio = polynomial.polyval(x**2, p) / polynomial.polyval(x**2, q)
    return float(np.abs(x * ratio / erf(x / math.sqrt(2)) - 1).max())


if __name__ == "__main__":
    found = (expm1(5, 1 / 2), expm1(1, 1 / 128), *erf_ratio(5))
    for name, values in zip(("EXPM1", "FINE", "ERF_P", "ERF_Q"), found, strict=True):
        print(name, [float(str(np.float32(value))) for value in values])  # noqa: T201 (its purpose)
