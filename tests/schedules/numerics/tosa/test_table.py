# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.numerics.qdq.table import Real
from schedules.numerics.tosa import NUMERICS
from schedules.numerics.tosa.table import entries, interpolated, interpolated_routine
from tests.schedules.numerics.routines import DECIMAL, POWER, UNSIGNED, Array, Per, run

FINE = Per(float(np.float32(0.00021)), 0, "int16")
SHIFTED = Per(2.0**-12, -1234, "int16")
UNIT = Per(2.0**-15, 0, "int16")
EVERY = np.arange(-(2**15), 2**15).astype(np.int16)

FUNCTIONS: dict[str, Real] = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "falling": lambda x: np.exp(-x),
    "bent": lambda x: np.where(x < 0, 0.1 * x, x),
}


def by_integers(table: Array, q: int) -> int:
    """TOSA 1.0, apply_lookup of 16 bits, in Python's integers."""
    index, fraction = (q + 32768) >> 7, q & 0x7F
    base, after = int(table[index]), int(table[index + 1])
    return (base << 7) + (after - base) * fraction


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("x", [FINE, SHIFTED], ids=str)
@pytest.mark.parametrize(("y", "bits"), [(UNIT, 7), (DECIMAL, 14), (UNSIGNED, 14)], ids=str)
def test_definition_is_tosas_look_up_rounded_half_up(name: str, x: Per, y: Per, bits: int):
    table, info = entries(FUNCTIONS[name], x, y), np.iinfo(y.dtype)
    found = [(by_integers(table, int(q)) + (1 << (bits - 1))) >> bits for q in EVERY[::17]]
    expected = np.clip(np.array(found) + y.zero_point, info.min, info.max)
    assert len(np.unique(expected)) > 9
    np.testing.assert_array_equal(interpolated(table, EVERY[::17], y), expected)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
@pytest.mark.parametrize(("y", "entry"), [(UNIT, 0.5), (POWER, 2.0**-8), (DECIMAL, 2.0**-8)], ids=str)
def test_smooth_functions_are_as_near_as_they_are_straight(name: str, y: Per, entry: float):
    function, info = FUNCTIONS[name], np.iinfo(y.dtype)
    real = function(EVERY * np.float64(FINE.scale)) / y.scale
    # Half a unit to round, what rounds the entries, and what the curve bends between two of them.
    bend = np.abs(np.diff(real[::128], 2)).max() / 8
    actual = interpolated(entries(function, FINE, y), EVERY, y)
    error = np.abs(actual - np.clip(real + y.zero_point, info.min, info.max)).max()
    assert error <= 0.5 + entry + bend * 1.01


@pytest.mark.each_once
@pytest.mark.parametrize("y", [UNIT, DECIMAL, UNSIGNED], ids=str)
@pytest.mark.parametrize("shape", [(7, 9), (31,), (1, 8, 3)], ids=str)
def test_routine_equals_numpy(y: Per, shape: tuple[int, ...]):
    q = np.random.default_rng(3).choice(EVERY, shape)
    q.flat[:2] = (-(2**15), 2**15 - 1)
    routine = interpolated_routine(shape, FINE, y, np.tanh)
    expected = interpolated(entries(np.tanh, FINE, y), q, y)
    np.testing.assert_array_equal(run(routine, [q], shape, y.dtype), expected)


def test_tables_that_there_are_none_of():
    with pytest.raises(ValueError, match="cannot produce uint16 with zero point 0"):
        entries(np.tanh, FINE, Per(2.0**-16, 0, "uint16"))
    with pytest.raises(ValueError, match="cannot produce int16 with zero point 5"):
        entries(np.tanh, FINE, Per(2.0**-15, 5, "int16"))
    with pytest.raises(ValueError, match="NaN for some"):
        entries(np.sqrt, FINE, UNIT)
    with pytest.raises(ValueError, match="changes by 65535 between two entries"):
        entries(lambda x: np.where(x < 0, -1, 1), FINE, UNIT)
    entries(lambda x: np.where(x < 0, -1, 1) / 4, FINE, UNIT)


def test_which_types_are_looked_up_how():
    def made(x: Per, y: Per, function: Real) -> str:
        return str(NUMERICS.table((3,), x, y, function).func.attrs["numerics"])

    assert made(POWER, DECIMAL, np.tanh) == "qdq.table"
    assert made(POWER, DECIMAL, lambda x: x) == "qdq.table"
    assert made(POWER, UNIT, np.tanh) == "qdq.table"
    assert made(FINE, UNIT, np.tanh) == "tosa.table"
    assert made(FINE, DECIMAL, np.tanh) == "tosa.table"
    for x, y in ((FINE, UNIT), (FINE, DECIMAL), (POWER, UNIT)):
        assert made(x, y, lambda x: x) == "tosa.rescale"
