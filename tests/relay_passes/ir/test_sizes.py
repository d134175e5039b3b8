# SPDX-License-Identifier: Apache-2.0
import pytest
from tvm import tirx

from relay_passes.ir.sizes import greatest, value_of

LENGTH = tirx.Var("n", "int64")
HALF = tirx.floordiv(LENGTH + tirx.IntImm("int64", 1), tirx.IntImm("int64", 2))


def test_a_size_has_a_value_for_a_length() -> None:
    assert [value_of(HALF, length) for length in (1, 2, 7, 8)] == [1, 1, 4, 4]


def test_the_greatest_is_of_sizes_that_rise_or_fall() -> None:
    falling = tirx.IntImm("int64", 40) - LENGTH
    assert greatest([tirx.IntImm("int64", 3), HALF], 31) == 3 * 16
    assert greatest([falling], 31) == 39
    assert greatest([LENGTH, falling], 31) == 31 * 39  # a bound: no length has both
    assert greatest([], 31) == 1


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="is negative for a length of 1 or 31"):
        greatest([LENGTH - tirx.IntImm("int64", 2)], 31)
