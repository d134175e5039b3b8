# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest

from arm_ext.board import Board, open_board
from schedules.cores import CORES, Core
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.depthwise import depthwise_s8 as kernel
from schedules.kernels.depthwise.depthwise_s8 import Params
from tests.schedules.products import MIXED, QUANTS, SHAPES, SIGNED, Case, Quant, check, conv
from tests.schedules.programs import DOTPROD, NEON, TRIPLE, assembly, loops

CORTEX_A76 = {"kind": "llvm", "mtriple": TRIPLE, "mcpu": "cortex-a76"}
N2, A76 = CORES["neoverse-n2"], CORES["cortex-a76"]
ONE = (1, 1, 1, 1)


def depthwise(
    data: tuple[int, int, int, int],
    size: int,
    stride: int = 1,
    pads: tuple[int, int, int, int] = ONE,
    quant: Quant = SIGNED,
) -> Case:
    channels = data[3]
    kernel_size, strides = (size, size), (stride, stride)
    return conv(data, channels, kernel_size, strides=strides, groups=channels, pads=pads, quant=quant)


CASES = [
    depthwise((1, 9, 7, 8), 3),
    depthwise((2, 8, 9, 17), 3, quant=QUANTS[1]),
    depthwise((1, 31, 5, 11), 3, 2, (0, 0, 1, 1), QUANTS[2]),
    depthwise((1, 7, 31, 24), 3, 2, quant=MIXED),
    depthwise((1, 3, 3, 8), 3, 1, (0, 0, 0, 0), QUANTS[2]),
    depthwise((1, 5, 1, 8), 1, 1, (0, 0, 0, 0)),
]


@pytest.mark.isa("dotprod")
def test_every_value_is_the_definitions(tmp_path: Path, board: Board):
    check(kernel, [(case, kernel.default(case.workload, N2)) for case in CASES], DOTPROD, board, tmp_path)


@pytest.mark.isa("dotprod")
def test_every_number_of_columns_gives_the_same(tmp_path: Path, board: Board):
    cases = [depthwise((1, 5, 15, 9), 3), depthwise((1, 5, 15, 9), 3, 2, quant=MIXED)]
    params = [Params(unroll, reload=unroll < 3, parallel=bool(unroll % 2)) for unroll in range(1, 5)]
    check(kernel, [(case, each) for case in cases for each in params], DOTPROD, board, tmp_path)


@pytest.mark.parametrize("threads", [2, pytest.param(4, marks=pytest.mark.long)])
def test_threads_give_the_same(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TVM_NUM_THREADS", str(threads))
    with open_board("virtual") as board:
        check(kernel, [(depthwise((2, 31, 9, 17), 3), Params(2, parallel=True))], DOTPROD, board, tmp_path)


@pytest.mark.parametrize(("core", "target"), [(N2, NEON), (A76, CORTEX_A76)], ids=["n2", "a76"])
def test_the_loop_over_columns_keeps_its_weights_in_registers(core: Core, target: dict[str, Any]):
    workload = SHAPES["depthwise"]().workload
    func = kernel.build(workload, kernel.default(workload, core))
    inner = [loop for loop in loops(assembly(func, target)) if any(i.startswith("sdot") for i in loop)]
    # The bands at the upper border, in the middle and at the lower border.
    assert len(inner) == 3
    for loop in inner:
        assert not [line for line in loop if "[sp" in line]
        # Neither for accumulators, nor for columns that are carried.
        assert not [line for line in loop if line.startswith("mov")]
        # 24 of 83, with an odd zero point as with an even one: most of the rest is requantisation.
        assert sum(line.startswith("sdot") for line in loop) / len(loop) >= 0.28


# Estimated cycles of the whole operator, by llvm-mca over its counted blocks, one thread; and its instructions.
@pytest.mark.parametrize(("core", "cycles", "instructions"), [(N2, 1293e3, 3160e3), (A76, 1295e3, 3160e3)])
def test_estimates_are_close_to_what_was_counted(core: Core, cycles: float, instructions: float):
    workload = SHAPES["depthwise"]().workload
    params = kernel.default(workload, core)
    assert params.parallel
    assert kernel.estimate(workload, params, core) == pytest.approx(cycles, rel=0.25)
    assert kernel.cost(workload, params).instructions == pytest.approx(instructions, rel=0.25)


def test_cores_that_issue_in_order_copy_what_accumulators_begin_with():
    reload = {
        name: kernel.default(CASES[0].workload, CORES[name]).reload for name in ("cortex-a55", "cortex-a510")
    }
    assert not any(reload.values())
    assert kernel.default(CASES[0].workload, A76).reload


def test_small_calls_run_on_one_thread():
    assert not kernel.default(CASES[0].workload, N2).parallel


def test_matches_says_what_it_saw():
    assert kernel.matches(CASES[1].workload, N2) == KernelMatch("int8 depthwise 3 x 3 of 17 channels")
    other = CORES["cortex-a53"]
    assert kernel.matches(CASES[0].workload, other) == missing_feature(kernel.NAME, "dotprod", other)


@pytest.mark.parametrize(
    ("case", "limit", "actual"),
    [
        (
            conv((1, 5, 5, 8), 16, (3, 3), groups=8),
            "a group and an output each channel",
            "8 groups of 2",
        ),
        (conv((1, 5, 5, 8), 8, (3, 3), groups=8, dilation=(2, 2)), "(1, 1)", "(2, 2)"),
        (depthwise((1, 5, 5, 7), 3), "8 or more", "7"),
        (depthwise((1, 5, 5, 8), 4), "4 rows, 9 taps", "4 x 4"),
    ],
    ids=["multiplier", "dilation", "few channels", "large"],
)
def test_near_misses_name_limit_and_actual(case: Case, limit: str, actual: str):
    answer = kernel.matches(case.workload, N2)
    assert isinstance(answer, Diagnostic)
    assert answer.limit == limit
    assert answer.actual.startswith(actual)
