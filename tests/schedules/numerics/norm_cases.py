# SPDX-License-Identifier: Apache-2.0
"""Norms of quantised rows: factors, and the real norm in binary64."""

import numpy as np

from schedules.numerics.qdq.norm import Norm
from tests.schedules.numerics.routines import Array, Per

LAYER, RMS = Norm(1, 1e-5, centred=True), Norm(1, 1e-5, centred=False)


def real_factors(row: tuple[int, ...], what: Norm) -> tuple[Array, Array]:
    """gamma around 1, one of it 0; beta, which an RMS norm does not have."""
    rng = np.random.default_rng(5)
    gamma = rng.uniform(-0.5, 1.5, row)
    gamma.flat[0] = 0
    return gamma, rng.uniform(-0.5, 0.5, row) if what.centred else np.zeros(row)


def norm_in_binary64(q: Array, what: Norm, gamma: Array, beta: Array, x: Per) -> Array:
    """The real norm of quantised values."""
    axes = tuple(range(-what.axes, 0))
    real = (q.astype(np.float64) - x.zero_point) * x.scale
    left = real - real.mean(axes, keepdims=True) if what.centred else real
    return np.asarray(left / np.sqrt((left**2).mean(axes, keepdims=True) + what.epsilon) * gamma + beta)
