# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from arm_ext.board import Board, open_board
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.gemm import gemm_s8_sdot as kernel
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.gemm_s8_sdot import TILES, Params
from schedules.kernels.gemm.k_chunks_s8 import Reading
from tests.schedules.products import (
    CONVOLUTIONS,
    LINEAR,
    SHAPES,
    SIGNED,
    UNSIGNED,
    Case,
    Quant,
    check,
    conv,
    linear,
)
from tests.schedules.programs import DOTPROD, TRIPLE, assembly, each_fifth, loops

CORE = CORES["cortex-a76"]
TARGET = {"kind": "llvm", "mtriple": TRIPLE, "mcpu": CORE.llvm_cpu}


@pytest.mark.isa("dotprod")
@pytest.mark.parametrize("cases", [LINEAR[::2], CONVOLUTIONS[1::2]], ids=["linear", "convolutions"])
def test_every_value_is_the_definitions(cases: Sequence[Case], tmp_path: Path, board: Board):
    check(kernel, [(case, kernel.default(case.workload, CORE)) for case in cases], DOTPROD, board, tmp_path)


def gathered(channels: int, kernel: int, quant: Quant = SIGNED) -> Case:
    """A convolution of few channels, whose rows are gathered in registers."""
    pads = (kernel // 2,) * 4
    return conv((1, 9, 7, channels), 20, (kernel, kernel), strides=(2, 1), pads=pads, quant=quant)


@pytest.mark.isa("dotprod")
def test_rows_that_are_gathered(tmp_path: Path, board: Board):
    cases = [gathered(*each) for each in ((3, 3), (2, 3), (1, 3), (1, 5), (3, 5), (1, 7), (1, 9))]
    cases += [gathered(3, 3, UNSIGNED), gathered(3, 3, replace(SIGNED, nine_bits=True))]
    tiles = [(2, 4), (3, 4), (8, 2), (3, 6), (4, 6), (1, 8), (2, 4), (2, 4), (2, 4)]
    params = [Params(*tile, reload=bool(i % 3)) for i, tile in enumerate(tiles)]
    for case in cases:
        products = product_s8.products_of(case.workload, kernel.NAME)
        assert not isinstance(products, Diagnostic)
        assert Reading.in_vectors(products[0].rows, 4, may_gather=True).is_gathered
    check(kernel, list(zip(cases, params, strict=True)), DOTPROD, board, tmp_path)


@each_fifth
@pytest.mark.isa("dotprod")
def test_every_tile_gives_the_same(step: int, tmp_path: Path, board: Board):
    case = conv((1, 7, 9, 9), 43, (3, 3), pads=(1, 1, 1, 1))
    params = [
        Params(*tile, column_blocks=1 + i % 3, parallel=bool(i % 2)) for i, tile in enumerate(TILES[::step])
    ]
    params += [replace(each, reload=False) for each in params]
    check(kernel, [(case, p) for p in params], DOTPROD, board, tmp_path)


@pytest.mark.parametrize("threads", [2, pytest.param(4, marks=pytest.mark.long)])
def test_threads_give_the_same(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TVM_NUM_THREADS", str(threads))
    cases = [conv((1, 12, 9, 24), 40, (3, 3), pads=(1, 1, 1, 1)), linear((1,), 64, 200)]
    params = [Params(4, 4, parallel=True), Params(1, 8, column_blocks=6, parallel=True)]
    with open_board("virtual") as board:
        check(kernel, list(zip(cases, params, strict=True)), DOTPROD, board, tmp_path)


@pytest.mark.parametrize("name", ["conv 3 x 3", "gemm 256", "conv 1 x 1, 14"])
def test_inner_loops_leave_the_stack_alone(name: str):
    workload = SHAPES[name]().workload
    tile = kernel.default(workload, CORE)
    func = kernel.build(workload, Params(tile.rows, tile.vectors))
    inner = [loop for loop in loops(assembly(func, TARGET)) if any(i.startswith("sdot") for i in loop)]
    assert inner
    for loop in inner:
        assert not [line for line in loop if "[sp" in line]
        # Of full tiles 160 of 180 or 192 of 215; the last rows of a tile have fewer products for the same loads.
        assert sum(line.startswith("sdot") for line in loop) / len(loop) >= 0.5
    assert max(sum(line.startswith("sdot") for line in loop) / len(loop) for loop in inner) >= 0.88


# Estimated cycles of the whole operator, by llvm-mca over its counted blocks, one thread; and its instructions.
MEASURED = {
    "conv 3 x 3": (1864e3, 4305e3),
    "conv 1 x 1, 14": (428e3, 993e3),
    "conv 1 x 1, 56": (2208e3, 5081e3),
    "first layer": (626e3, 1933e3),
    "classifier": (47.5e3, 139.7e3),
}


@pytest.mark.parametrize("name", MEASURED)
def test_estimates_are_close_to_what_was_counted(name: str):
    workload = SHAPES[name]().workload
    params = kernel.default(workload, CORE)
    cycles, instructions = MEASURED[name]
    assert kernel.estimate(workload, params, CORE) == pytest.approx(cycles, rel=0.25)
    assert kernel.cost(workload, params, CORE).instructions == pytest.approx(instructions, rel=0.25)


def test_one_row_takes_accumulators_enough_to_hide_the_latency():
    params = kernel.default(SHAPES["classifier"]().workload, CORE)
    assert params.vectors >= 6


def test_tiles_that_need_loads_of_four_vectors_are_for_cores_that_have_them():
    workload = conv((1, 56, 56, 144), 24, (1, 1)).workload
    assert kernel.default(workload, CORE).vectors == 6
    assert kernel.default(workload, CORES["cortex-a55"]).vectors == 2


def test_matches_says_what_it_saw_or_lacks():
    assert kernel.matches(LINEAR[1].workload, CORE) == KernelMatch("int8 product 7 x 8 x 9")
    other = CORES["cortex-a53"]
    assert kernel.matches(LINEAR[1].workload, other) == missing_feature("gemm_s8_sdot", "dotprod", other)


def test_params_that_cannot_be():
    with pytest.raises(ValueError, match="6 x 6 vectors takes 44 registers of 32"):
        Params(6, 6)
    with pytest.raises(ValueError, match="vectors 3 is not even"):
        Params(2, 3)
