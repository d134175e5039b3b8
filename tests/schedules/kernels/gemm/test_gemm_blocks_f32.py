# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import gemm_blocks_f32 as kernel
from schedules.kernels.gemm import gemm_f32
from schedules.kernels.gemm.gemm_w8 import Params
from tests.schedules.grouped_cases import Case, grouped, weights_of
from tests.schedules.programs import BASELINE, NEON, assembly, linear, loops, model_so, run_on_host

CORE = CORES["neoverse-n2"]
ALL_STEPS = ("bias", "residual", "relu", "clip")


def on_host(case: Case, params: Params) -> np.ndarray:
    return run_on_host(*case.call(kernel, params))


@pytest.mark.parametrize(
    ("m", "n", "group", "k", "more"),
    [
        (1, 1, 4, 1, {}),
        (1, 31, 32, 131, {"shift": 5}),
        (7, 8, 8, 7, {"offsets": True}),
        (7, 8, 8, 8, {"scale": "float16"}),
        (31, 9, 12, 9, {"bits": 8}),
        (31, 9, 12, 50, {"offsets": True, "scale": "float16"}),
        (5, 31, 16, 33, {"bits": 8, "offsets": True}),
        (3, 33, 64, 130, {"bits": 8, "shift": 28, "scale": "float16"}),
    ],
)
def test_results_are_those_of_the_float_product_to_the_bit(
    m: int, n: int, group: int, k: int, more: dict[str, Any]
):
    case = Case(m, weights_of(n, k, group, **more), ALL_STEPS)
    params = kernel.default(case.workload, CORE)
    found = on_host(case, params)
    case.check(found)
    np.testing.assert_array_equal(found, case.full.on_host(gemm_f32, params.tile))


def test_every_size_on_a_board(tmp_path: Path, board: Board):
    cases = [
        Case(1, weights_of(7, 9, 4)),
        Case(8, weights_of(31, 31, 32, 8), ("bias",)),
        Case(1, weights_of(200, 300, 32, 4, offsets=True, scale="float16")),
        Case(9, weights_of(65, 129, 16), ALL_STEPS),
    ]
    calls = [case.call(kernel, kernel.default(case.workload, CORE)) for case in cases]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        case.check(actual)


def test_result_depends_neither_on_tile_nor_on_threads():
    case = Case(31, weights_of(53, 72, 8), ALL_STEPS)
    first, *others = (
        on_host(case, Params(gemm_f32.Params(rows, vectors, 2 * rows, parallel)))
        for rows, vectors, parallel in [(7, 3, False), (5, 4, True), (1, 8, False)]
    )
    case.check(first)
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_keep_their_bits_and_are_widened_once_a_panel(bits: int):
    case = Case(256, weights_of(256, 256, 32, bits), ("bias",))
    params = kernel.default(case.workload, CORE)
    held, scales, bias = kernel.pack(case.workload, params, case.constants)
    sizes = 256 * 256 * bits // 8, 8 * 256 * 4, 256 * 4
    assert (held.dtype, held.nbytes, scales.nbytes, bias.nbytes) == (np.int8, *sizes)
    inner = loops(assembly(kernel.build(case.workload, params), NEON))
    (widening,) = [loop for loop in inner if any(line.startswith("scvtf") for line in loop)]
    weights = 4 * sum(line.startswith("scvtf") for line in widening)
    assert len(widening) <= 1.02 * kernel.INSTRUCTIONS[bits] * weights
    assert not [line for line in widening if "[sp" in line and line.split()[1].startswith("q")]


def test_matches_says_what_it_saw():
    assert kernel.matches(grouped(7, weights_of(31, 9, 4)), CORE) == KernelMatch(
        "float32 product of weights of 4 bits 7 x 9 x 31"
    )
    answer = kernel.matches(linear(7, 31, 9), CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.limit == "arm.linear_blocks_float"
