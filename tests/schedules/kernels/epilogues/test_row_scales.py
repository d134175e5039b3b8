# SPDX-License-Identifier: Apache-2.0
"""Products of data quantised at run time: every kernel equals the definition to the bit."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import gemm_s8_mlal, gemm_s8_mmla, gemm_s8_sdot
from schedules.select import Choice, select
from tests.schedules.dynamic_cases import STEPS, Case, Window
from tests.schedules.products import I8MM
from tests.schedules.programs import model_so

KERNELS = {"mmla": gemm_s8_mmla, "sdot": gemm_s8_sdot, "mlal": gemm_s8_mlal}
CORE = CORES["neoverse-n2"]
CASES = (
    Case((1,), 1, 1),
    Case((7,), 31, 9, steps=STEPS),
    Case((2, 9), 40, 31, dtype="uint8", by_row=False, steps=("bias", "relu")),
    Case((1,), 129, 35, dtype="uint8", scaled=False),
    Case((13,), 64, 16, dtype="uint8", steps=("bias", "residual")),
    Case((31,), 8, 8, by_row=False, scaled=False, steps=("bias",)),
    Case((9,), 31, 9, nine_bits=True, dtype="uint8", steps=("bias",)),
    Case((3,), 70, 40, nine_bits=True, sums=True),
    Case((8,), 31, 9, constant_zero=True, dtype="uint8", sums=True),
    Case((1,), 9, 31, constant_zero=True, nine_bits=True, steps=("bias", "relu")),
    Case((1, 7, 9), 8, 9, dtype="uint8", window=Window((3, 3), pads=(1, 1, 1, 1)), steps=("bias",)),
    Case((2, 8, 7), 5, 7, nine_bits=True, window=Window((3, 2), (2, 1), (1, 2), (1, 0, 2, 1))),
    Case((7,), 31, 9, constant_zero=True, offset=True, steps=("bias", "relu")),
    Case(
        (1, 7, 9),
        8,
        9,
        constant_zero=True,
        offset=True,
        dtype="uint8",
        window=Window((3, 3), pads=(1, 1, 1, 1)),
    ),
    Case((9,), 40, 31, constant_zero=True, offset=True, nine_bits=True, dtype="uint8", steps=("residual",)),
    Case((1, 9, 9), 6, 8, nine_bits=True, sums=True, window=Window((3, 3), pads=(1, 1, 1, 1), groups=2)),
)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_equals_the_definition(kernel: ModuleType, tmp_path: Path, board: Board):
    # Units differ in how they multiply, not in what follows: each has a third of the cases.
    cases = CASES[list(KERNELS.values()).index(kernel) :: 3]
    calls = [case.call(kernel, kernel.default(case.workload, CORE)) for case in cases]
    # Rows of 12 and of 8 bytes; tasks that share columns.
    shared = kernel.candidates(CASES[1].workload, CORE)[:2]
    calls += [CASES[1].call(kernel, replace(params, column_blocks=2, parallel=True)) for params in shared]
    so = model_so(tmp_path / "model.so", calls, I8MM)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip([*cases, CASES[1], CASES[1]], outputs, strict=True):
        np.testing.assert_array_equal(actual, case.expected, err_msg=str(case.workload))


def test_is_chosen():
    choice = select(CASES[1].workload, CORE)
    assert isinstance(choice, Choice)
    assert choice.kernel == "gemm_s8_mmla"
    assert choice.reason == "int8 product 7 x 31 x 9"


def test_matches_says_what_it_saw():
    assert gemm_s8_sdot.matches(CASES[0].workload, CORE) == KernelMatch("int8 product 1 x 1 x 1")
    x, zero, w = CASES[1].workload.operands
    answer = gemm_s8_sdot.matches(
        replace(CASES[1].workload, operands=(x, replace(zero, shape=(3, 1)), w)), CORE
    )
    assert isinstance(answer, Diagnostic)
    assert (answer.limit, answer.actual) == ("int32, 1 or 7", "int32, 3")
