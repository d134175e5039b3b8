# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from schedules.numerics.qdq.binary import Op, binary, binary_routine
from schedules.numerics.qdq.values import dequantize
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
    binary32,
    quantized,
    real,
    run,
)
from tests.schedules.programs import NEON, assembly

EXACT: dict[Op, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "minimum": min,
}
CASES = [
    (POWER, ODD_POWER, DECIMAL),
    (DECIMAL, BELOW_POWER, ODD_POWER),
    (UNSIGNED, ANY, UNSIGNED),
    (DECIMAL, POWER, WIDE),
    (WIDE, DECIMAL, ANY),
]
# A product of two steps is small: this one does not saturate, nor round to 0.
FINE = Per(0.25, -5, "int8")


def pairs(a: Per, b: Per) -> tuple[Array, Array]:
    """Each value of one tensor with each of the other."""
    return np.repeat(a.every, b.every.size), np.tile(b.every, a.every.size)


@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize(("a", "b", "y"), CASES, ids=str)
def test_numpy_is_the_written_definition(op: Op, a: Per, b: Per, y: Per):
    qa, qb = (values[::257] for values in pairs(a, b))
    expected = [
        quantized(binary32(EXACT[op](real(int(i), a), real(int(j), b))), y)
        for i, j in zip(qa, qb, strict=True)
    ]
    assert len(set(expected)) > 2
    np.testing.assert_array_equal(binary(op, dequantize(qa, a), dequantize(qb, b), y), expected)


@pytest.mark.each_once
@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize(("a", "b", "y"), [*CASES, (DECIMAL, DECIMAL, FINE)], ids=str)
def test_routine_equals_numpy(op: Op, a: Per, b: Per, y: Per):
    qa, qb = pairs(a, b)
    routine = binary_routine(op, (qa.shape, qb.shape), (a, b), y, (None, None))
    expected = binary(op, dequantize(qa, a), dequantize(qb, b), y)
    np.testing.assert_array_equal(run(routine, [qa, qb], qa.shape, y.dtype), expected)


@pytest.mark.each_once
@pytest.mark.parametrize(
    ("left", "right"), [((2, 7, 9), (9,)), ((7, 1), (1, 31)), ((1,), (3, 1, 8)), ((), (5,))], ids=str
)
@pytest.mark.parametrize("constant", [None, 0, 1])
def test_operands_broadcast_and_may_be_constants(
    left: tuple[int, ...], right: tuple[int, ...], constant: int | None
):
    rng = np.random.default_rng(2)
    q = [rng.integers(-128, 128, shape).astype(np.int8) for shape in (left, right)]
    reals = [dequantize(q[0], DECIMAL), dequantize(q[1], ODD_POWER)]
    operands = [reals[i] if i == constant else per for i, per in enumerate((DECIMAL, ODD_POWER))]
    bounds = (-0.5, 3.0)
    routine = binary_routine("subtract", (left, right), (operands[0], operands[1]), FINE, bounds)
    tensors = [q[i] for i in (0, 1) if i != constant]
    expected = binary("subtract", reals[0], reals[1], FINE, bounds)
    np.testing.assert_array_equal(run(routine, tensors, expected.shape, "int8"), expected)


def test_division_by_a_constant_rounds_once():
    q = POWER.every
    divisor = np.array([0.3], np.float32)
    routine = binary_routine("divide", (q.shape, (1,)), (POWER, divisor), DECIMAL, (None, None))
    expected = [quantized(binary32(real(int(i), POWER) / Fraction(float(divisor[0]))), DECIMAL) for i in q]
    np.testing.assert_array_equal(run(routine, [q], q.shape, "int8"), expected)


@pytest.mark.parametrize("op", ["add", "subtract"])
def test_products_and_sums_stay_apart_on_aarch64(op: Op):
    routine = binary_routine(op, ((64,), (64,)), (DECIMAL, UNSIGNED), ANY, (None, None))
    asm = assembly(routine.func.with_attr("global_symbol", op), NEON)
    assert "fmul" in asm
    assert not [
        line for line in asm.splitlines() if line.strip().startswith(("fmla", "fmls", "fmadd", "fnm", "fms"))
    ]


def test_attributes_are_the_parameters():
    constant = np.ones(9, np.float32)
    attributes = dict(
        binary_routine("add", ((3, 9), (9,)), (UNSIGNED, constant), FINE, (0.0, None)).func.attrs
    )
    assert (attributes["a_scale"], attributes["a_zero_point"]) == (UNSIGNED.scale, UNSIGNED.zero_point)
    assert (attributes["y_scale"], attributes["y_zero_point"]) == (FINE.scale, FINE.zero_point)
    assert (attributes["low"], attributes["high"]) == (FINE.zero_point, 127)
    assert "b_scale" not in attributes
