# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.kernels.winograd.transforms import TAPS, Transform

BOTH = [Transform(2), Transform(4)]


@pytest.mark.parametrize("transform", BOTH, ids=str)
def test_the_transforms_make_a_convolution(transform: Transform):
    rng = np.random.default_rng(1)
    size, m = transform.size, transform.outputs
    d, w = rng.normal(size=(size, size)), rng.normal(size=(TAPS, TAPS))
    u, v = transform.g @ w @ transform.g.T, transform.b.T @ d @ transform.b
    got = transform.a.T @ (u * v) @ transform.a
    expected = [[(d[i : i + TAPS, j : j + TAPS] * w).sum() for j in range(m)] for i in range(m)]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("transform", BOTH, ids=str)
def test_weights_are_rounded_once(transform: Transform):
    w = np.random.default_rng(2).normal(size=(3, TAPS, TAPS, 5)).astype(np.float32)
    u = transform.weights(w)
    assert (u.dtype, u.shape) == (np.float32, (transform.size**2, 5, 3))
    exact = transform.g @ w[2, :, :, 4].astype(np.float64) @ transform.g.T
    # Half a unit in the last place, and what float64 leaves.
    assert (np.abs(u[:, 4, 2].reshape(exact.shape) - exact) <= 2.0**-24 * (1 + 1e-6) * np.abs(exact)).all()
