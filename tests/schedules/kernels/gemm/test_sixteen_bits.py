# SPDX-License-Identifier: Apache-2.0
"""int16 data by int8 weights: two planes of bytes for the instructions of int8."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES, Core
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import Kernel, KernelMatch
from schedules.kernels.depthwise import depthwise_s8
from schedules.kernels.gemm import gemm_s8_mlal, gemm_s8_mmla, gemm_s8_sdot
from tests.schedules.products import I8MM, SIXTEEN_BITS, SIXTEEN_BITS_SHIFTED, Case, check, conv, linear
from tests.schedules.programs import BASELINE, DOTPROD, NEON_CORE, each_fifth
from tests.schedules.transposed_cases import GEOMETRIES, integer_case

KERNELS = [
    (gemm_s8_mlal, CORES["cortex-a72"], BASELINE),
    pytest.param(gemm_s8_sdot, CORES["cortex-a76"], DOTPROD, marks=pytest.mark.isa("dotprod")),
    pytest.param(gemm_s8_mmla, NEON_CORE, I8MM, marks=pytest.mark.isa("i8mm")),
]


@pytest.mark.parametrize(("kernel", "core", "target"), KERNELS)
def test_every_value_is_the_definitions(
    kernel: Kernel, core: Core, target: dict[str, Any], tmp_path: Path, board: Board
):
    # The units differ in how they multiply and order data, not in what they add and store: each has a third.
    unit = (gemm_s8_mlal, gemm_s8_sdot, gemm_s8_mmla).index(kernel)
    transposed = integer_case(GEOMETRIES[("2 by 2", "4 by 4", "uneven")[unit]], SIXTEEN_BITS_SHIFTED)
    cases = [*SIXTEEN_BITS[unit::3], transposed, largest()]
    check(kernel, [(case, kernel.default(case.workload, core)) for case in cases], target, board, tmp_path)


@each_fifth
@pytest.mark.parametrize(("kernel", "core", "target"), KERNELS)
def test_every_tile_gives_the_same(
    step: int, kernel: Kernel, core: Core, target: dict[str, Any], tmp_path: Path, board: Board
):
    case = conv((1, 7, 9, 9), 43, (3, 3), pads=(1, 1, 1, 1), quant=SIXTEEN_BITS_SHIFTED)
    found = kernel.candidates(case.workload, core)[::step]
    params = [replace(each, column_blocks=1 + i % 3, parallel=bool(i % 2)) for i, each in enumerate(found)]
    check(kernel, [(case, each) for each in params], target, board, tmp_path)


def largest() -> Case:
    """The largest depth whose sums int32 holds whatever the data: 511 weights of -128, and data of -32768."""
    case = linear((3,), 511, 9, quant=SIXTEEN_BITS_SHIFTED)
    x, w = np.full_like(case.inputs[0], -32768), np.full_like(case.constants[0], -128)
    x[1] = 32767
    offset = np.full_like(case.constants[1], 2**31 - 1 - 511 * 2**22)
    acc = x.astype(np.int64) @ w.astype(np.int64) + offset
    assert acc.max() == 2**31 - 1
    assert case.workload.magnitude is not None
    case = replace(
        case, workload=replace(case.workload, magnitude=replace(case.workload.magnitude, accumulator=31))
    )
    m = case.constants[2]
    expected = np.clip(np.rint(acc.astype(np.float32) * m) - 300, -300, 32000).astype(np.int16)
    return replace(case, inputs=(x,), constants=(w, offset, m), expected=expected)


def test_sums_that_int32_may_not_hold_are_declined():
    workload = linear((3,), 520, 9, quant=SIXTEEN_BITS_SHIFTED).workload
    core = CORES["cortex-a76"]
    assert gemm_s8_sdot.matches(workload, core) == KernelMatch("int16 by int8 product 3 x 520 x 9")
    assert workload.magnitude is not None
    wider = replace(workload, magnitude=replace(workload.magnitude, accumulator=32))
    answer = gemm_s8_sdot.matches(wider, core)
    assert isinstance(answer, Diagnostic)
    assert (answer.reason, answer.limit, answer.actual) == ("accumulators may exceed int32", "2**31", "2**32")
    assert isinstance(gemm_s8_sdot.matches(replace(workload, magnitude=None), core), Diagnostic)


def test_nine_bit_weights_are_declined():
    case = SIXTEEN_BITS[1].workload
    x, w = case.operands
    answer = gemm_s8_sdot.matches(replace(case, operands=(x, replace(w, dtype="int16"))), CORES["cortex-a76"])
    assert isinstance(answer, Diagnostic)
    assert (answer.limit, answer.actual) == ("int8", "int16")


@pytest.mark.parametrize(
    ("kernel", "actual"), [(depthwise_s8, "int16"), (gemm_s8_sdot, "1")], ids=["depthwise", "sdot"]
)
def test_depthwise_convolutions_are_left_to_smlal(kernel: Kernel, actual: str):
    case = conv((1, 6, 5, 16), 16, (3, 3), groups=16, pads=(1, 1, 1, 1), quant=SIXTEEN_BITS_SHIFTED)
    answer = kernel.matches(case.workload, CORES["cortex-a76"])
    assert isinstance(answer, Diagnostic)
    assert answer.actual == actual


@pytest.mark.parametrize("core", ["cortex-a76", "neoverse-n2"])
def test_two_planes_cost_about_twice_as_much(core: str):
    kernel = gemm_s8_mmla if core == "neoverse-n2" else gemm_s8_sdot
    costs = []
    for quant in (
        replace(SIXTEEN_BITS_SHIFTED, x="int8", y="int8", zero_point=0, border=0, bounds=None),
        SIXTEEN_BITS_SHIFTED,
    ):
        workload = conv((1, 14, 14, 96), 96, (1, 1), quant=quant).workload
        costs.append(kernel.estimate(workload, kernel.default(workload, CORES[core]), CORES[core]))
    assert 1.8 < costs[1] / costs[0] < 3.0
