# SPDX-License-Identifier: Apache-2.0
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.workload import Operand, Workload
from schedules.cores import CORES
from schedules.kernels.common.contract import KernelMatch, declined
from schedules.kernels.gemm import gemm_f32, panel_selection
from schedules.kernels.gemm.gemm_f32 import TILES, Params
from schedules.kernels.tiles import fmla_tile
from tests.schedules.float_cases import Case, conv2d
from tests.schedules.programs import BASELINE, NEON, NEON_CORE, assembly, first_of, linear, loops, model_so

ALL_STEPS = ("bias", "residual", "relu", "clip")


def check_on_host(workload: Workload) -> None:
    case = Case(workload)
    case.check(case.on_host(gemm_f32, gemm_f32.default(workload, NEON_CORE)))


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        *[(1, 1, 1), (1, 31, 67), (7, 8, 31), (8, 7, 1), (9, 16, 9), (31, 9, 3), (13, 35, 67)],
    ],
)
def test_sizes_with_tails(m: int, n: int, k: int):
    check_on_host(linear(m, n, k, ("bias",)))


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "1x1": {"data": (2, 5, 7, 9), "outputs": 17, "kernel": (1, 1)},
    "1x1 stride 2": {"data": (2, 8, 7, 5), "outputs": 9, "kernel": (1, 1), "strides": (2, 2)},
    "3x3 padded": {"data": (1, 9, 8, 16), "outputs": 12, "kernel": (3, 3), "padding": (1, 1, 1, 1)},
    "first layer": {
        "data": (1, 15, 13, 3),
        "outputs": 8,
        "kernel": (3, 3),
        "strides": (2, 2),
        "padding": (0, 0, 1, 1),
    },
    "one channel": {"data": (2, 9, 7, 1), "outputs": 1, "kernel": (3, 3), "padding": (1, 0, 2, 1)},
    "dilated": {
        "data": (1, 11, 9, 5),
        "outputs": 7,
        "kernel": (3, 3),
        "dilation": (2, 3),
        "padding": (2, 3, 2, 3),
    },
    "groups": {"data": (2, 7, 6, 6), "outputs": 10, "kernel": (3, 3), "groups": 2, "padding": (1, 1, 1, 1)},
    "groups in blocks": {"data": (1, 9, 31, 34), "outputs": 62, "kernel": (1, 1), "groups": 2},
    "depthwise multiplier": {"data": (1, 7, 6, 5), "outputs": 15, "kernel": (3, 3), "groups": 5},
    "whole image": {"data": (3, 4, 4, 8), "outputs": 31, "kernel": (4, 4)},
    "strides that differ": {"data": (1, 12, 9, 4), "outputs": 8, "kernel": (2, 5), "strides": (3, 1)},
}


@pytest.mark.parametrize(
    "steps",
    [
        (),
        ("bias", "relu"),
        ("residual",),
        ("clip",),
        ALL_STEPS,
        ("bias", "leaky_relu", "residual"),
        ("bias", "residual", "prelu"),
    ],
    ids=str,
)
def test_epilogue(steps: Sequence[str]):
    if "relu" in steps:
        check_on_host(linear(7, 23, 9, steps))
    else:
        check_on_host(conv2d((1, 5, 7, 6), 22, (3, 3), steps, groups=2, padding=(1, 1, 1, 1)))


def test_leading_dimensions_are_rows():
    check_on_host(linear(3, 9, 8, ALL_STEPS, lead=(2, 5)))


def test_input_that_is_also_the_residual():
    workload = linear(7, 9, 9, ("residual",))
    step = dataclasses.replace(workload.epilogue[0], operand=workload.operands[0])
    workload = dataclasses.replace(workload, epilogue=(step,))
    assert len(Case(workload).inputs) == 1
    check_on_host(workload)


@pytest.mark.parametrize(
    "workload",
    [
        linear(31, 53, 67, ALL_STEPS),
        conv2d((1, 6, 9, 18), 58, (3, 2), ALL_STEPS, groups=2, padding=(1, 1, 1, 1)),
    ],
    ids=["linear", "conv2d"],
)
def test_result_depends_neither_on_tile_nor_block_nor_threads(workload: Workload):
    case = Case(workload)
    first = case.on_host(gemm_f32, Params(*TILES[0], row_block=TILES[0][0], parallel=False))
    case.check(first)
    for rows, vectors in TILES[2::5]:
        other = case.on_host(gemm_f32, Params(rows, vectors, 2 * rows, parallel=True))
        np.testing.assert_array_equal(first, other)


def test_every_kind_on_a_board(tmp_path: Path, board: Board):
    workloads = [linear(m, n, k, ALL_STEPS) for m, n, k in [(1, 7, 9), (8, 31, 31), (9, 1, 1), (128, 64, 65)]]
    workloads += [conv2d(**case, steps=("bias", "clip")) for case in CONVOLUTIONS.values()]
    cases = [Case(workload) for workload in workloads]
    calls = [case.call(gemm_f32, gemm_f32.default(case.workload, NEON_CORE)) for case in cases]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        case.check(actual)


TARGETS = {
    "neoverse-n2": (NEON_CORE, NEON),
    **{name: (CORES[name], {**BASELINE, "mcpu": name}) for name in ("cortex-a53", "cortex-a76")},
}

# Share of FMLA in the loops of whole tiles: 336 of 392 instructions of 7 x 3 vectors, 320 of 376 of 5 x 4; 320 of 381
# where rows are not at equal distances, 256 of 310 of 4 x 4.
FLOOR = 0.82


@pytest.mark.parametrize("core", first_of(TARGETS))
@pytest.mark.parametrize(
    "workload",
    [
        linear(128, 512, 128, ("bias", "gelu")),
        conv2d((1, 14, 14, 96), 576, (1, 1), ("bias", "clip")),
        conv2d((1, 28, 28, 192), 32, (1, 1), ("bias", "residual")),
        conv2d((1, 56, 56, 64), 64, (3, 3), ("bias", "residual", "relu"), padding=(1, 1, 1, 1)),
        conv2d((1, 56, 56, 24), 144, (1, 1), ("bias", "silu")),
    ],
    ids=["gelu", "1x1", "1x1 residual", "3x3", "1x1 silu"],
)
def test_inner_loops_are_fmla_without_stack_access(workload: Workload, core: str):
    of, target = TARGETS[core]
    inner = loops(assembly(gemm_f32.build(workload, gemm_f32.default(workload, of)), target))
    largest = 0.0
    for loop in inner:
        fmla = sum(line.startswith("fmla") for line in loop)
        if fmla:
            assert not [line for line in loop if "[sp" in line]
            largest = max(largest, fmla / len(loop)) if fmla >= 160 else largest
    assert largest >= FLOOR


@pytest.mark.parametrize("core", first_of(["cortex-a55", "cortex-x1", "neoverse-n1"]))
def test_tiles_fit_what_schedulers_of_other_cores_bring_forward(core: str):
    for workload in (
        linear(256, 256, 256, ("bias", "relu")),
        conv2d((1, 14, 14, 96), 576, (1, 1), ("bias",)),
    ):
        func = gemm_f32.build(workload, gemm_f32.default(workload, CORES[core]))
        for loop in loops(assembly(func, {**BASELINE, "mcpu": core})):
            assert not [line for line in loop if "[sp" in line]


def test_estimated_instructions_of_the_loop_are_those_of_the_assembly():
    workload, params = linear(14, 12, 256), Params(7, 3, 14, parallel=False)
    inner = loops(assembly(gemm_f32.build(workload, params), NEON))
    (length,) = {len(loop) for loop in inner if any(line.startswith("fmla") for line in loop)}
    parts, trips = fmla_tile.unrolled(256)
    assert (parts, trips) == (4, 16)
    start = 21  # of the accumulators
    assert fmla_tile.instructions(7, 3, ((0, 256),)) == length * trips + start


@pytest.mark.parametrize("name", ["cortex-a53", "cortex-a76", "neoverse-v2"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1000, 1280), (128, 512, 128), (512, 8, 256), (1, 1, 1), (7, 3, 99999)]
)
def test_default_is_next_to_the_lowest_estimate(m: int, n: int, k: int, name: str):
    workload, core = linear(m, n, k), CORES[name]
    estimates = [gemm_f32.estimate(workload, p, core) for p in gemm_f32.candidates(workload, core)]
    chosen = gemm_f32.default(workload, core)
    assert gemm_f32.estimate(workload, chosen, core) <= min(estimates) * (1 + panel_selection.MODEL_ERROR)
    assert min(estimates) >= m * n * k / 4 / core.vector_pipes  # FMLA of four lanes


def test_only_large_calls_are_parallel_and_have_tasks_for_the_threads():
    assert not gemm_f32.default(linear(7, 31, 9), NEON_CORE).parallel
    large = gemm_f32.default(linear(512, 16, 256), NEON_CORE)
    assert large.parallel
    assert 512 / large.row_block > 7


def test_weights_are_packed_in_panels_padded_with_zeros():
    workload = linear(6, 18, 2, ("bias",))
    b = np.arange(36, dtype=np.float32).reshape(2, 18)
    packed, bias = gemm_f32.pack(workload, Params(5, 4, 5, parallel=False), [b, np.ones(18, np.float32)])
    np.testing.assert_array_equal(packed[:32].reshape(2, 16), b[:, :16])
    np.testing.assert_array_equal(packed[32:].reshape(2, 4), [[16, 17, 0, 0], [34, 35, 0, 0]])
    np.testing.assert_array_equal(bias, [1] * 18 + [0] * 2)


def test_groups_are_packed_one_after_the_other():
    workload = conv2d((1, 2, 2, 4), 4, (1, 1), groups=2)
    w = np.arange(8, dtype=np.float32).reshape(4, 1, 1, 2)
    packed, _ = gemm_f32.pack(workload, Params(8, 1, 8, parallel=False), [w])
    first, second = packed.reshape(2, 2, 4)
    np.testing.assert_array_equal(first, [[0, 2, 0, 0], [1, 3, 0, 0]])
    np.testing.assert_array_equal(second, [[4, 6, 0, 0], [5, 7, 0, 0]])


def test_nan_stays_nan_through_relu_and_clip():
    case = Case(linear(2, 5, 4, ("relu", "clip")))
    case.inputs[0][0] = np.nan
    output = case.on_host(gemm_f32, gemm_f32.default(case.workload, NEON_CORE))
    assert np.isnan(output[0]).all()
    assert not np.isnan(output[1]).any()


def test_matches_says_what_it_saw():
    assert gemm_f32.matches(linear(2, 5, 4), NEON_CORE) == KernelMatch("float32 product 2 x 4 x 5")
    grouped = conv2d((1, 7, 7, 8), 6, (3, 3), groups=2)
    assert gemm_f32.matches(grouped, NEON_CORE) == KernelMatch("float32 product 2 x 25 x 36 x 3")


def test_near_miss_names_limit_and_actual():
    a, _ = linear(2, 5, 4).operands
    variable = dataclasses.replace(linear(2, 5, 4), operands=(a, Operand((4, 5), "float32", "input", 1)))
    assert gemm_f32.matches(variable, NEON_CORE) == declined(
        "gemm_f32", "weights are not constant", "constant", "input"
    )


def test_params_that_cannot_be():
    with pytest.raises(ValueError, match="6 x 5 vectors takes 40 registers of 32"):
        Params(6, 5, 6, parallel=False)
    with pytest.raises(ValueError, match="row_block 8 is not a multiple of 7"):
        Params(7, 3, 8, parallel=False)
