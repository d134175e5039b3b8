# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board, open_board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import gemm_blocks_mmla as kernel
from tests.schedules.block_cases import Case
from tests.schedules.programs import NEON, assembly, linear, loops, model_so

CORE = CORES["neoverse-n2"]
STEPS = ("bias", "residual", "relu")

CASES = {
    "four rows": lambda: Case(4, 16, 64),
    "an odd number of rows": lambda: Case(7, 35, 96, offsets=True, shift=8, steps=STEPS),
    "a full tile and a row": lambda: Case(9, 31, 70, steps=STEPS),
    "8 bits": lambda: Case(8, 33, 96, 8, 64, "float32"),
    "8 bits with offsets": lambda: Case(31, 48, 130, 8, 130, "float32", offsets=True),
    "groups longer than a block": lambda: Case(10, 16, 224, 4, 128, "float16", offsets=True),
}


@pytest.fixture(scope="module")
def i8mm_board() -> Board:
    with open_board("virtual:neoverse-n2") as opened:
        yield opened


def test_results_are_the_definition(tmp_path: Path, i8mm_board: Board):
    cases = [make() for make in CASES.values()]
    calls = [case.call(kernel.Params(number % 2 == 1), kernel) for number, case in enumerate(cases)]
    so = model_so(tmp_path / "model.so", calls, NEON)
    outputs = i8mm_board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        np.testing.assert_array_equal(actual, case.expected)


@pytest.mark.parametrize(("offsets", "instructions"), [(False, 168), (True, 198)])
def test_instructions_of_a_tile(offsets: bool, instructions: int):
    """Of 8 rows by 4 columns by 64 k."""
    case = Case(32, 64, 640, offsets=offsets, shift=8 if offsets else 0)
    inner = loops(assembly(kernel.build(case.workload, kernel.Params()), NEON))
    products = [loop for loop in inner if sum("smmla" in line for line in loop) == 64]
    assert products
    for loop in products:
        assert len(loop) <= instructions
        assert not [line for line in loop if "[sp" in line]


def test_matches_says_what_it_saw():
    case = Case(7, 31, 64)
    assert kernel.matches(case.workload, CORE) == KernelMatch(
        "product of 4-bit weights and blocks of data 7 x 64 x 31"
    )
    answer = kernel.matches(linear(7, 31, 9), CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.unfit
    answer = kernel.matches(case.workload, CORES["cortex-a76"])
    assert isinstance(answer, Diagnostic)
    assert "no i8mm" in answer.reason
    answer = kernel.matches(Case(3, 31, 64).workload, CORE)
    assert isinstance(answer, Diagnostic)
    assert (answer.limit, answer.actual) == ("4", "3")
