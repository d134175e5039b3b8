# SPDX-License-Identifier: Apache-2.0
from fractions import Fraction

import numpy as np
import pytest

from schedules.numerics.tosa.rescale import scale_of
from schedules.numerics.tosa.steps import clamp_of, restepped, restepped_routine
from tests.schedules.numerics.routines import DECIMAL, ODD_POWER, UNSIGNED, Array, Per, run

FINE = Per(float(np.float32(0.00021)), 0, "int16")
UNIT = Per(2.0**-15, 0, "int16")
PAIRS = [(FINE, UNIT), (UNIT, FINE), (FINE, DECIMAL), (DECIMAL, UNIT), (UNIT, ODD_POWER), (FINE, UNSIGNED)]


def every(per: Per) -> Array:
    info = np.iinfo(per.dtype)
    return np.arange(info.min, info.max + 1).astype(per.dtype)


@pytest.mark.parametrize(("x", "y"), PAIRS, ids=str)
def test_definition_rounds_the_real_number_half_up(x: Per, y: Per):
    q, info, scale = every(x)[::7], np.iinfo(y.dtype), scale_of(x.scale / y.scale)
    factor = Fraction(scale.multiplier, 1 << scale.shift)
    assert abs(factor / (Fraction(x.scale) / Fraction(y.scale)) - 1) < Fraction(1, 1 << 30)
    whole = [((int(v) - x.zero_point) * factor + Fraction(1, 2)).__floor__() + y.zero_point for v in q]
    np.testing.assert_array_equal(restepped(q, x, y), np.clip(whole, info.min, info.max))


@pytest.mark.each_once
@pytest.mark.parametrize(("x", "y"), PAIRS, ids=str)
@pytest.mark.parametrize("bounds", [(None, None), (0.0, None), (-0.25, 0.5)], ids=str)
def test_routine_equals_numpy(x: Per, y: Per, bounds: tuple[float | None, float | None]):
    q = every(x)
    routine = restepped_routine(q.shape, x, y, bounds)
    expected = restepped(q, x, y, bounds)
    assert len(np.unique(expected)) > 1
    if bounds[0] is not None:
        assert expected.min() == int(routine.func.attrs["low"])
    np.testing.assert_array_equal(run(routine, [q], q.shape, y.dtype), expected)


def test_a_clamp_is_told_from_other_functions():
    assert clamp_of(lambda x: x, FINE) == (None, None)
    assert clamp_of(lambda x: np.maximum(x, 0), FINE) == (0.0, None)
    assert clamp_of(lambda x: np.clip(x, -1, 6), FINE) == (-1.0, 6.0)
    assert clamp_of(lambda x: np.clip(x, -1, 6), Per(2.0**-7, 0, "int8")) == (None, None)
    for other in (np.abs, np.tanh, np.sqrt, lambda x: 2 * x):
        assert clamp_of(other, FINE) is None


def test_values_that_rescale_does_not_take():
    coarse = Per(float(FINE.scale * 2**14), 0, "int16")
    with pytest.raises(ValueError, match="undefined for some values of int16"):
        restepped(every(FINE), coarse, FINE)
    restepped(every(FINE), Per(float(FINE.scale * 2**13), 0, "int16"), FINE)
