# SPDX-License-Identifier: Apache-2.0
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board, open_board
from schedules.cores import CORES
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.common.threads import PARALLEL_CYCLES, SPREADS, part_sizes, spread
from schedules.kernels.gemm import gemm_s8_mmla as kernel
from schedules.kernels.gemm.gemm_s8 import TILES_TIE
from schedules.kernels.gemm.gemm_s8_mmla import TILES, Params
from tests.schedules.products import CONVOLUTIONS, I8MM, LINEAR, SHAPES, Case, check, conv, linear
from tests.schedules.programs import NEON, NEON_CORE, SVE_PROFILE, assembly, each_fifth, loops

CORE = NEON_CORE


# The other half is SDOT's: they differ in how they multiply, not in what they add and store.
@pytest.mark.isa("i8mm")
@pytest.mark.parametrize("cases", [LINEAR[1::2], CONVOLUTIONS[::2]], ids=["linear", "convolutions"])
def test_every_value_is_the_definitions(cases: Sequence[Case], tmp_path: Path, board: Board):
    check(kernel, [(case, kernel.default(case.workload, CORE)) for case in cases], I8MM, board, tmp_path)


@each_fifth
@pytest.mark.isa("i8mm")
def test_every_tile_gives_the_same(step: int, tmp_path: Path, board: Board):
    # A last tile with an odd row, a last column tile that is not full, more than one iteration of k.
    case = conv((1, 7, 9, 9), 43, (3, 3), pads=(1, 1, 1, 1))
    params = [
        Params(*tile, column_blocks=1 + i % 3, parallel=bool(i % 2)) for i, tile in enumerate(TILES[::step])
    ]
    check(kernel, [(case, p) for p in params], I8MM, board, tmp_path)


@pytest.mark.parametrize("threads", [2, pytest.param(4, marks=pytest.mark.long)])
def test_threads_give_the_same(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TVM_NUM_THREADS", str(threads))
    cases = [conv((1, 12, 9, 24), 40, (3, 3), pads=(1, 1, 1, 1)), linear((1,), 64, 200)]
    params = [Params(2, 4, parallel=True), Params(1, 8, column_blocks=12, parallel=True)]
    with open_board("virtual") as board:
        check(kernel, list(zip(cases, params, strict=True)), I8MM, board, tmp_path)


@pytest.mark.each_once
@pytest.mark.parametrize("name", ["conv 3 x 3", "gemm 256", "gemm 128 x 1024 x 256"])
@pytest.mark.parametrize("parallel", [False, True])
def test_inner_loops_leave_the_stack_alone(name: str, parallel: bool):
    workload = SHAPES[name]().workload
    tile = kernel.default(workload, CORE)
    func = kernel.build(workload, Params(tile.row_pairs, tile.column_pairs, parallel=parallel))
    inner = [loop for loop in loops(assembly(func, NEON)) if any(i.startswith("smmla") for i in loop)]
    assert inner
    for loop in inner:
        assert not [line for line in loop if "[sp" in line]
        # Of full tiles 192 of 240; the last rows of a tile have fewer products for the same loads.
        assert sum(line.startswith("smmla") for line in loop) / len(loop) >= 0.6
    # Of 4 x 4 pairs 128 of 165.
    assert max(sum(line.startswith("smmla") for line in loop) / len(loop) for loop in inner) >= 0.77


# Estimated cycles of the whole operator, by llvm-mca over its counted blocks, one thread; and its instructions.
MEASURED = {
    "gemm 256": (307e3, 773e3),
    "gemm 128 x 1024 x 256": (562e3, 1400e3),
    "conv 3 x 3": (966e3, 2365e3),
    "conv 1 x 1, 14": (248e3, 619e3),
    "conv 1 x 1, 56": (1270e3, 3264e3),
    "first layer": (457e3, 1220e3),
    "classifier": (45e3, 147e3),
}


@pytest.mark.parametrize("name", MEASURED)
def test_estimates_are_close_to_what_was_counted(name: str):
    workload = SHAPES[name]().workload
    params = kernel.default(workload, CORE)
    cycles, instructions = MEASURED[name]
    assert kernel.estimate(workload, params, CORE) == pytest.approx(cycles, rel=0.25)
    assert kernel.cost(workload, params, CORE).instructions == pytest.approx(instructions, rel=0.25)


@pytest.mark.parametrize("name", MEASURED)
def test_calls_that_are_worth_it_have_even_shares_for_the_threads(name: str):
    workload = SHAPES[name]().workload
    *rows, columns = workload.output_shape
    for params in kernel.candidates(workload, CORE):
        serial = Params(params.row_pairs, params.column_pairs)
        assert params.parallel == (kernel.estimate(workload, serial, CORE) >= PARALLEL_CYCLES)
        if params.parallel:
            full, rest = divmod(math.prod(rows), params.tile.rows)
            tiles = [params.tile.rows] * full + [rest] * (rest > 0)
            tasks = np.outer(part_sizes(columns, params.tile.columns, params.column_blocks), tiles).ravel()
            assert all(spread(tasks.tolist(), threads) <= limit for threads, limit in SPREADS.items())


def test_default_ties_with_the_lowest_estimate():
    workload = SHAPES["conv 1 x 1, 56"]().workload
    estimates = [kernel.estimate(workload, p, CORE) for p in kernel.candidates(workload, CORE)]
    assert kernel.estimate(workload, kernel.default(workload, CORE), CORE) <= (1 + TILES_TIE) * min(estimates)


def test_short_k_takes_a_tile_that_does_not_spill():
    params = kernel.default(conv((1, 28, 28, 32), 192, (1, 1)).workload, CORE)
    assert params.row_pairs * params.column_pairs <= 16


def test_sve_stores_what_takes_several_stores():
    core = SVE_PROFILE.core
    assert [kernel.default(conv((1, 14, 14, 96), n, (1, 1)).workload, core).sve for n in (31, 17, 16)] == [
        True,
        False,
        False,
    ]
    assert not kernel.default(conv((1, 14, 14, 96), 31, (1, 1)).workload, CORE).sve


def test_matches_says_what_it_saw_or_lacks():
    grouped = CONVOLUTIONS[4].workload
    assert kernel.matches(grouped, CORE) == KernelMatch("int8 product 2 x 98 x 72 x 12")
    other = CORES["cortex-a76"]
    assert kernel.matches(grouped, other) == missing_feature("gemm_s8_mmla", "i8mm", other)


def test_params_that_cannot_be():
    with pytest.raises(ValueError, match="6 x 8 pairs takes 56 registers of 32"):
        Params(6, 8)
    with pytest.raises(ValueError, match="column_pairs 5 is not 4 or 8"):
        Params(1, 5)
