# SPDX-License-Identifier: Apache-2.0
from fractions import Fraction

import numpy as np
import pytest
from tvm import te

from schedules.numerics.qdq.values import (
    dequantize,
    dequantize_tir,
    every_value,
    integer_bounds,
    limits,
    quantize,
    saturate_tir,
)
from schedules.numerics.routine import routine
from tests.schedules.numerics.routines import (
    EIGHT_BITS,
    ODD_POWER,
    UNSIGNED,
    WIDE,
    Per,
    binary32,
    quantized,
    real,
    run,
)

ALL = [*EIGHT_BITS, WIDE]


@pytest.mark.parametrize("per", ALL, ids=str)
def test_dequantize_is_the_written_definition(per: Per):
    expected = [float(real(int(q), per)) for q in per.every]
    np.testing.assert_array_equal(dequantize(per.every, per), expected)


@pytest.mark.parametrize("per", ALL, ids=str)
def test_quantize_is_the_written_definition(per: Per):
    # Ties, their neighbours, and what saturates.
    ties = np.float32(per.scale) * (np.arange(-300, 300, 7, dtype=np.float32) + np.float32(0.5))
    values = np.concatenate([ties, np.nextafter(ties, np.float32(9)), np.float32([-1e9, 1e9, 0, 1e-30])])
    expected = [quantized(Fraction(float(value)), per) for value in values]
    np.testing.assert_array_equal(quantize(values, per), expected)


@pytest.mark.parametrize("per", ALL, ids=str)
def test_quantize_undoes_dequantize(per: Per):
    np.testing.assert_array_equal(quantize(dequantize(per.every, per), per), per.every)


def test_zero_point_is_added_after_rounding():
    # 0.5 and 1.5 steps round to 0 and 2.
    assert quantize(np.array([0.0625, 0.1875]), ODD_POWER).tolist() == [7, 9]


def test_clamps_are_quantised_like_values():
    assert integer_bounds(ODD_POWER, (None, None)) == (-128, 127)
    assert integer_bounds(ODD_POWER, (0.0, None)) == (7, 127)
    assert integer_bounds(UNSIGNED, (-1.0, 1e9)) == (121, 255)


def test_limits_are_of_the_dtypes_that_there_are():
    assert limits("int16") == (-(2**15), 2**15 - 1)
    with pytest.raises(ValueError, match="int8, uint8, int16, uint16, not to int32"):
        limits("int32")
    assert every_value("uint8").tolist() == list(range(256))
    with pytest.raises(ValueError, match="for int8, uint8 and not for int16"):
        every_value("int16")


@pytest.mark.parametrize("per", ALL, ids=str)
def test_tir_equals_numpy(per: Per):
    size = per.every.size
    q = te.placeholder((size,), per.dtype, "q")
    y = te.compute((size,), lambda i: dequantize_tir(q(i), per), "y")
    as_real = run(routine("dequantize", [q, y], []), [per.every], (size,), "float32")
    np.testing.assert_array_equal(as_real, dequantize(per.every, per))
    scaled = np.linspace(-400, 400, 3203).astype(np.float32)  # every quarter: all ties
    x = te.placeholder(scaled.shape, "float32", "x")
    z = te.compute(
        scaled.shape, lambda i: saturate_tir(x(i), per.zero_point, *limits(per.dtype), per.dtype), "z"
    )
    back = run(routine("saturate", [x, z], []), [scaled], scaled.shape, per.dtype)
    unit = Per(1.0, per.zero_point, per.dtype)
    np.testing.assert_array_equal(back, [quantized(binary32(Fraction(float(v))), unit) for v in scaled])
