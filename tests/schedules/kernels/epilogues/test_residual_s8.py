# SPDX-License-Identifier: Apache-2.0
import ast
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.workload import Operand, Step, Workload
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.elementwise.binary_forms import Exact, Linear, Per, Steps
from schedules.kernels.epilogues.residual_s8 import separate
from schedules.kernels.gemm import gemm_s8_mlal, gemm_s8_mmla, gemm_s8_sdot
from schedules.kernels.gemm.product_s8 import IntegerProduct, products_of
from schedules.numerics import tosa
from schedules.numerics.qdq.binary import binary
from schedules.numerics.qdq.values import dequantize
from tests.schedules.kernels.elementwise.test_binary_forms import per
from tests.schedules.kernels.elementwise.test_elementwise_s8 import DECIMALS, drawn, rescaled
from tests.schedules.kernels.elementwise.test_elementwise_s8 import workload as added
from tests.schedules.products import I8MM, MIXED, SIGNED, Case, Quant, check, conv, linear
from tests.schedules.programs import BASELINE, DOTPROD, NEON_CORES, each_fifth

Pers = tuple[Per, Per, Per]

LINEAR: Pers = (per(0.0371234, -3), per(0.0412345, 11), per(0.0523456, -9))
TIES: Pers = (per(2.0**-4, -3), per(2.0**-5, -7), per(2.0**-4, 1))
OTHER: Pers = (per(0.0371234, -127), per(0.0412345, 140, "uint8"), per(0.0523456, 3, "uint8"))
WIDE = Quant(zero_point=7, scale=500.0)
RESCALED = replace(SIGNED, numerics="tosa")


def with_residual(case: Case, pers: Pers, low: int | None = None, *, numerics: str = "qdq") -> Case:
    """What the case computes, quantised as the first of `pers`, plus a tensor of the second."""
    w, shape = case.workload, case.workload.output_shape
    total = (added if numerics == "qdq" else rescaled)("add", pers, shape, low)
    parameters = tuple((name, ast.literal_eval(value)) for name, value in total.attributes)
    other = drawn(shape, pers[1].dtype)
    operand = Operand(shape, pers[1].dtype, "input", len(case.inputs))
    if numerics == "qdq":
        reals = (dequantize(values, of) for values, of in zip((case.expected, other), pers, strict=False))
        expected = binary("add", *reals, pers[2])
    else:
        expected = tosa.binary.binary("add", (case.expected, other), pers[:2], pers[2])
    epilogue = (*w.epilogue, Step("residual", operand, None, parameters))
    workload = replace(w, epilogue=epilogue, output_dtype=pers[2].dtype)
    expected = expected if low is None else np.maximum(expected, low)
    return Case(workload, (*case.inputs, other), case.constants, expected)


def product(workload: Workload) -> IntegerProduct:
    found = products_of(workload, "test")
    assert not isinstance(found, Diagnostic)
    return found[0]


def cases() -> list[Case]:
    """Rows and columns that are no whole tiles, of each form and numerics, with a clamp and without."""
    return [
        with_residual(linear((7,), 31, 9), LINEAR, -9),
        with_residual(linear((13,), 65, 24), LINEAR),
        with_residual(linear((2, 3, 5), 29, 3), TIES),
        with_residual(conv((1, 7, 9, 16), 43, (3, 3), pads=(1, 1, 1, 1), quant=MIXED), OTHER, 3),
        with_residual(conv((2, 7, 7, 16), 24, (3, 3), groups=2, quant=WIDE), LINEAR),
        with_residual(linear((9,), 40, 17, quant=RESCALED), LINEAR, numerics="tosa"),
        with_residual(linear((9,), 40, 17, quant=replace(RESCALED, y="uint8")), DECIMALS, numerics="tosa"),
    ]


KERNELS = [
    pytest.param(gemm_s8_mmla, "neoverse-n2", I8MM, marks=pytest.mark.isa("i8mm"), id="mmla"),
    pytest.param(gemm_s8_sdot, "cortex-a76", DOTPROD, marks=pytest.mark.isa("dotprod"), id="sdot"),
    pytest.param(gemm_s8_mlal, "cortex-a53", BASELINE, id="mlal"),
]


@pytest.mark.parametrize(("kernel", "core", "target"), KERNELS)
def test_every_value_is_that_of_two_kernels(
    kernel: ModuleType, core: str, target: dict[str, Any], tmp_path: Path, board: Board
):
    own = cases()
    forms = {type(found.form) for case in own if (found := product(case.workload).residual)}
    assert forms == {Linear, Exact, Steps}
    assert all(isinstance(kernel.matches(case.workload, NEON_CORES[core]), KernelMatch) for case in own)
    check(
        kernel,
        [
            (case, kernel.default(case.workload, NEON_CORES[core]))
            for case in own[(gemm_s8_mmla, gemm_s8_sdot, gemm_s8_mlal).index(kernel) :: 3]
        ],
        target,
        board,
        tmp_path,
    )


@each_fifth
@pytest.mark.parametrize(("kernel", "core", "target"), KERNELS)
def test_every_tile_gives_the_same(
    step: int, kernel: ModuleType, core: str, target: dict[str, Any], tmp_path: Path, board: Board
):
    case = with_residual(linear((11,), 40, 21), LINEAR)
    params = [kernel.Params(*tile) for tile in kernel.TILES[::step]]
    check(kernel, [(case, each) for each in params], target, board, tmp_path)


@pytest.mark.isa("i8mm")
def test_the_data_may_be_what_is_added(tmp_path: Path, board: Board):
    case = linear((6,), 8, 8)
    both = with_residual(case, LINEAR)
    (x,) = case.inputs
    step = both.workload.epilogue[-1]
    workload = replace(
        both.workload,
        epilogue=(*both.workload.epilogue[:-1], replace(step, operand=both.workload.operands[0])),
    )
    reals = (dequantize(values, of) for values, of in zip((case.expected, x), LINEAR, strict=False))
    alone = Case(workload, (x,), case.constants, binary("add", *reals, LINEAR[2]))
    check(
        gemm_s8_mmla,
        [(alone, gemm_s8_mmla.default(workload, NEON_CORES["neoverse-n2"]))],
        I8MM,
        board,
        tmp_path,
    )


def test_the_two_kernels_that_it_stands_for():
    case = conv((1, 7, 9, 16), 8, (3, 3), quant=MIXED)
    alone, total = separate(with_residual(case, OTHER).workload) or (None, None)
    assert alone == case.workload
    assert total == added("add", OTHER, case.workload.output_shape)
    assert separate(case.workload) is None


def test_what_cannot_be_added():
    workload = with_residual(linear((7,), 31, 9), LINEAR).workload
    *others, step = workload.epilogue
    wide = replace(step, operand=replace(step.operand, dtype="int16"))
    small = replace(step, operand=replace(step.operand, shape=(9,)))
    constant = replace(step, operand=replace(step.operand, kind="constant"))
    reasons = []
    for wrong in (wide, small, constant):
        answer = gemm_s8_mmla.matches(replace(workload, epilogue=(*others, wrong)), NEON_CORES["neoverse-n2"])
        assert isinstance(answer, Diagnostic)
        reasons.append(answer.reason)
    assert reasons == [
        "a tensor is not of 8 bits",
        *["residual is no tensor of the output's shape"] * 2,
    ]
