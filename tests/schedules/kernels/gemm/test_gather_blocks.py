# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import gather_blocks as kernel
from schedules.kernels.gemm import gemm_blocks
from tests.schedules.block_cases import Case, Gather, gathered
from tests.schedules.programs import BASELINE, model_so, run_on_host

CORE = CORES["neoverse-n2"]
CASES = {
    "4 bits": lambda: Gather(Case(1, 35, 96)),
    "4 bits with offsets": lambda: Gather(Case(1, 48, 128, group=64, offsets=True, shift=8)),
    "8 bits": lambda: Gather(Case(1, 20, 64, 8, 64, "float32", offsets=True)),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_are_the_weights_bit_for_bit(name: str):
    case = CASES[name]()
    for parallel in (False, True):
        np.testing.assert_array_equal(run_on_host(*case.call(kernel.Params(parallel))), case.expected)


def test_rows_on_a_board(tmp_path: Path, board: Board):
    cases = [make() for make in CASES.values()]
    calls = [case.call(kernel.Params()) for case in cases]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        np.testing.assert_array_equal(actual, case.expected)


def test_the_table_is_packed_as_the_product_packs_it():
    case = Case(1, 35, 96, offsets=True)
    table = kernel.pack(gathered(case, 3), kernel.Params(), case.constants)
    product = gemm_blocks.pack(case.workload, gemm_blocks.default(case.workload, CORE), case.constants)
    for own, other in zip(table, product, strict=True):
        np.testing.assert_array_equal(own, other)


def test_matches_says_what_it_saw():
    case = Case(1, 35, 96)
    assert kernel.matches(gathered(case, 3), CORE) == KernelMatch(
        "3 rows of a table of 4-bit weights 35 x 96"
    )
    answer = kernel.matches(case.workload, CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.unfit
    answer = kernel.matches(gathered(Case(1, 35, 70), 3), CORE)
    assert isinstance(answer, Diagnostic)
    assert "no multiple" in answer.reason
