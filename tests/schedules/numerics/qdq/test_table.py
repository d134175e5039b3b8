# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.numerics.qdq.table import look_up, table, table_routine
from tests.schedules.numerics.routines import (
    ANY,
    BELOW_POWER,
    EIGHT_BITS,
    ODD_POWER,
    POWER,
    UNSIGNED,
    WIDE,
    Per,
    quantized,
    real,
    run,
)


@pytest.mark.parametrize("x", EIGHT_BITS, ids=str)
@pytest.mark.parametrize("y", [POWER, BELOW_POWER, UNSIGNED, WIDE], ids=str)
def test_requantisation_is_the_written_definition(x: Per, y: Per):
    expected = [quantized(real(int(q), x), y) for q in x.every]
    np.testing.assert_array_equal(look_up(table(lambda v: v, x, y), x.every), expected)


def test_function_is_rounded_to_binary32_before_it_is_quantised():
    # In binary64, 1/3 of 1.5 + 2**-30 steps is above a tie; in binary32 it is the tie, and goes to even.
    y = Per(0.25, 0, "int8")
    entries = table(lambda x: np.full_like(x, 0.125 + 2.0**-40), POWER, y)
    assert set(entries.tolist()) == {0}


@pytest.mark.each_once
@pytest.mark.parametrize("x", EIGHT_BITS, ids=str)
@pytest.mark.parametrize("y", [ODD_POWER, ANY, WIDE], ids=str)
@pytest.mark.parametrize("shape", [(1,), (7, 8), (2, 1, 9, 31)], ids=str)
def test_routine_equals_numpy(x: Per, y: Per, shape: tuple[int, ...]):
    entries = table(np.tanh, x, y)
    info = np.iinfo(x.dtype)
    q = np.random.default_rng(1).integers(info.min, info.max + 1, shape).astype(x.dtype)
    q.flat[0] = info.min
    q.flat[-1] = info.max
    routine = table_routine(shape, x.dtype, entries)
    np.testing.assert_array_equal(run(routine, [q], shape, y.dtype), look_up(entries, q))


def test_overflow_saturates_and_holes_are_refused():
    assert table(lambda x: np.exp(60 * x), Per(1.0, 0, "int8"), POWER)[-1] == 127
    with pytest.raises(ValueError, match="NaN for some of the 256 values"):
        table(np.sqrt, POWER, POWER)
    with pytest.raises(ValueError, match="not for int16"):
        table(np.tanh, WIDE, POWER)
