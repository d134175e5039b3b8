# SPDX-License-Identifier: Apache-2.0
from fractions import Fraction

import numpy as np
import pytest

from schedules.numerics.qdq.values import quantize
from schedules.numerics.tosa.binary import Op, binary, binary_routine, terms
from tests.schedules.numerics.routines import (
    ANY,
    BELOW_POWER,
    DECIMAL,
    ODD_POWER,
    POWER,
    UNSIGNED,
    WIDE,
    Array,
    Per,
    run,
)

OPS: tuple[Op, ...] = ("add", "subtract", "multiply", "maximum", "minimum")
CASES = [
    (POWER, ODD_POWER, DECIMAL),
    (DECIMAL, BELOW_POWER, ODD_POWER),
    (UNSIGNED, ANY, UNSIGNED),
    (DECIMAL, DECIMAL, ODD_POWER),
    (DECIMAL, POWER, WIDE),
    (WIDE, DECIMAL, ANY),
]


def pairs(a: Per, b: Per) -> tuple[Array, Array]:
    return np.repeat(a.every, b.every.size), np.tile(b.every, a.every.size)


def exactly(op: Op, qa: Array, qb: Array, a: Per, b: Per) -> np.ndarray:
    """The real result in binary64, which holds sums and products of two quantised values."""
    x, y = ((q.astype(np.float64) - per.zero_point) * per.scale for q, per in ((qa, a), (qb, b)))
    return np.asarray(getattr(np, op)(x, y))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("a", "b", "y"), CASES, ids=str)
def test_definition_is_the_nearest_value_but_for_ties(op: Op, a: Per, b: Per, y: Per):
    qa, qb = pairs(a, b)
    real = exactly(op, qa, qb, a, b) / y.scale
    info = np.iinfo(y.dtype)
    actual = binary(op, (qa, qb), (a, b), y).astype(np.float64)
    # 31-bit factors, and operands in steps of 2**-19 or 2**-14 of the greater scale.
    steps = max(a.scale, b.scale) / y.scale
    slack = 2.0**-14 * steps if a.dtype == "int16" else 2.0**-18 * steps
    slack += np.abs(real).max() * 2.0**-29
    nearest = np.clip(real, info.min - y.zero_point, info.max - y.zero_point) + y.zero_point
    assert len(np.unique(actual)) > 9
    assert np.abs(actual - nearest).max() <= 0.5 + slack


@pytest.mark.each_once
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("a", "b", "y"), CASES, ids=str)
@pytest.mark.parametrize("bounds", [(None, None), (-0.5, 3.0)], ids=str)
def test_routine_equals_numpy(op: Op, a: Per, b: Per, y: Per, bounds: tuple[float | None, float | None]):
    qa, qb = pairs(a, b)
    routine = binary_routine(op, (qa.shape, qb.shape), (a, b), y, bounds)
    expected = binary(op, (qa, qb), (a, b), y, bounds)
    np.testing.assert_array_equal(run(routine, [qa, qb], qa.shape, y.dtype), expected)


@pytest.mark.each_once
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("left", "right"), [((2, 7, 9), (9,)), ((7, 1), (1, 31)), ((1,), (3, 1, 8)), ((), (5,))], ids=str
)
@pytest.mark.parametrize("constant", [0, 1])
def test_operands_broadcast_and_may_be_constants(
    op: Op, left: tuple[int, ...], right: tuple[int, ...], constant: int
):
    rng = np.random.default_rng(2)
    q = [rng.integers(-128, 128, shape).astype(np.int8) for shape in (left, right)]
    pers = (DECIMAL, ODD_POWER)
    reals = [
        np.asarray((x.astype(np.float64) - p.zero_point) * p.scale) for x, p in zip(q, pers, strict=True)
    ]
    operands = [reals[i].astype(np.float32) if i == constant else pers[i] for i in (0, 1)]
    y = Per(0.3, -5, "int8")
    shape = np.broadcast_shapes(left, right)
    routine = binary_routine(op, (left, right), (operands[0], operands[1]), y, (None, None))
    actual = run(routine, [q[1 - constant]], shape, "int8")
    np.testing.assert_array_equal(actual, binary(op, (q[0], q[1]), (operands[0], operands[1]), y))
    # A constant is held in finer steps than a value of 8 bits.
    expected = quantize(getattr(np, op)(*reals), y).astype(int)
    assert np.abs(actual.astype(int) - expected).max() <= 1


def test_the_greater_factor_of_a_sum_is_2_to_the_19():
    found = terms("add", (ODD_POWER, DECIMAL), POWER)
    assert Fraction(found.a.scale.multiplier, 1 << found.a.scale.shift) == 2**19
    assert found.b.scale.multiplier >> found.b.scale.shift < 2**19
    assert terms("add", (WIDE, Per(WIDE.scale / 2, 0, "int8")), POWER).a.scale.shift == 30 - 14


def test_a_sum_of_equal_scales_is_exact():
    found = terms("subtract", (DECIMAL, Per(DECIMAL.scale, 9, "int8")), POWER)
    for term in (found.a, found.b):
        assert term.scale.multiplier == 1 << term.scale.shift


def test_a_product_that_int32_does_not_hold():
    with pytest.raises(ValueError, match="exceeds int32"):
        terms("multiply", (WIDE, WIDE), POWER)
