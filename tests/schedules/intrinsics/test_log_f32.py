# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
from numpy.polynomial import Polynomial, chebyshev
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.log_f32 import LOG, log1p
from schedules.intrinsics.vector_f32 import Vector
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import Array, run_on_host

LANES = 4
EPS = 2.0**-24


def _log1p(x: Array) -> Array:
    with kernel_function("f", [(x.shape, "float32")] * 2) as function:
        source, target = function.buffers
        with T.serial(i64(0), i64(x.size // LANES)) as index:
            store(target, log1p(Vector(LANES), load(source, index * LANES, LANES)), index * LANES, LANES)
    return run_on_host(function.prim_func, [x], x.shape, "float32")


def test_log1p_is_within_its_bound():
    small = np.exp2(np.random.default_rng(5).uniform(-149, 0, 1 << 18))
    x = np.concatenate([np.linspace(2.0**-18, 1, 1 << 18), small]).astype(np.float32)
    exact = np.log1p(x.astype(np.float64))
    assert (np.abs(_log1p(x) - exact) / exact).max() <= 2 * EPS


def test_log1p_of_0_is_0_and_nan_stays_nan():
    np.testing.assert_array_equal(_log1p(np.array([0, np.nan, 0, 0], np.float32)), [0, np.nan, 0, 0])


def test_coefficients_are_those_of_the_interpolation():
    low, high = math.sqrt(0.5) - 1, math.sqrt(2) - 1
    middle, half = (low + high) / 2, (high - low) / 2

    def ratio(unit):
        f = middle + unit * half
        return (np.log1p(f) - f + f * f / 2) / f**3

    found = Polynomial(chebyshev.cheb2poly(chebyshev.chebinterpolate(ratio, len(LOG) - 1)))
    np.testing.assert_allclose(found(Polynomial([-middle / half, 1 / half])).coef, LOG, rtol=EPS)
