# SPDX-License-Identifier: Apache-2.0
from fractions import Fraction

import numpy as np
import pytest
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.numerics import qdq
from schedules.numerics.qdq.requantize import requantize_routine
from schedules.numerics.qdq.values import integer_bounds
from schedules.tir.emit import i64, kernel_function
from tests.schedules.numerics.routines import ANY, DECIMAL, ODD_POWER, POWER, WIDE, Per, binary32, run
from tests.schedules.programs import NEON, assembly, run_on_host

POWERS = [2.0**-1, 2.0**-3, 2.0**-9, 2.0**-13]
DECIMALS = [0.1, 0.05, 0.003921569, 0.7, 1.3]
RANDOM = [0.00031717264, 0.0118281]
ZERO_POINTS = {"int8": (0, 7, -128, 127), "uint8": (0, 131, 255), "int16": (0, -77)}
SCALES = POWERS + DECIMALS + RANDOM


def accumulators(m: float) -> np.ndarray:
    """Ties and their neighbours, the smallest and largest accumulators, and those that binary32 cannot hold."""
    ties = np.array([int((half + 0.5) / m) for half in range(-300, 300)])
    edges = np.array([-(2**31), -(2**31) + 1, 2**31 - 1, 2**24 + 1, -(2**24) - 1, 2**25 + 3, 0, 1, -1])
    values = np.concatenate([ties - 1, ties, ties + 1, edges])
    return np.clip(values, -(2**31), 2**31 - 1).astype(np.int32)


def by_fractions(acc: int, m: float, zero_point: int, dtype: str) -> int:
    scaled = binary32(binary32(Fraction(acc)) * Fraction(float(np.float32(m))))
    info = np.iinfo(dtype)
    return min(max(round(scaled) + zero_point, info.min), info.max)


def kernel(size: int, m: float, zero_point: int, dtype: str) -> tirx.PrimFunc:
    """Requantises `size` accumulators by one multiplier."""
    arguments = [((size,), "int32"), ((size,), dtype)]
    with kernel_function("requantize", arguments) as function, T.serial(i64(0), i64(size)) as i:
        multiplier = tirx.FloatImm("float32", float(np.float32(m)))
        value = qdq.requantize_tir(function.buffers[0][i], multiplier, zero_point, dtype)
        T.buffer_store(function.buffers[1], value, [i])
    return function.prim_func


def on_host(acc: np.ndarray, m: float, zero_point: int, dtype: str) -> np.ndarray:
    return run_on_host(kernel(acc.size, m, zero_point, dtype), [acc], [acc.size], dtype)


@pytest.mark.each_once
@pytest.mark.parametrize("m", SCALES)
@pytest.mark.parametrize(
    ("dtype", "zero_point"), [(d, z) for d, points in ZERO_POINTS.items() for z in points]
)
def test_numpy_is_the_written_definition(m: float, dtype: str, zero_point: int):
    acc = accumulators(m)[::7]
    expected = [by_fractions(int(value), m, zero_point, dtype) for value in acc]
    np.testing.assert_array_equal(qdq.requantize(acc, m, zero_point, dtype), expected)


@pytest.mark.each_once
@pytest.mark.parametrize("m", SCALES)
@pytest.mark.parametrize(
    ("dtype", "zero_point"), [("int8", 7), ("int8", -128), ("uint8", 131), ("int16", -77)]
)
def test_tir_equals_numpy(m: float, dtype: str, zero_point: int):
    acc = accumulators(m)
    expected = qdq.requantize(acc, m, zero_point, dtype)
    assert len(np.unique(expected)) > 2
    np.testing.assert_array_equal(on_host(acc, m, zero_point, dtype), expected)


def test_overflowing_product_saturates():
    acc = np.array([2**31 - 1, -(2**31)], np.int32)
    m = 3e38
    np.testing.assert_array_equal(on_host(acc, m, 5, "int8"), [127, -128])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(qdq.requantize(acc, m, 5, "int8"), [127, -128])


def test_tie_goes_to_even_before_an_odd_zero_point_is_added():
    # 0.5, 1.5, 2.5 round to 0, 2, 2; adding 7 first would give 8, 8, 10 less 7.
    np.testing.assert_array_equal(qdq.requantize(np.array([1, 3, 5], np.int32), 0.5, 7, "int8"), [7, 9, 9])


def test_multiplier_rounds_after_each_step():
    scales = [(0.1, 0.03, 0.7), (0.05, 0.01, 0.3), (0.0235, 0.0071, 0.0431), (0.3, 0.007, 0.11)]
    once = []
    for xs, ws, ys in scales:
        x, w, y = (Fraction(float(np.float32(s))) for s in (xs, ws, ys))
        assert Fraction(float(qdq.multiplier(xs, ws, ys))) == binary32(binary32(x * w) / y)
        once.append(binary32(x * w / y) == binary32(binary32(x * w) / y))
    assert not all(once)  # else a multiplier that is rounded once would pass, too


def test_multiplier_of_channels():
    assert qdq.multiplier(0.5, [0.25, 0.5], 2.0).tolist() == [0.0625, 0.125]


def test_other_dtypes_are_refused():
    with pytest.raises(ValueError, match="int8, uint8, int16, uint16, not to int32"):
        qdq.requantize(np.zeros(1, np.int32), 1.0, 0, "int32")


def test_tir_has_no_fused_multiply_add_on_aarch64():
    asm = assembly(kernel(8, 0.1, 7, "int8"), NEON)
    assert "fmul" in asm
    assert "fmadd" not in asm
    assert "fmla" not in asm


@pytest.mark.each_once
@pytest.mark.parametrize("y", [POWER, ODD_POWER, DECIMAL, ANY, WIDE], ids=str)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("bounds", [(None, None), (0.0, None), (0.0, 6.0)])
def test_routine_of_channels_equals_numpy(y: Per, dtype: str, bounds: tuple[float | None, float | None]):
    rng = np.random.default_rng(0)
    top = 2**40 if dtype == "int64" else 2**26  # binary32 does not hold them
    acc = np.concatenate([rng.integers(-top, top, (2, 3, 4)), rng.integers(-900, 900, (2, 3, 4))], -1)
    m = qdq.multiplier(0.5, np.array([2.0**-2, 0.1, 0.7], np.float32).reshape(1, 3, 1), y.scale, [[[3]]])
    expected = qdq.requantize(acc, m, y.zero_point, y.dtype, integer_bounds(y, bounds))
    routine = requantize_routine(acc.shape, dtype, m, y, bounds)
    np.testing.assert_array_equal(run(routine, [acc.astype(dtype)], acc.shape, y.dtype), expected)


def test_clamp_is_a_limit_of_the_saturation():
    relu6 = integer_bounds(ODD_POWER, (0.0, 6.0))
    assert relu6 == (7, 55)
    acc = np.array([-900, 0, 10, 900], np.int32)
    assert qdq.requantize(acc, 1.0, 7, "int8", relu6).tolist() == [7, 7, 17, 55]


def test_average_divides_by_the_scale_times_the_count():
    # fl(ys * n) rounds: 0.1 * 3 in binary32 is not 0.3.
    assert qdq.multiplier(0.3, 1.0, 0.1, 3) == np.float32(0.3) / (np.float32(0.1) * np.float32(3))
