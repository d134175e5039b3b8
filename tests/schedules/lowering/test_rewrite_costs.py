# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from schedules.cores import CORES, X86_64
from schedules.kernels.common.cost_model import MEMORY_BYTES_PER_CYCLE
from schedules.kernels.epilogues import residual_s8
from schedules.kernels.gemm import gemm_f32
from schedules.kernels.gemm.by_rows import _tile_costs
from schedules.lowering.rewrite_costs import FLOAT, SPLIT_CALL, RewriteCosts
from schedules.select import _defaults, _variants
from tests.schedules.lowering.test_parse import with_residual
from tests.schedules.programs import linear

CORE = CORES["neoverse-n2"]
COSTS = RewriteCosts(CORE)


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_costs_what_its_kernel_estimates(bias: bool):
    workload = linear(31, 9, 17, ["bias"] if bias else [], lead=(2,))
    params = gemm_f32.default(workload, CORE)
    assert COSTS.linear((2, 31, 17), 9, bias=bias) == gemm_f32.estimate(workload, params, CORE)


def test_what_no_kernel_takes_has_no_estimate():
    assert COSTS.linear((0, 17), 9, bias=True) is None


def test_data_beyond_the_cache_is_read_at_the_pace_of_memory():
    rows = CORE.l2.size // (16 * FLOAT)
    assert COSTS.cache == CORE.l2.size
    assert COSTS.moved((rows, 16)) == 0
    assert COSTS.moved((rows + 1, 16)) == (rows + 1) * 16 * FLOAT / MEMORY_BYTES_PER_CYCLE
    small = dataclasses.replace(CORE, l2=dataclasses.replace(CORE.l2, size=1))
    apart = RewriteCosts(small).linear((31, 16), 9, bias=True)
    workload = linear(31, 9, 16, ["bias"])
    kernel = gemm_f32.estimate(workload, gemm_f32.default(workload, small), small)
    assert apart == kernel + 31 * 16 * FLOAT / MEMORY_BYTES_PER_CYCLE
    assert RewriteCosts(small).split((31, 16)) - COSTS.split((31, 16)) == 2 * RewriteCosts(small).moved(
        (31, 16)
    )


# Columns of three products of this data, and whether one product and a split were counted to take fewer cycles.
@pytest.mark.parametrize(
    ("data", "columns", "wins"),
    [
        ((197, 192), 9, True),
        ((197, 192), 13, True),
        ((16, 128), 9, True),
        ((197, 192), 12, False),
        ((197, 192), 192, False),
        ((128, 128), 128, False),
        ((197, 16), 9, False),
        ((1, 128), 128, False),
    ],
)
def test_combining_wins_where_it_was_counted_to(data: tuple[int, int], columns: int, wins: bool):
    apart = COSTS.linear(data, columns, bias=True)
    together = COSTS.linear(data, 3 * columns, bias=True)
    assert apart is not None
    assert together is not None
    assert (together + COSTS.split((data[0], 3 * columns)) < 3 * apart) == wins
    assert COSTS.split((1, 1)) > SPLIT_CALL


@pytest.mark.parametrize("core", ["neoverse-n2", "cortex-a76"])
def test_a_residual_is_added_by_the_kernel_of_its_product(core: str):
    assert RewriteCosts(CORES[core]).dearer(*with_residual(outputs=16)) is None


# Tiles of eight columns would add eight where there are two; tiles of 16 outputs load the constants for so few.
@pytest.mark.parametrize(("core", "outputs"), [("neoverse-n2", 2), ("cortex-a53", 16)])
def test_a_residual_that_is_dearer_there_is_left_with_both_estimates(core: str, outputs: int):
    reason, limit, actual = RewriteCosts(CORES[core]).dearer(*with_residual(outputs)) or ("", "", "")
    assert reason == "with it the kernel would spill, or wait: estimated cycles"
    assert limit.endswith(", as of two kernels")
    assert float(actual) > float(limit.removeprefix("at most ").partition(",")[0])


def forget_estimates() -> None:
    for remembered in (_defaults, _variants, _tile_costs):
        remembered.cache_clear()


def test_what_spills_is_part_of_the_estimate(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(residual_s8, "SPILLS", 1000)
    forget_estimates()
    try:
        assert COSTS.dearer(*with_residual(outputs=16)) is not None
    finally:
        forget_estimates()


def test_a_residual_that_no_kernel_adds_is_left_with_the_reason():
    host = dataclasses.replace(CORE, features=frozenset(), isa=X86_64)
    answer = RewriteCosts(host).dearer(*with_residual())
    assert answer is not None
    assert answer[0].startswith("no kernel adds it: ")
