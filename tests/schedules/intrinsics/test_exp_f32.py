# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.exp_f32 import ERROR, EXPM1, FINE, power
from schedules.intrinsics.vector_f32 import Vector
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.kernels import fits
from tests.schedules.programs import NEON, Array, assembly, run_on_host


def powers(count: int) -> tirx.PrimFunc:
    with kernel_function("powers", [((count,), "float32")] * 2) as function:
        x, y = function.buffers
        with T.serial(i64(0), i64(count // 4)) as i:
            store(y, power(Vector(4), load(x, i * 4, 4), base_e=False), i * 4, 4)
    return function.prim_func


def computed(x: Array) -> Array:
    return run_on_host(powers(x.size), [x.astype(np.float32)], x.shape, "float32")


def test_relative_error_over_all_normal_results():
    # Fine around 0, where softmax has most of its weight; and both ends of every interval of r.
    x = np.concatenate(
        [np.linspace(-126, 127, 1 << 18), np.linspace(-1, 1, 1 << 18), np.arange(-126, 127, 0.5)]
    )
    x = np.resize(x, 1 << 20).astype(np.float32)
    exact = np.exp2(x.astype(np.float64))
    assert np.abs(computed(x) / exact - 1).max() <= ERROR


def test_whole_powers_are_exact():
    x = np.arange(-126, 126, dtype=np.float32)
    np.testing.assert_array_equal(computed(x), np.exp2(x))


def test_what_is_too_small_is_zero():
    x = np.array([-126.51, -127, -130, -1e4, -3.4e38, -np.inf, -126.5001, -128], np.float32)
    np.testing.assert_array_equal(computed(x), np.zeros(8))


def test_nan_stays_nan():
    assert np.isnan(computed(np.array([np.nan, 0, 1, np.nan], np.float32))).tolist() == [
        True,
        False,
        False,
        True,
    ]


def test_coefficients_are_those_of_the_fit():
    np.testing.assert_allclose(EXPM1, fits.expm1(5, 1 / 2), rtol=1e-6)
    np.testing.assert_allclose(FINE, fits.expm1(1, 1 / 128), rtol=1e-6)
    assert fits.expm1_error(np.array(EXPM1), 1 / 2) <= 2.0**-24


def test_a_vector_takes_eleven_instructions():
    names = [line.split()[0] for line in assembly(powers(4), NEON).splitlines() if ".4s" in line]
    # FMAX, FADD, SHL, two FSUB (of the shift and for r), FMUL, and five FMLA.
    assert len([name for name in names if name not in ("dup", "mov", "movi")]) == 11
