# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.numerics.qdq.softmax import exponentials, softmax, softmax_routine
from schedules.numerics.qdq.values import quantize
from tests.schedules.numerics.routines import (
    BELOW_POWER,
    DECIMAL,
    ODD_POWER,
    POWER,
    PROBABILITIES,
    SHARES,
    SOFTMAX_SHAPES,
    UNSIGNED,
    WIDE,
    Per,
    run,
    softmax_in_binary64,
    values,
)


@pytest.mark.parametrize("x", [POWER, ODD_POWER, BELOW_POWER, DECIMAL, UNSIGNED], ids=str)
@pytest.mark.parametrize("y", [PROBABILITIES, SHARES, WIDE], ids=str)
def test_definition_is_within_a_unit_of_softmax(x: Per, y: Per):
    q = values(x, (200, 9))
    expected = quantize(softmax_in_binary64(q, -1, x), y).astype(int)
    assert len(np.unique(expected)) > 9
    assert np.abs(softmax(q, -1, x, y).astype(int) - expected).max() <= 1


@pytest.mark.each_once
@pytest.mark.parametrize("x", [POWER, BELOW_POWER, UNSIGNED], ids=str)
@pytest.mark.parametrize("y", [PROBABILITIES, SHARES], ids=str)
@pytest.mark.parametrize(("shape", "axis"), SOFTMAX_SHAPES, ids=str)
def test_routine_equals_numpy(x: Per, y: Per, shape: tuple[int, ...], axis: int):
    q = values(x, shape)
    routine = softmax_routine(shape, axis, x, y)
    np.testing.assert_array_equal(run(routine, [q], shape, y.dtype), softmax(q, axis, x, y))


def test_equal_values_share_equally():
    assert softmax(np.full((4,), 7, np.int8), 0, POWER, PROBABILITIES).tolist() == [-64] * 4


def test_many_values_do_not_overflow():
    # 2**30 each: their sum is beyond int32.
    q = np.zeros((64,), np.int8)
    routine = softmax_routine((64,), 0, POWER, PROBABILITIES)
    assert set(run(routine, [q], (64,), "int8").tolist()) == {-124}


def test_table_is_of_eight_bits():
    assert exponentials(POWER)[[0, 16]].tolist() == [2**30, round(2**30 / np.e)]
    with pytest.raises(ValueError, match="not for int16"):
        softmax_routine((7,), 0, WIDE, PROBABILITIES)
