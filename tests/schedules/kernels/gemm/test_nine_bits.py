# SPDX-License-Identifier: Apache-2.0
"""Products by nine-bit weights (uint8 minus zero points): every kernel is bit-identical to the definition."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.diagnostic import Diagnostic
from schedules.kernels.depthwise import depthwise_s8, depthwise_s8_mlal, depthwise_s8_patch
from schedules.kernels.gemm import gemm_s8_mlal, gemm_s8_mmla, gemm_s8_sdot
from schedules.kernels.gemm.product_s8 import shifts_of
from tests.schedules.products import I8MM, MIXED, SIGNED, UNSIGNED, check, conv, linear
from tests.schedules.programs import NEON_CORE

KERNELS = {"mmla": gemm_s8_mmla, "sdot": gemm_s8_sdot, "mlal": gemm_s8_mlal}
CORE = NEON_CORE
_SIGNED, _UNSIGNED, _MIXED = (replace(quant, nine_bits=True) for quant in (SIGNED, UNSIGNED, MIXED))
CASES = (
    linear((1,), 1, 1, quant=_SIGNED),
    linear((7,), 31, 9, quant=_UNSIGNED),
    linear((2, 9), 40, 31, quant=_MIXED),
    linear((8,), 8, 7, quant=_SIGNED),
    conv((1, 9, 7, 1), 3, (3, 3), pads=(1, 1, 1, 1), quant=_SIGNED),
    conv((2, 9, 8, 3), 17, (3, 3), strides=(2, 2), pads=(0, 1, 1, 0), quant=_UNSIGNED),
    conv((2, 7, 7, 16), 24, (3, 3), groups=2, pads=(1, 1, 1, 1), quant=_MIXED),
    conv((1, 7, 31, 8), 8, (1, 1), quant=_UNSIGNED),
)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_every_value_is_the_definitions(kernel: ModuleType, tmp_path: Path, board: Board):
    own = CASES[list(KERNELS.values()).index(kernel) :: 3]
    cases = [(case, kernel.default(case.workload, CORE)) for case in own]
    shared = replace(kernel.candidates(CASES[2].workload, CORE)[0], column_blocks=2, parallel=True)
    check(kernel, [*cases, (CASES[2], shared)], I8MM, board, tmp_path)


def test_shifts_leave_bytes():
    weights = np.array([[-255, 0, -9], [0, 255, 3], [-128, 127, 0], [-129, 126, 1]])
    shifts = shifts_of(weights)
    np.testing.assert_array_equal(shifts, [-127, 128, 0, -1])
    assert np.abs(weights - shifts[:, None] + 0.5).max() <= 127.5


def test_weights_further_apart_are_declined():
    workload = CASES[1].workload
    assert workload.magnitude is not None
    answer = gemm_s8_sdot.matches(replace(workload, magnitude=replace(workload.magnitude, span=256)), CORE)
    assert isinstance(answer, Diagnostic)
    assert (answer.reason, answer.limit, answer.actual) == (
        "weights of a column differ by more than 8 bits can",
        "at most 255",
        "256",
    )


@pytest.mark.parametrize("kernel", [depthwise_s8, depthwise_s8_mlal, depthwise_s8_patch])
def test_depthwise_kernels_decline_them(kernel: ModuleType):
    case = conv((1, 9, 9, 8), 8, (3, 3), groups=8, quant=_SIGNED)
    assert isinstance(kernel.matches(case.workload, CORE), Diagnostic)
