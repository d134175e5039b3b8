# SPDX-License-Identifier: Apache-2.0
"""Which graphs are drawn for NPUs: quantised ones, mostly in int8, and operators at the limits of each constraint."""

from hypothesis import strategies as st

from tests.arm_ext.ethosu.limit_cases import LIMIT_CASES
from tests.arm_ext.ethosu.one_operator import random_inputs
from tests.fuzz.builder import SEEDS, Draw
from tests.fuzz.graphs import Case
from tests.fuzz.quantized import NPU_DTYPES, quantized_cases

LIMITS_EVERY = 4
"""Every fourth graph is one at a limit."""


def npu_cases(number: int) -> st.SearchStrategy[Case]:
    """The strategy for a graph of this number."""
    turn, place = divmod(number, LIMITS_EVERY)
    return _limit_cases(turn) if place == 0 else quantized_cases(NPU_DTYPES)


@st.composite
def _limit_cases(draw: Draw, turn: int) -> Case:
    outside, at = divmod(turn, len(LIMIT_CASES))
    case = LIMIT_CASES[at]
    # Twice outside, once inside: on one of its families each rejects.
    model = case.inside() if outside % 3 == 0 else case.outside()
    inputs = random_inputs(model, draw(st.integers(0, SEEDS - 1)))
    return Case(model, tuple(inputs), (case.reason,), (), quantized=True)
