# SPDX-License-Identifier: Apache-2.0
"""Sums that weights can make are made; of the others it is proven that they cannot."""

from itertools import product

import numpy as np
import pytest

from tests.arm_ext.ethosu.model import attain as module
from tests.arm_ext.ethosu.model.attain import attain

LOW, HIGH = -3, 3  # seven values, which no doubling ends at


@pytest.mark.parametrize("weights", [[6, 10, -4], [3, -2, 5], [0, 7, 0], [127, -128, 31, 1]])
def test_every_sum_is_attained_or_proven_not_to_be(weights: list[int]) -> None:
    row = np.array(weights, np.int64)
    made = {int(row @ values) for values in product(range(LOW, HIGH + 1), repeat=len(weights))}
    for sum_ in range(min(made) - 2, max(made) + 3):
        found = attain(row, LOW, HIGH, np.array([sum_]))
        assert (found is not None) == (sum_ in made), sum_
        if found is not None:
            assert row @ found == sum_
            assert LOW <= found.min() <= found.max() <= HIGH


def test_one_sum_of_several_is_attained() -> None:
    row = np.array([6, 10, -4])
    assert row @ attain(row, LOW, HIGH, np.array([7, 9, 22, 1001])) == 22


def test_what_takes_too_much_memory_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1)
    with pytest.raises(OverflowError, match="3 weights"):
        attain(np.array([6, 10, -4]), LOW, HIGH, np.array([7]))
