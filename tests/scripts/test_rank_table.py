# SPDX-License-Identifier: Apache-2.0
import pytest
import rank_table
from rank_table import Measured, correlation, ordered_likewise

from arm_ext.api import digits
from arm_ext.target.profiles import resolve


@pytest.mark.parametrize(
    ("other", "rho"),
    # The last has a tie: ranks 1, 2.5, 2.5, 4 and a covariance of 4.5 of the root of 5 times 4.5.
    [([2, 30, 31, 99], 1), ([9, 8, 7, -6], -1), ([1, 2, 4, 3], 0.8), ([1, 5, 5, 7], (4.5 / 5) ** 0.5)],
)
def test_correlation_of_known_ranks(other: list[float], rho: float):
    assert correlation([10, 20, 30, 40], other) == pytest.approx(rho)


def test_pairs_that_are_close_are_left_out():
    # 100 and 104 are closer than 5 %; of the other two pairs one is in the other order.
    assert ordered_likewise([100, 104, 200], [3, 1, 2]) == (1, 2)
    assert ordered_likewise([100, 104, 200], [3, 2, 2]) == (0, 1)  # of which the other does not say equal


def test_a_row_tells_what_instructions_and_the_formula_would_have_chosen():
    found = [
        Measured(90, 1300, 1100, 500, 1150, False, None),
        Measured(100, 1000, 1000, 400, 1200, False, None),
        Measured(100, 1100, 1050, 400, 1100, True, None),
    ]
    (_, count, *rest), last = rank_table.row("x", found), ("1 of 3", "10.0 %")
    assert count == "3"
    assert rest[-3:] == ["30.0 %", *last]


@pytest.mark.long
def test_three_candidates_are_measured():
    # OSACA, which need not be installed, aside.
    [row] = rank_table.rows([digits.model_path("fp32")], resolve("neoverse-n1"), ["gemm_f32"], 3, osaca=False)
    assert row[0].startswith("neoverse-n1, gemm_f32, ")
    assert row[1] == "3"
    assert float(row[2]) >= 1
    assert all(-1 <= float(cell) <= 1 for cell in row[3:5])


def test_a_kernel_without_a_task_is_refused():
    with pytest.raises(ValueError, match="no_such_kernel"):
        next(
            rank_table.rows([digits.model_path("fp32")], resolve("neoverse-n1"), ["no_such_kernel"], 3, False)
        )
