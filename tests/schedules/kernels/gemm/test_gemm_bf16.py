# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.gemm import gemm_bf16 as kernel
from schedules.kernels.gemm.gemm_bf16 import TILES, Params
from tests.schedules.float_cases import conv2d
from tests.schedules.half_cases import Case, halved
from tests.schedules.programs import NEON, Array, assembly, each_fifth, linear, loops, model_so

CORE = CORES["neoverse-n2"]
ALL_STEPS = ("bias", "residual", "relu", "clip")

LINEAR = [
    halved(linear(m, n, k, steps), "bfloat16", cast=cast)
    for m, n, k, steps, cast in [
        (1, 1, 1, ("bias",), True),
        (7, 31, 9, ALL_STEPS, True),
        (9, 8, 7, ("bias", "relu"), False),
        (9, 31, 8, ("bias", "residual", "prelu"), True),
        (31, 35, 31, (), False),
        (13, 24, 64, ("residual",), True),
        (15, 57, 300, ALL_STEPS, False),
    ]
]
CONVOLUTIONS = [
    halved(conv2d(*case, steps=("bias", "relu"), **attributes), "bfloat16")
    for case, attributes in [
        (((1, 9, 8, 3), 17, (3, 3)), {"strides": (2, 2), "padding": (0, 1, 1, 0)}),
        (((2, 7, 7, 16), 24, (3, 3)), {"padding": (1, 1, 1, 1)}),
        (((1, 8, 9, 5), 8, (1, 1)), {"strides": (2, 1)}),
        (((1, 11, 9, 17), 9, (3, 2)), {"dilation": (2, 3), "padding": (2, 1, 0, 1)}),
        (((1, 5, 6, 18), 27, (3, 3)), {"groups": 3, "padding": (1, 1, 1, 1)}),
    ]
]


def _run(calls: list[tuple[Case, Params]], board: Board, folder: Path) -> list[Array]:
    built = [case.call(kernel, params) for case, params in calls]
    so = model_so(folder / "model.so", built, NEON)
    return board.load(so).run([array for _, arguments, _, _ in built for array in arguments])


@pytest.mark.isa("bf16")
@pytest.mark.parametrize("workloads", [LINEAR, CONVOLUTIONS], ids=["linear", "convolutions"])
def test_every_value_is_within_the_bound(workloads, tmp_path: Path, board: Board):
    cases = [Case(workload) for workload in workloads]
    calls = [(case, kernel.default(case.workload, CORE)) for case in cases]
    for case, actual in zip(cases, _run(calls, board, tmp_path), strict=True):
        case.check(actual)


@each_fifth
@pytest.mark.isa("bf16")
def test_every_tile_gives_the_same(step: int, tmp_path: Path, board: Board):
    # A tail of rows with an odd last one, a tail of columns, and more than one loop iteration of k.
    case = Case(halved(linear(31, 53, 75, ALL_STEPS), "bfloat16", cast=False))
    params = [
        Params(*tile, column_blocks=1 + i % 3, parallel=bool(i % 2)) for i, tile in enumerate(TILES[::step])
    ]
    first, *others = _run([(case, each) for each in params], board, tmp_path)
    case.check(first)
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize(("k", "share"), [(1024, 0.78), (24, 0.7)])
@pytest.mark.parametrize("tile", [(6, 4), (3, 8), (4, 6)])
def test_inner_loop_is_bfmmla_without_stack_access(tile: tuple[int, int], k: int, share: float):
    workload = halved(linear(24, 48, k, ("bias", "relu")), "bfloat16", cast=False)
    inner = loops(assembly(kernel.build(workload, Params(*tile)), NEON))
    (loop,) = [loop for loop in inner if any(line.startswith("bfmmla") for line in loop)]
    products = sum(line.startswith("bfmmla") for line in loop)
    # 24 accumulators by four k steps, or by two.
    assert products == 24 * (4 if k == 1024 else 2)
    assert not [line for line in loop if "[sp" in line or line.startswith("mov v")]
    assert products / len(loop) >= share


def test_estimate_is_at_most_what_the_pipes_allow():
    workload = halved(linear(256, 256, 256, ("bias",)), "bfloat16", cast=False)
    # Two BFMMLA of 16 products a cycle.
    assert kernel.estimate(workload, kernel.default(workload, CORE), CORE) >= 256**3 / 32


def test_matches_says_what_it_saw():
    assert kernel.matches(LINEAR[1], CORE) == KernelMatch("bfloat16 product 7 x 9 x 31")


def _rejected(workload, core=CORE) -> tuple[str, str]:
    answer = kernel.matches(workload, core)
    assert isinstance(answer, Diagnostic)
    return answer.limit, answer.actual


def test_near_misses_name_limit_and_actual():
    good = LINEAR[1]
    other = CORES["cortex-a76"]
    assert kernel.matches(good, other) == missing_feature(kernel.NAME, "bf16", other)
    assert _rejected(halved(linear(2, 5, 4), "float16")) == (
        "arm.conv2d_bf16 or arm.linear_bf16",
        "arm.linear_f16",
    )
    short = dataclasses.replace(good, output_dtype="float16")
    assert _rejected(short) == ("bfloat16 or float32", "float16")


def test_params_that_cannot_be():
    with pytest.raises(ValueError, match="6 x 6 pairs takes 44 registers of 32"):
        Params(6, 6)
    with pytest.raises(ValueError, match="column_pairs 3 is not even"):
        Params(4, 3)
