# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.numerics.qdq.values import quantize
from schedules.numerics.tosa.softmax import MAX_LENGTH, exponentials, reciprocals, softmax, softmax_routine
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
@pytest.mark.parametrize("y", [PROBABILITIES, SHARES, Per(2.0**-12, -77, "int16")], ids=str)
@pytest.mark.parametrize("length", [2, 9, 1000])
def test_definition_is_within_a_unit_of_softmax(x: Per, y: Per, length: int):
    q = values(x, (200, length))
    expected = quantize(softmax_in_binary64(q, -1, x), y).astype(int)
    assert len(np.unique(expected)) >= 3
    assert np.abs(softmax(q, -1, x, y).astype(int) - expected).max() <= 1


@pytest.mark.each_once
@pytest.mark.parametrize("x", [POWER, BELOW_POWER, UNSIGNED], ids=str)
@pytest.mark.parametrize("y", [PROBABILITIES, SHARES], ids=str)
@pytest.mark.parametrize(("shape", "axis"), SOFTMAX_SHAPES, ids=str)
def test_routine_equals_numpy(x: Per, y: Per, shape: tuple[int, ...], axis: int):
    q = values(x, shape)
    routine = softmax_routine(shape, axis, x, y)
    np.testing.assert_array_equal(run(routine, [q], shape, y.dtype), softmax(q, axis, x, y))


@pytest.mark.parametrize("length", [1, 4, 64, MAX_LENGTH])
def test_equal_values_share_equally(length: int):
    q = np.full((length,), 7, np.int8)
    expected = int(quantize(1 / length, PROBABILITIES))
    routine = softmax_routine((length,), 0, POWER, PROBABILITIES)
    assert set(run(routine, [q], (length,), "int8").tolist()) == {expected}


def test_tables_are_those_of_the_definition():
    assert exponentials(POWER)[[0, 16]].tolist() == [2**15 - 1, round(2**15 / np.e)]
    assert reciprocals()[[0, 128, 255]].tolist() == [255, round(256 / 1.5), round(256 / (1 + 255 / 256))]


def test_what_has_no_softmax():
    with pytest.raises(ValueError, match="not for int16"):
        softmax_routine((7,), 0, WIDE, PROBABILITIES)
    with pytest.raises(ValueError, match="65536"):
        softmax_routine((MAX_LENGTH + 1,), 0, POWER, PROBABILITIES)
