# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import gemm_blocks as kernel
from schedules.kernels.gemm.gemm_blocks import Params
from tests.schedules.block_cases import Case
from tests.schedules.programs import BASELINE, DOTPROD, NEON, assembly, linear, loops, model_so, run_on_host

CORE = CORES["neoverse-n2"]
STEPS = ("bias", "residual", "relu")

CASES = {
    "one column and one k": lambda: Case(1, 1, 1),
    "tails everywhere": lambda: Case(9, 31, 70, offsets=True, steps=STEPS),
    "weights from 0 to 15": lambda: Case(7, 35, 96, offsets=True, shift=8),
    "8 bits": lambda: Case(8, 33, 96, 8, 64, "float32"),
    "groups longer than a block": lambda: Case(7, 16, 224, 4, 128, "float16", offsets=True),
    "a scale a column": lambda: Case(31, 48, 130, 8, 130, "float32"),
    "a row": lambda: Case(1, 40, 192, steps=STEPS),
    "8 bits, a row, offsets": lambda: Case(1, 32, 64, 8, offsets=True),
    "four rows": lambda: Case(4, 16, 64),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_the_definition_for_every_tile(name: str):
    case = CASES[name]()
    for rows in range(1, min(4, len(case.inputs[0])) + 1):
        params = Params(rows, "vector", 4 if rows % 2 else 2, parallel=rows == 2)
        found = run_on_host(*case.call(params))
        np.testing.assert_array_equal(found, case.expected)


@pytest.mark.parametrize(("dot", "target"), [("sdot", DOTPROD), ("smull", BASELINE)])
def test_results_on_a_board(tmp_path: Path, board: Board, dot: str, target: dict[str, object]):
    cases = [make() for make in CASES.values()]
    calls = [case.call(Params(min(4, len(case.inputs[0])), dot, 2)) for case in cases]
    so = model_so(tmp_path / "model.so", calls, target)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        np.testing.assert_array_equal(actual, case.expected)


def test_rows_with_infinities_and_nan_are_nan():
    case = Case(4, 16, 64)
    case.inputs[0][1, 3], case.inputs[0][2, 40], case.inputs[0][3, :32] = np.inf, np.nan, 1e-39
    found = run_on_host(*case.call(Params(3, "vector")))
    assert np.isnan(found[1:3]).all()
    assert np.isfinite(found[[0, 3]]).all()
    np.testing.assert_array_equal(found[[0, 3]], case.expected[[0, 3]])


@pytest.mark.parametrize(("bits", "instructions"), [(4, 194), (8, 146)])
def test_instructions_of_a_row(bits: int, instructions: int):
    """Of two blocks of 16 columns."""
    case = Case(1, 64, 640, bits)
    params = kernel.default(case.workload, CORE)
    inner = loops(assembly(kernel.build(case.workload, params), NEON))
    (products,) = [loop for loop in inner if sum("sdot" in line for line in loop) == 64]
    assert len(products) <= instructions
    assert not [line for line in products if "[sp" in line]


def test_weights_take_no_more_than_the_source():
    case = Case(1, 64, 640)
    packed = kernel.pack(case.workload, kernel.default(case.workload, CORE), case.constants)
    assert sum(each.nbytes for each in packed) == 64 * 640 * 0.5625


def test_matches_says_what_it_saw():
    case = Case(7, 31, 64)
    assert kernel.matches(case.workload, CORE) == KernelMatch(
        "product of 4-bit weights and blocks of data 7 x 64 x 31"
    )
    answer = kernel.matches(linear(7, 31, 9), CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.unfit
    groups = replace(
        case.workload, attributes=(("bits", "4"), ("depth", "64"), ("group", "16"), ("shift", "0"))
    )
    answer = kernel.matches(groups, CORE)
    assert isinstance(answer, Diagnostic)
    assert "no multiple" in answer.reason
