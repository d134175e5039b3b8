# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.gemm import gemm_f16 as kernel
from schedules.kernels.gemm.gemm_f16 import TILES, Params
from tests.schedules.float_cases import conv2d
from tests.schedules.half_cases import Case, halved, weight_only
from tests.schedules.programs import NEON, Array, assembly, each_fifth, linear, loops, model_so

CORE = CORES["neoverse-n2"]
A76 = CORES["cortex-a76"]
FP16 = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"}
ALL_STEPS = ("bias", "residual", "relu", "clip")

LINEAR = [
    halved(linear(m, n, k, steps), "float16", cast=cast)
    for m, n, k, steps, cast in [
        (1, 1, 1, ("bias",), True),
        (7, 31, 9, ALL_STEPS, True),
        (9, 8, 7, ("bias", "relu"), True),
        (9, 31, 8, ("bias", "residual", "prelu"), True),
        (31, 35, 31, (), False),
        (8, 24, 64, ("residual",), True),
        (15, 57, 300, ALL_STEPS, True),
        (1, 200, 129, ("bias",), True),
    ]
]
WEIGHT_ONLY = [weight_only(linear(m, n, k, ALL_STEPS), "float16") for m, n, k in [(1, 9, 7), (17, 35, 130)]]
CONVOLUTIONS = [
    halved(conv2d(*case, steps=("bias", "relu"), **attributes), "float16")
    for case, attributes in [
        (((1, 9, 8, 3), 17, (3, 3)), {"strides": (2, 2), "padding": (0, 1, 1, 0)}),
        (((2, 7, 7, 16), 24, (3, 3)), {"padding": (1, 1, 1, 1)}),
        (((1, 8, 9, 5), 8, (1, 1)), {"strides": (2, 1)}),
        (((1, 11, 9, 17), 9, (3, 2)), {"dilation": (2, 3), "padding": (2, 1, 0, 1)}),
        (((1, 5, 6, 18), 27, (3, 3)), {"groups": 3, "padding": (1, 1, 1, 1)}),
    ]
]


def _run(
    calls: list[tuple[Case, Params]], target: dict[str, object], board: Board, folder: Path
) -> list[Array]:
    built = [case.call(kernel, params) for case, params in calls]
    so = model_so(folder / "model.so", built, target)
    return board.load(so).run([array for _, arguments, _, _ in built for array in arguments])


@pytest.mark.isa("fullfp16", "fp16fml")
@pytest.mark.parametrize(
    "workloads", [LINEAR, WEIGHT_ONLY, CONVOLUTIONS], ids=["linear", "int8 weights", "conv"]
)
def test_every_value_is_within_the_bound(workloads, tmp_path: Path, board: Board):
    cases = [Case(workload) for workload in workloads]
    calls = [(case, kernel.default(case.workload, CORE)) for case in cases]
    for case, actual in zip(cases, _run(calls, NEON, board, tmp_path), strict=True):
        case.check(actual)


@pytest.mark.isa("fullfp16")
def test_without_fmlal(tmp_path: Path, board: Board):
    cases = [Case(workload) for workload in (LINEAR[1], LINEAR[5], WEIGHT_ONLY[1], CONVOLUTIONS[1])]
    calls = [(case, kernel.default(case.workload, A76)) for case in cases]
    assert not any(params.widening for _, params in calls)
    for case, actual in zip(cases, _run(calls, FP16, board, tmp_path), strict=True):
        case.check(actual)


@each_fifth
@pytest.mark.isa("fullfp16", "fp16fml")
def test_every_tile_gives_the_same(step: int, tmp_path: Path, board: Board):
    case = Case(halved(linear(31, 53, 75, ALL_STEPS), "float16"))
    calls = [
        (case, Params(*tile, 2 * tile[0], parallel=bool(i % 2), widening=True))
        for i, tile in enumerate(TILES[::step])
    ]
    first, *others = _run(calls, NEON, board, tmp_path)
    case.check(first)
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.isa("fullfp16", "fp16fml")
def test_sums_neither_stop_nor_overflow_nor_vanish(tmp_path: Path, board: Board):
    ones = Case(halved(linear(1, 8, 4097), "float16", cast=False))
    ones.inputs, ones.constants = [np.ones((1, 4097), np.float16)], [np.ones((4097, 8), np.float16)]
    # 16 products of 2^30 and 16 of -2^30, one more: far beyond binary16 on the way to 2^30.
    large = Case(halved(linear(1, 8, 33), "float16", cast=False))
    signs = np.where(np.arange(33) % 32 < 16, 1, -1)
    large.inputs = [(signs * 2.0**15).astype(np.float16)[None]]
    large.constants = [np.full((33, 8), 2.0**15, np.float16)]
    # 64 products of 2^-28, each less than half of binary16's least.
    small = Case(halved(linear(1, 8, 64), "float16", cast=False))
    small.inputs = [np.full((1, 64), 2.0**-14, np.float16)]
    small.constants = [np.full((64, 8), 2.0**-14, np.float16)]
    calls = [(case, kernel.default(case.workload, CORE)) for case in (ones, large, small)]
    outputs = _run(calls, NEON, board, tmp_path)
    for actual, expected in zip(outputs, (4097, 2.0**30, 2.0**-22), strict=True):
        np.testing.assert_array_equal(actual, np.full((1, 8), expected, np.float32))


@pytest.mark.parametrize(("m", "n", "k"), [(256, 256, 256), (14, 48, 24), (7, 24, 1000)])
def test_inner_loop_is_fmla_without_stack_access(m: int, n: int, k: int):
    workload = halved(linear(m, n, k, ("bias", "relu")), "float16")
    inner = loops(assembly(kernel.build(workload, Params(7, 3, 7, False, widening=True)), NEON))
    products = [[line for line in loop if line.startswith("fmla ")] for loop in inner]
    # Seven rows by three vectors by eight k, whatever K is, and the tiles at the edges.
    assert max(map(len, products)) == 168
    for loop, fmla in zip(inner, products, strict=True):
        assert not [line for line in loop if "[sp" in line or line.startswith("mov v")]
        # 168 of 191 in the full tile.
        assert not fmla or len(fmla) / len(loop) >= (0.87 if len(fmla) == 168 else 0.6)


@pytest.mark.parametrize("core", [CORE, A76], ids=lambda core: core.name)
def test_estimate_is_at_most_what_the_pipes_allow(core):
    workload = halved(linear(256, 256, 256, ("bias",)), "float16")
    estimates = [kernel.estimate(workload, p, core) for p in kernel.candidates(workload, core)]
    # Two FMLA of eight lanes a cycle.
    assert min(estimates) >= 256**3 / 16
    assert kernel.estimate(workload, kernel.default(workload, core), core) <= min(estimates) * 1.03


def test_matches_says_what_it_saw():
    assert kernel.matches(LINEAR[1], CORE) == KernelMatch("float16 product 7 x 9 x 31")
    assert kernel.matches(WEIGHT_ONLY[0], CORE) == KernelMatch("float16 product of int8 weights 1 x 7 x 9")


def _rejected(workload, core=CORE) -> tuple[str, str]:
    answer = kernel.matches(workload, core)
    assert isinstance(answer, Diagnostic)
    return answer.limit, answer.actual


def test_near_misses_name_limit_and_actual():
    good = LINEAR[1]
    older = CORES["cortex-a72"]
    assert kernel.matches(good, older) == missing_feature(kernel.NAME, "fullfp16", older)
    other = dataclasses.replace(
        good, operands=(good.operands[0], dataclasses.replace(good.operands[1], dtype="int8"))
    )
    assert _rejected(other) == ("float16", "float16, int8")
    depthwise = halved(conv2d((1, 5, 5, 8), 8, (3, 3), groups=8), "float16")
    assert _rejected(depthwise) == ("8 or more", "1")
    assert _rejected(weight_only(linear(1, 8, 8), "float32")) == ("float16, int8", "float32, int8")


def test_params_that_cannot_be():
    with pytest.raises(ValueError, match="7 x 4 vectors takes 39 registers of 32"):
        Params(7, 4, 7, parallel=False, widening=True)
    with pytest.raises(ValueError, match="row_block 8 is not a multiple of 7"):
        Params(7, 3, 8, parallel=False, widening=True)
