# SPDX-License-Identifier: Apache-2.0
import pytest
from other_estimates import by_hand

from schedules.cores import CORES
from tests.arm_ext.measure.a64 import words

SUM = "fmla v0.4s, v1.4s, v2.s[3]"
SCALED = "fmul v2.4s, v1.4s, v0.4s"


@pytest.mark.parametrize(
    ("core", "code", "cycles"),
    [
        # One chain of eight sums, each handed on after two cycles, or after one.
        ("neoverse-n1", [SUM] * 8, 16),
        ("neoverse-n1", ["sdot v0.4s, v1.16b, v2.4b[3]"] * 8, 8),
        # Eight that wait for nothing, on two pipes and on four.
        ("neoverse-n1", [SCALED] * 8, 4),
        ("neoverse-v2", [SCALED] * 8, 2),
        # Pairs of vectors count twice: six on two pipes and on three.
        ("neoverse-n1", ["ldp q0, q1, [x0], #-0x20"] * 3, 3),
        ("neoverse-v2", ["ldp q0, q1, [x0], #-0x20"] * 3, 2),
        # Stores have two pipes of three; the front end takes four instructions a cycle.
        ("neoverse-v2", ["str q0, [x0], #0x10"] * 6, 3),
        ("neoverse-n1", ["nop"] * 8, 2),
    ],
)
def test_cycles_of_a_block(core: str, code: list[str], cycles: float):
    assert by_hand(words(*code), CORES[core]) == cycles
