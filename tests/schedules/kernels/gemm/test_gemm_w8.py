# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import gemm_f32
from schedules.kernels.gemm import gemm_w8 as kernel
from schedules.kernels.gemm.gemm_w8 import Params
from tests.schedules.half_cases import Case, weight_only
from tests.schedules.programs import BASELINE, NEON, assembly, linear, loops, model_so, run_on_host

CORE = CORES["neoverse-n2"]
ALL_STEPS = ("bias", "residual", "relu", "clip")


def _case(m: int, n: int, k: int, steps: tuple[str, ...] = ALL_STEPS) -> Case:
    return Case(weight_only(linear(m, n, k, steps), "float32"))


@pytest.mark.each_once
@pytest.mark.parametrize("k", [1, 9, 31])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 31), (7, 8), (31, 9), (13, 35)])
def test_sizes_with_tails(m: int, n: int, k: int):
    case = _case(m, n, k)
    func, arguments, shape, dtype = case.call(kernel, kernel.default(case.workload, CORE))
    case.check(run_on_host(func, arguments, shape, dtype))


def test_every_size_on_a_board(tmp_path: Path, board: Board):
    cases = [
        _case(1, 7, 9),
        _case(8, 31, 31),
        _case(9, 1, 1, ("bias",)),
        _case(64, 64, 129),
        _case(1, 200, 300, ("bias",)),
    ]
    calls = [case.call(kernel, kernel.default(case.workload, CORE)) for case in cases]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        case.check(actual)


def test_result_depends_neither_on_tile_nor_on_threads():
    case = _case(31, 53, 37)
    results = []
    for rows, vectors, parallel in [(7, 3, False), (5, 4, True), (1, 8, False)]:
        params = Params(gemm_f32.Params(rows, vectors, 2 * rows, parallel))
        func, arguments, shape, dtype = case.call(kernel, params)
        results.append(run_on_host(func, arguments, shape, dtype))
    case.check(results[0])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_weights_stay_int8_and_are_widened_once_a_panel():
    workload = weight_only(linear(256, 256, 256, ("bias",)), "float32")
    params = kernel.default(workload, CORE)
    packed, _ = kernel.pack(workload, params, Case(workload).constants)
    assert (packed.dtype, packed.nbytes) == (np.int8, 256 * 256)
    inner = loops(assembly(kernel.build(workload, params), NEON))
    (widening,) = [loop for loop in inner if any(line.startswith("scvtf") for line in loop)]
    # TBL and SCVTF for four weights each; no multiplication by the scale.
    assert len(widening) <= 26
    assert sum(line.startswith(("tbl", "scvtf")) for line in widening) == 16


def test_matches_says_what_it_saw():
    workload = weight_only(linear(7, 31, 9), "float32")
    assert kernel.matches(workload, CORE) == KernelMatch("float32 product of int8 weights 7 x 9 x 31")
    for other, limit in (
        (linear(7, 31, 9), "arm.linear_w8"),
        (weight_only(linear(2, 5, 4), "float16"), "float32, int8"),
    ):
        answer = kernel.matches(other, CORE)
        assert isinstance(answer, Diagnostic)
        assert answer.limit == limit
