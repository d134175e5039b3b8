# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import gemm_f32
from schedules.kernels.gemm import gemm_w4 as kernel
from schedules.kernels.gemm.gemm_w8 import Params
from tests.schedules.grouped_cases import Case, grouped
from tests.schedules.programs import BASELINE, NEON, assembly, linear, loops, model_so, run_on_host

CORE = CORES["neoverse-n2"]
ALL_STEPS = ("bias", "residual", "relu", "clip")


def on_host(case: Case, params: Params) -> np.ndarray:
    return run_on_host(*case.call(kernel, params))


@pytest.mark.parametrize(
    ("m", "n", "group", "k"),
    [
        *[(1, 1, 4, 1), (1, 31, 32, 131), (7, 8, 8, 7), (7, 8, 8, 8), (31, 9, 12, 9), (31, 9, 12, 50)],
    ],
)
def test_results_are_those_of_the_float_product_to_the_bit(m: int, n: int, group: int, k: int):
    case = Case(m, n, k, group, ALL_STEPS)
    params = kernel.default(case.workload, CORE)
    found = on_host(case, params)
    case.check(found)
    np.testing.assert_array_equal(found, case.full.on_host(gemm_f32, params.tile))


def test_every_size_on_a_board(tmp_path: Path, board: Board):
    cases = [
        Case(1, 7, 9, 4),
        Case(8, 31, 31, 32, ("bias",)),
        Case(1, 200, 300, 32),
        Case(9, 65, 129, 16, ALL_STEPS),
    ]
    calls = [case.call(kernel, kernel.default(case.workload, CORE)) for case in cases]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        case.check(actual)


def test_result_depends_neither_on_tile_nor_on_threads():
    case = Case(31, 53, 72, 8, ALL_STEPS)
    first, *others = (
        on_host(case, Params(gemm_f32.Params(rows, vectors, 2 * rows, parallel)))
        for rows, vectors, parallel in [(7, 3, False), (5, 4, True), (1, 8, False)]
    )
    case.check(first)
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_weights_stay_4_bits_and_are_widened_once_a_panel():
    case = Case(256, 256, 256, 32, ("bias",))
    params = kernel.default(case.workload, CORE)
    held, columns = kernel.pack(case.workload, params, case.constants)
    assert (held.dtype, held.nbytes, columns.nbytes) == (np.int8, 256 * 256 // 2, 9 * 256 * 4)
    inner = loops(assembly(kernel.build(case.workload, params), NEON))
    (widening,) = [loop for loop in inner if any(line.startswith("scvtf") for line in loop)]
    weights = 4 * sum(line.startswith("scvtf") for line in widening)
    assert len(widening) <= 1.02 * kernel.INSTRUCTIONS * weights
    assert not [line for line in widening if "[sp" in line and line.split()[1].startswith("q")]


def test_matches_says_what_it_saw():
    assert kernel.matches(grouped(7, 31, 9, 4), CORE) == KernelMatch(
        "float32 product of weights of 4 bits 7 x 9 x 31"
    )
    answer = kernel.matches(linear(7, 31, 9), CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.limit == "arm.linear_w4"
