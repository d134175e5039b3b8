# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.kernels.common.contract import Kernel, KernelMatch
from schedules.kernels.depthwise import depthwise_s8, depthwise_s8_mlal, depthwise_s8_patch
from schedules.kernels.epilogues import tosa_rescale
from schedules.kernels.epilogues.requantize import INSTRUCTIONS, Requantization
from schedules.kernels.gemm import gemm_s8_mlal, gemm_s8_mmla, gemm_s8_sdot
from schedules.numerics.tosa import requantize
from tests.schedules.kernels.epilogues.test_requantize import OUTPUTS, rounding
from tests.schedules.products import I8MM, RESCALED, check, conv, linear
from tests.schedules.programs import BASELINE, DOTPROD, NEON_CORES, Array, assembly, model_so

# Both ends of the range, both sides of each border between sequences of instructions.
SHIFTS = (8, 17, 30, 31, 32, 33, 40, 47, 48, 62)


def accumulators(shift: int) -> tuple[Array, Array]:
    """Accumulators up to the limit of a shift, and multipliers: ties, near ties, the ends of both ranges."""
    rng = np.random.default_rng(9)
    limit = min(shift, 31)
    least, most = -(1 << limit), (1 << limit) - 1
    assert tosa_rescale.exact(shift, None if shift > 31 else limit)
    multipliers = [0, 1, 3, (1 << 31) - 1, 1 << 30, 3 << 29, 1 << 23, *rng.integers(1 << 30, 1 << 31, 24)]
    found = []
    for m in multipliers:
        spread = rng.integers(least, most, 64, endpoint=True)
        # Half-way between outputs of the whole range, and beside it.
        size = max(float(m), 1.0) * 2.0**-shift
        halves = np.rint((rng.integers(-300, 300, 64) + 0.5) / size) + rng.integers(-1, 2, 64)
        ends = [least, most, least + 1, most - 1, 0, 1, -1]
        found.append((np.clip(np.concatenate([spread, halves, ends]), least, most), m))
    acc = np.concatenate([values for values, _ in found])
    m = np.concatenate([np.full(len(values), m, np.int32) for values, m in found])
    size = len(acc) // 16 * 16
    return acc[:size].astype(np.int32), m[:size]


def test_every_accumulator_is_rescaled_by_the_definition(tmp_path: Path, board: Board):
    cases = []
    for shift in SHIFTS:
        for to in OUTPUTS:
            own = Requantization(to.zero_point, to.low, to.high, to.dtype, shift)
            cases.append((own, *accumulators(shift)))
    calls = [
        (rounding("rescale", to, acc.size), [acc, m.view(np.float32)], acc.shape, to.dtype)
        for to, acc, m in cases
    ]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arrays, _, _ in calls for array in arrays])
    for (to, acc, m), actual in zip(cases, outputs, strict=True):
        expected = requantize(acc, m, to.shift, to.zero_point, to.low, to.high)
        np.testing.assert_array_equal(actual, expected, err_msg=str(to))


@pytest.mark.parametrize("zero_point", [0, 5])
def test_three_vector_instructions_an_accumulator(zero_point: int):
    to = Requantization(zero_point, -128, 127, "int8", 40)
    body = assembly(rounding("rescale", to, 16), BASELINE)
    names = ("sqdmulh", "sqrshrn", "sqrshrn2", "sqadd", "sqxtn", "sqxtn2")
    count = sum(line.split()[0] in names for line in body.splitlines() if line.strip())
    assert count == 16 * INSTRUCTIONS["rescale"] - (0 if zero_point else 2)


def test_small_shifts_are_exact_for_small_accumulators_alone():
    assert tosa_rescale.exact(32, None)
    assert not tosa_rescale.exact(31, None)
    assert tosa_rescale.exact(20, 20)
    assert not tosa_rescale.exact(20, 21)


PRODUCTS = (
    linear((7,), 8, 9, quant=RESCALED[0]),
    linear((13,), 65, 17, quant=RESCALED[1]),
    linear((1,), 48, 33, quant=RESCALED[2]),
    linear((31,), 9, 8, quant=RESCALED[3]),
    linear((9,), 200, 40, quant=RESCALED[4]),
    conv((2, 9, 8, 3), 17, (3, 3), strides=(2, 2), pads=(0, 1, 1, 0), quant=RESCALED[1]),
    conv((1, 11, 9, 17), 9, (3, 2), dilation=(2, 3), pads=(2, 1, 0, 1), quant=RESCALED[2]),
    conv((2, 7, 7, 16), 24, (3, 3), groups=2, pads=(1, 1, 1, 1), quant=RESCALED[2]),
)
DEPTHWISE = (
    conv((1, 9, 7, 8), 8, (3, 3), groups=8, pads=(1, 1, 1, 1), quant=RESCALED[0]),
    conv((2, 8, 9, 17), 17, (3, 3), groups=17, pads=(1, 1, 1, 1), quant=RESCALED[1]),
    conv((1, 31, 5, 11), 11, (3, 3), groups=11, strides=(2, 2), pads=(0, 0, 1, 1), quant=RESCALED[2]),
    conv((1, 7, 9, 24), 24, (5, 5), groups=24, pads=(2, 2, 2, 2), quant=RESCALED[3]),
)


@pytest.mark.parametrize(
    ("kernel", "core", "target"),
    [
        pytest.param(gemm_s8_mmla, "neoverse-n2", I8MM, marks=pytest.mark.isa("i8mm")),
        pytest.param(gemm_s8_sdot, "cortex-a76", DOTPROD, marks=pytest.mark.isa("dotprod")),
        pytest.param(gemm_s8_mlal, "cortex-a53", BASELINE),
        pytest.param(depthwise_s8, "cortex-a76", DOTPROD, marks=pytest.mark.isa("dotprod")),
        pytest.param(depthwise_s8_patch, "cortex-a76", DOTPROD, marks=pytest.mark.isa("dotprod")),
        pytest.param(depthwise_s8_mlal, "cortex-a53", BASELINE),
    ],
    ids=lambda value: value.NAME if hasattr(value, "NAME") else "",
)
def test_products_are_the_definitions(
    kernel: Kernel, core: str, target: dict[str, Any], tmp_path: Path, board: Board
):
    cases = DEPTHWISE if "depthwise" in kernel.NAME else PRODUCTS
    # Products differ in how they multiply, not in how they rescale: each has a half of the cases.
    cases = cases if "depthwise" in kernel.NAME else cases[kernel is gemm_s8_sdot :: 2]
    taken = [
        case for case in cases if isinstance(kernel.matches(case.workload, NEON_CORES[core]), KernelMatch)
    ]
    assert len(taken) >= 3
    shifts = [int(dict(case.workload.epilogue[-1].parameters)["shift"]) for case in taken]
    assert min(shifts) < 32 < max(shifts)
    check(
        kernel,
        [(case, kernel.default(case.workload, NEON_CORES[core])) for case in taken],
        target,
        board,
        tmp_path,
    )
