# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.recurrent import lstm_s8 as kernel
from schedules.numerics.recurrent_integer import Scale
from tests.schedules.numerics.test_recurrent_integer import CASES, LSTM, Case
from tests.schedules.programs import BASELINE, assembly, loops, model_so

CORE = CORES["neoverse-n2"]
DOTPROD = {**BASELINE, "mattr": ["+dotprod"]}


TAKEN = [
    *CASES[:2],
    Case(LSTM, 1, 1, 1),
    Case(LSTM, 4, 1, 31),
    Case(LSTM, 3, 5, 8),
    Case(replace(LSTM, hidden_zero=7, output_zero=7, cell_bits=-15), 3, 1, 64),
]


@pytest.mark.parametrize("core", ["neoverse-n2", "cortex-a53"])
def test_values_are_those_of_the_definition(core: str, tmp_path: Path, board: Board):
    calls, expected = [], []
    for place, case in enumerate(TAKEN, core == "cortex-a53"):
        workload = case.workload
        every = kernel.candidates(workload, CORES[core])
        params = (every[0], every[-1], kernel.default(workload, CORES[core]))[place % 3]
        packed = kernel.pack(workload, params, case.constants)
        func = kernel.build(workload, params)
        calls.append((func, [*case.inputs, *packed], case.expected.shape, "int16"))
        expected.append((case.expected, f"{workload} {params}"))
    so = model_so(tmp_path / "model.so", calls, DOTPROD if core == "neoverse-n2" else BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for (values, message), actual in zip(expected, outputs, strict=True):
        np.testing.assert_array_equal(actual, values, message)


def test_the_inner_loop_is_sdot_and_leaves_the_stack_alone():
    workload = Case(LSTM, 3, 1, 128).workload
    func = kernel.build(workload, kernel.default(workload, CORE))
    inner = [loop for loop in loops(assembly(func, DOTPROD)) if any(i.startswith("sdot") for i in loop)]
    shortest = min(inner, key=len)
    assert not [line for line in shortest if "[sp" in line]
    assert sum(line.startswith("sdot") for line in shortest) / len(shortest) >= 0.55


@pytest.mark.parametrize(("case", "found"), [(CASES[2], "peepholes"), (CASES[3], "a projection")])
def test_other_cells_are_declined(case: Case, found: str):
    answer = kernel.matches(case.workload, CORE)
    assert isinstance(answer, Diagnostic)
    assert (answer.reason, answer.actual) == ("the cell has a form that the kernel lacks", found)


def test_sums_that_may_overflow_are_declined():
    wide = replace(LSTM, products=(*LSTM.products[:3], Scale(1 << 30, 12)))
    answer = kernel.matches(Case(wide, 1, 1, 9).workload, CORE)
    assert isinstance(answer, Diagnostic)
    assert (answer.reason, answer.actual) == ("scaled sums may overflow", "31")


def test_matches_says_what_it_saw():
    assert kernel.matches(TAKEN[3].workload, CORE) == KernelMatch("integer LSTM of 4 steps, 1 x 31")
