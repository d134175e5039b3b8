# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest

from schedules.composites.workload import Workload
from schedules.cores import CORES
from schedules.kernels.common.threads import SPREADS, spread
from schedules.kernels.gemm import gemm_f32
from schedules.kernels.gemm.gemm_f32 import Params
from schedules.kernels.gemm.k_blocking import Depth, fewest, fits, task_sizes
from tests.schedules.float_cases import Case, conv2d
from tests.schedules.programs import BASELINE, assembly, first_of, linear, loops

# Rows, columns and k with tails, the last block of k longer than the others, the last task with fewer panels.
CASES = {
    "linear": (linear(9, 19, 91, ("bias", "residual", "clip")), Params(4, 2, 4, False, False, 3, 2)),
    "two blocks": (linear(3, 8, 40, ("bias",)), Params(4, 2, 4, True, False, 2, 1)),
    "rows of a kernel": (
        conv2d((1, 6, 5, 24), 12, (3, 2), ("bias",), padding=(1, 1, 1, 1)),
        Params(5, 2, 10, False, False, 9, 2),
    ),
    "groups": (conv2d((1, 3, 3, 96), 20, (1, 1), groups=2), Params(4, 2, 4, True, False, 3, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_as_without_blocks(name: str):
    workload, params = CASES[name]
    case = Case(workload)
    blocked = case.on_host(gemm_f32, params)
    case.check(blocked)
    whole = case.on_host(gemm_f32, replace(params, k_blocks=1))
    np.testing.assert_array_equal(blocked, whole)


def test_which_blocks_there_are():
    one, three = ((0, 91),), ((0, 48), (100, 48), (200, 48))
    # 22 vectors are five iterations of four, and two vectors and three k that go with the last block.
    assert [n for n in range(9) if fits(one, n)] == [2, 3, 4, 5]
    # Three iterations a segment.
    assert [n for n in range(12) if fits(three, n)] == [3, 9]
    assert Depth(three, 9).longest == 16
    # The last of three blocks has three iterations of 16.
    assert Depth(one, 3).longest == 48
    assert fewest(one, 47) == 4
    assert fewest(((0, 48), (100, 32)), 16) is None
    with pytest.raises(ValueError, match="cannot be divided into 7 blocks"):
        Depth(one, 7)


LONG = linear(64, 384, 4096, ("bias",))


@pytest.mark.parametrize("name", ["cortex-a53", "cortex-a55", "cortex-a76"])
def test_blocks_are_points_where_a_cache_does_not_keep_a_panel(name: str):
    core = CORES[name]
    blocked = [params for params in gemm_f32.space(LONG, core) if params.k_blocks > 1]
    assert len({params.k_blocks for params in blocked}) > 2
    best = min(blocked, key=lambda params: gemm_f32.estimate(LONG, params, core))
    assert gemm_f32.estimate(LONG, best, core) < gemm_f32.estimate(LONG, gemm_f32.default(LONG, core), core)
    short: Workload = linear(64, 96, 64, ("bias",))
    assert gemm_f32.space(short, core) == gemm_f32.candidates(short, core)


@pytest.mark.parametrize("name", first_of(["cortex-a53", "cortex-a55", "cortex-a76"]))
def test_loops_over_a_block_of_k_have_no_stack_access(name: str):
    params = Params(6, 3, row_block=60, parallel=True, k_blocks=16, panels=16)
    inner = loops(assembly(gemm_f32.build(LONG, params), {**BASELINE, "mcpu": name}))
    whole = [loop for loop in inner if sum("fmla" in line for line in loop) >= 16 * 6 * 3]
    # Of the first block of k, of those in the middle, and of the last.
    assert len(whole) == 3
    assert not [line for loop in whole for line in loop if "[sp" in line]


@pytest.mark.parametrize("name", ["cortex-a55", "neoverse-n2"])
def test_blocks_are_taken_without_tuning_where_a_panel_is_as_large_as_the_cache(name: str):
    core = CORES[name]
    workload = linear(128, 256, 1024, ("bias",))
    params = gemm_f32.default(workload, core)
    assert params.k_blocks > 1
    column = 4 * params.vectors * 4
    assert Depth(((0, 1024),), params.k_blocks).longest * column <= core.l1d.size // 8
    panels = -(-256 // (4 * params.vectors))
    assert -(-128 // params.row_block) * -(-panels // params.panels) >= 8  # tasks
    inner = loops(assembly(gemm_f32.build(workload, params), {**BASELINE, "mcpu": name}))
    products = [loop for loop in inner if sum("fmla" in line for line in loop) >= 4 * params.vectors]
    assert products
    assert not [line for loop in products for line in loop if "[sp" in line]
    assert gemm_f32.default(linear(128, 1024, 256, ("bias",)), CORES["neoverse-n2"]).k_blocks == 1


def test_results_of_a_block_of_rows_stay_in_the_cache_while_panels_complete_their_lines():
    """Of 12,544 rows of 96 columns, each panel of 12 writes to lines that the one before it has begun."""
    core = CORES["neoverse-n2"]
    params = gemm_f32.default(linear(12544, 96, 16, ("bias",)), core)
    assert params.row_block * 96 * 4 <= 2 * core.l1d.size


@pytest.mark.parametrize(("columns", "threads"), [(160, 4), (320, 4), (160, 2), (320, 8)])
def test_threads_have_even_shares_of_what_is_summed_in_blocks(columns: int, threads: int):
    """The last 1 x 1 convolutions of a MobileNetV2, whose 49 rows are few."""
    workload = conv2d((1, 7, 7, 960), columns, (1, 1), ("bias",))
    params = gemm_f32.default(workload, CORES["neoverse-n2"])
    assert params.k_blocks > 1
    (cut,) = gemm_f32._KERNEL.cuts(workload, params)
    assert spread(task_sizes(cut, params.panels, params.row_block), threads) <= SPREADS[threads]
