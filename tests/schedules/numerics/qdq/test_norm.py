# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from schedules.numerics.qdq.norm import LONGEST, Norm, factors, norm, norm_routine
from schedules.numerics.qdq.values import quantize
from tests.schedules.numerics.norm_cases import LAYER, RMS, norm_in_binary64, real_factors
from tests.schedules.numerics.routines import (
    BELOW_POWER,
    DECIMAL,
    EIGHT_BITS,
    ODD_POWER,
    POWER,
    UNSIGNED,
    WIDE,
    Array,
    Per,
    binary32,
    run,
    values,
)

BOTH = pytest.mark.parametrize("what", [LAYER, RMS], ids=["layer", "rms"])


def exactly(q: Array, what: Norm, g: Array, h: Array, x: Per, y: Per) -> list[int]:
    """The definition of one row from first principles, but for the root."""
    d = [int(value) - what.zero(x) for value in q]
    n, total = len(d), sum(d)
    variance = n * sum(value * value for value in d) - (total * total if what.centred else 0)
    mean = binary32(Fraction(total / n)) if what.centred else Fraction(0)
    rate = binary32(Fraction(n / math.sqrt(float(variance) + what.spread(n, x))))
    info = np.iinfo(y.dtype)
    found = []
    for value, gamma, beta in zip(d, g.tolist(), h.tolist(), strict=True):
        left = signed(value - mean)
        scaled = signed(signed(left * rate) * Fraction(gamma))
        whole = round(signed(scaled + Fraction(beta))) + y.zero_point
        found.append(min(max(whole, int(info.min)), int(info.max)))
    return found


def signed(value: Fraction) -> Fraction:
    return binary32(value) if value >= 0 else -binary32(-value)


@BOTH
@pytest.mark.parametrize("x", [ODD_POWER, UNSIGNED], ids=str)
def test_definition_from_first_principles(what: Norm, x: Per):
    q = values(x, (40, 9))
    y = Per(2.0**-5, -7, "int8")
    g, h = factors(*real_factors((9,), what), y)
    assert norm(q, what, g, h, x, y).tolist() == [exactly(row, what, g, h, x, y) for row in q]


@BOTH
@pytest.mark.parametrize("x", EIGHT_BITS, ids=str)
@pytest.mark.parametrize("y", [ODD_POWER, Per(2.0**-6, -7, "int8"), WIDE], ids=str)
def test_definition_is_within_a_unit_of_the_real_norm(what: Norm, x: Per, y: Per):
    q = values(x, (200, 17))
    gamma, beta = real_factors((17,), what)
    expected = quantize(norm_in_binary64(q, what, gamma, beta, x), y).astype(int)
    assert len(np.unique(expected)) > 9
    actual = norm(q, what, *factors(gamma, beta, y), x, y)
    assert np.abs(actual.astype(int) - expected).max() <= 1


@pytest.mark.each_once
@BOTH
@pytest.mark.parametrize("x", [DECIMAL, UNSIGNED], ids=str)
@pytest.mark.parametrize("y", [BELOW_POWER, UNSIGNED], ids=str)
@pytest.mark.parametrize(("shape", "axes"), [((1,), 1), ((9, 31), 1), ((3, 7, 8), 2), ((2, 64), 1)], ids=str)
def test_routine_equals_numpy(what: Norm, x: Per, y: Per, shape: tuple[int, ...], axes: int):
    what = dataclasses.replace(what, axes=axes)
    q = values(x, shape)
    gamma, beta = real_factors(shape[len(shape) - axes :], what)
    routine = norm_routine(shape, what, gamma, beta, x, y)
    expected = norm(q, what, *factors(gamma, beta, y), x, y)
    np.testing.assert_array_equal(run(routine, [q], shape, y.dtype), expected)


def test_a_row_of_one_value_gives_beta():
    gamma, beta = real_factors((8,), LAYER)
    q = np.full((8,), 77, np.int8)
    actual = norm(q, LAYER, *factors(gamma, beta, DECIMAL), POWER, DECIMAL)
    np.testing.assert_array_equal(actual, quantize(beta, DECIMAL))


def test_sums_do_not_overflow():
    # The squares of a hundred thousand values are beyond int32, n times their sum beyond 2**48.
    q = np.where(np.arange(100_000) % 2, -128, 127).astype(np.int8)
    routine = norm_routine(q.shape, LAYER, np.ones(1), np.zeros(1), POWER, POWER)
    assert set(run(routine, [q], q.shape, "int8").tolist()) == {-16, 16}


@pytest.mark.parametrize(
    ("shape", "what", "x", "gamma", "reason"),
    [
        ((7,), LAYER, WIDE, 1.0, "defined for int8, uint8 and not for int16"),
        ((LONGEST + 1,), LAYER, POWER, 1.0, "a row has 8388609 elements"),
        ((7,), Norm(1, 0.0, centred=True), POWER, 1.0, "epsilon is not positive"),
        ((7,), LAYER, POWER, 1e39, "beyond binary32"),
    ],
)
def test_what_is_not_defined_says_why(shape: tuple[int, ...], what: Norm, x: Per, gamma: float, reason: str):
    with pytest.raises(ValueError, match=reason):
        norm_routine(shape, what, np.full((1,), gamma), np.zeros(1), x, POWER)
