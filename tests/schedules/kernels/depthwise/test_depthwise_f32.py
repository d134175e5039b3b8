# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.workload import Workload
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.depthwise import depthwise_f32
from schedules.kernels.depthwise.depthwise_f32 import PATCHES, Params
from schedules.select import Choice, select
from tests.schedules import half_cases
from tests.schedules.float_cases import Case, conv2d
from tests.schedules.programs import BASELINE, NEON, assembly, first_of, loops, model_so

CORE = CORES["neoverse-n2"]


def depthwise(
    size: tuple[int, int],
    channels: int,
    kernel: tuple[int, int],
    *steps: str,
    images: int = 1,
    multiplier: int = 1,
    **kwargs: Any,
) -> Workload:
    outputs = channels * multiplier
    return conv2d((images, *size, channels), outputs, kernel, steps, groups=channels, **kwargs)


CASES = {
    "3x3": depthwise((9, 31), 16, (3, 3), "bias", "clip", padding=(1, 1, 1, 1)),
    "3x3 stride 2": depthwise((15, 17), 9, (3, 3), "bias", strides=(2, 2), padding=(0, 0, 1, 1)),
    "5x5": depthwise((11, 13), 7, (5, 5), "bias", "relu", padding=(2, 2, 2, 2)),
    "5x5 stride 2": depthwise((12, 31), 8, (5, 5), "bias", strides=(2, 2), padding=(1, 2, 2, 1)),
    "7x7": depthwise((9, 8), 5, (7, 7), padding=(3, 3, 3, 3)),
    "images": depthwise((7, 7), 17, (3, 3), "bias", "residual", "relu", images=3, padding=(1, 1, 1, 1)),
    "slopes": depthwise((7, 8), 9, (3, 3), "bias", "prelu", "residual", multiplier=3, padding=(1, 1, 1, 1)),
    "no border": depthwise((7, 9), 4, (3, 3), "leaky_relu"),
    "one row": depthwise((1, 31), 12, (1, 5), "bias", padding=(0, 4, 0, 0)),
    "data smaller than the kernel": depthwise((2, 1), 31, (5, 5), "bias", padding=(2, 2, 2, 2)),
    "border wider than a patch": depthwise((3, 3), 4, (3, 3), padding=(5, 5, 5, 5)),
    "row": depthwise((1, 37), 17, (1, 31), "bias", "clip", padding=(0, 15, 0, 15)),
    "column": depthwise((37, 2), 5, (31, 1), "bias", padding=(15, 0, 15, 0)),
    "dilated": depthwise((9, 11), 8, (3, 3), "bias", dilation=(2, 3), padding=(2, 3, 2, 3)),
    "dilated by more than a patch": depthwise((17, 15), 5, (3, 3), dilation=(6, 7), padding=(6, 7, 6, 7)),
    "dilated 7x7": depthwise((9, 8), 5, (7, 7), dilation=(1, 2), strides=(2, 1), padding=(3, 6, 3, 6)),
    "multiplier": depthwise((7, 9), 5, (3, 3), "bias", "residual", multiplier=3, padding=(1, 1, 1, 1)),
    "multiplier, no border": depthwise((5, 6), 8, (3, 3), multiplier=2),
    "one channel": depthwise((9, 13), 1, (3, 3), "bias", "relu", padding=(1, 1, 1, 1)),
    "three channels": depthwise((5, 7), 3, (5, 5), "bias", images=2, dilation=(1, 2), padding=(2, 4, 2, 4)),
    "few channels of several": depthwise((6, 9), 1, (2, 3), "bias", multiplier=3, strides=(2, 1)),
    "strides that differ": depthwise((13, 12), 6, (3, 4), strides=(3, 1), padding=(1, 0, 1, 2)),
}


@pytest.mark.parametrize("stride", [1, 2])
def test_result_depends_neither_on_patch_nor_threads(stride: int):
    workload = depthwise((11, 21), 9, (3, 3), "bias", "clip", strides=(stride, stride), padding=(1, 1, 1, 1))
    case = Case(workload)
    first = case.on_host(depthwise_f32, Params(1, 1))
    case.check(first)
    for rows, columns in PATCHES[:7:2]:
        other = case.on_host(depthwise_f32, Params(rows, columns, parallel=True))
        np.testing.assert_array_equal(first, other)


def test_every_case_on_a_board(tmp_path: Path, board: Board):
    cases = [Case(workload) for workload in CASES.values()]
    calls = [case.call(depthwise_f32, depthwise_f32.default(case.workload, CORE)) for case in cases]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        case.check(actual)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits_on_a_board(dtype: str, tmp_path: Path, board: Board):
    # Both are widened to float32, and differ in the instruction.
    names = ("7x7", "slopes", "row") if dtype == "float16" else ("3x3", "images", "one channel")
    cases = [half_cases.Case(half_cases.halved(CASES[name], dtype, cast=name != "7x7")) for name in names]
    calls = [case.call(depthwise_f32, depthwise_f32.default(case.workload, CORE)) for case in cases]
    so = model_so(tmp_path / "model.so", calls, {**BASELINE, "mattr": ["+bf16"]})
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        case.check(actual)


def test_border_is_no_number():
    """What is left out is not multiplied: an infinite weight at the border leaves the corner alone."""
    case = Case(depthwise((4, 4), 4, (3, 3), padding=(1, 1, 1, 1)))
    case.constants[0][:, 0, 0] = np.inf
    output = case.on_host(depthwise_f32, depthwise_f32.default(case.workload, CORE))
    assert np.isfinite(output[0, 0]).all()
    assert np.isfinite(output[0, :, 0]).all()
    assert not np.isfinite(output[0, 1:, 1:]).any()


# Workload, and least share of FMLA in its main loop: without their loads, copies of the bias, bounds and
# stores there are 9 of 13 (3 x 3) and 25 of 29 (5 x 5).
MAIN_LOOPS = {
    "3x3": (depthwise((112, 112), 96, (3, 3), "bias", "clip", padding=(1, 1, 1, 1)), 0.54),
    "3x3 stride 2": (
        depthwise((112, 112), 96, (3, 3), "bias", "clip", strides=(2, 2), padding=(0, 0, 1, 1)),
        0.42,
    ),
    "5x5": (depthwise((28, 28), 240, (5, 5), "bias", "relu", padding=(2, 2, 2, 2)), 0.67),
    "5x5 stride 2": (
        depthwise((28, 28), 240, (5, 5), "bias", "relu", strides=(2, 2), padding=(1, 1, 2, 2)),
        0.54,
    ),
}


def main_loops(workload: Workload, params: Params, target: dict[str, Any]) -> list[list[str]]:
    """Those of whole patches."""
    products = math.prod(workload.operands[1].shape[1:3]) * params.rows * params.columns
    found = loops(assembly(depthwise_f32.build(workload, params), target))
    return [loop for loop in found if sum(line.startswith("fmla") for line in loop) == products]


@pytest.mark.parametrize("cpu", first_of(["neoverse-n2", "cortex-a76", "cortex-a53"]))
@pytest.mark.parametrize("name", MAIN_LOOPS)
def test_main_loop_is_fmla_without_stack_access(name: str, cpu: str):
    workload, floor = MAIN_LOOPS[name]
    target = NEON if cpu == "neoverse-n2" else {**BASELINE, "mcpu": cpu}
    found = main_loops(workload, depthwise_f32.default(workload, CORES[cpu]), target)
    assert found
    for loop in found:
        assert not [line for line in loop if re.search(r"\bq\d+.*\[sp", line)]
        assert sum(line.startswith("fmla") for line in loop) / len(loop) >= floor


def test_estimated_instructions_are_those_of_the_main_loop():
    workload, _ = MAIN_LOOPS["3x3"]
    params = depthwise_f32.default(workload, CORE)
    (length,) = {len(loop) for loop in main_loops(workload, params, NEON)}
    outputs = params.rows * params.columns * 4
    per_output = depthwise_f32.instructions(workload, params, CORE) / (112 * 112 * 96)
    assert per_output == pytest.approx(length / outputs, rel=0.05)


def test_matches_says_what_it_saw_and_is_chosen():
    workload = CASES["5x5"]
    assert depthwise_f32.matches(workload, CORE) == KernelMatch("float32 depthwise 5 x 5 of 7 channels")
    choice = select(workload, CORE)
    assert isinstance(choice, Choice)
    assert choice.kernel == "depthwise_f32"


def test_two_rows_are_taken_of_data_narrower_than_a_patch():
    workload = depthwise((25, 5), 64, (3, 3), "bias", "relu", padding=(1, 1, 1, 1))
    assert depthwise_f32.default(workload, CORE) == Params(2, 5, parallel=True)


def test_few_long_sums_are_slower_than_a_matrix_product():
    # A row has room for 5 accumulators of 40 products each; FMLA wait for each other.
    workload = depthwise((49, 10), 1, (10, 4), multiplier=64, strides=(2, 2), padding=(4, 1, 5, 1))
    choice = select(workload, CORE)
    assert isinstance(choice, Choice)
    assert choice.kernel == "gemm_f32"


@pytest.mark.parametrize(
    ("workload", "limit", "actual"),
    [
        (conv2d((1, 5, 5, 4), 8, (3, 3), groups=2), "a group each channel", "2 groups of 4 channels"),
        (depthwise((9, 9), 3, (3, 3), strides=(1, 2)), "4 or more, or stride 1", "3, stride 2"),
        (depthwise((9, 5), 1, (3, 3)), "4 or more", "3"),
        (dataclasses.replace(CASES["3x3"], output_dtype="float16"), "float32", "float16, float32"),
    ],
)
def test_near_misses_name_limit_and_actual(workload: Workload, limit: str, actual: str):
    answer = depthwise_f32.matches(workload, CORE)
    assert isinstance(answer, Diagnostic)
    assert (answer.limit, answer.actual) == (limit, actual)
