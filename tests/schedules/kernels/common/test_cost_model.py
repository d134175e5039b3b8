# SPDX-License-Identifier: Apache-2.0
import pytest

from schedules.cores import CORES
from schedules.kernels.common.cost_model import (
    KEPT,
    L2_BYTES_PER_CYCLE,
    LOST,
    MEMORY_BYTES_PER_CYCLE,
    WAITED_FOR,
    Cost,
    arithmetic,
    chained,
    cheapest,
    requantization,
    rereading_cycles,
    scalar,
    waiting,
)
from schedules.kernels.epilogues.requantize import Requantization

N2 = CORES["neoverse-n2"]  # dispatches five


def test_cycles_are_those_of_the_slower_of_dispatch_and_vector_pipes():
    assert (scalar(10) * 3 + arithmetic(10)).cycles(N2) == 40 / 5
    assert (scalar(10) + arithmetic(10) * 3).cycles(N2) == 30 / 2


def test_what_is_fetched_again_is_waited_for_as_far_as_caches_have_lost_it():
    assert rereading_cycles(3200, 2, KEPT * N2.l1d.size, N2) == 0
    lost = rereading_cycles(3200, 2, LOST * N2.l1d.size, N2)
    assert lost == WAITED_FOR * 6400 / L2_BYTES_PER_CYCLE
    assert rereading_cycles(3200, 2, (KEPT + LOST) / 2 * N2.l1d.size, N2) == pytest.approx(lost / 2)
    memory = WAITED_FOR * 6400 / MEMORY_BYTES_PER_CYCLE
    assert rereading_cycles(3200, 2, LOST * N2.l2.size, N2) == lost + memory
    assert (scalar(10) + Cost(fetching=3.0)).cycles(N2) == 10 / 5 + 3


def test_requantisation_counts_clamps_and_takes_odd_zero_points_for_nothing():
    plain = Requantization(-128, -128, 127, "int8")
    assert requantization(32, "biased", plain) == arithmetic(32)
    assert requantization(32, "convert", plain) == arithmetic(40)
    assert requantization(32, "biased", Requantization(3, -128, 127, "int8")) == arithmetic(32)
    assert requantization(32, "biased", Requantization(0, 5, 250, "uint8")) == arithmetic(32 + 4)


def test_among_ties_the_fewest_instructions_win():
    costs = {"short": Cost(100, 100.0), "tied": Cost(90, 101.0), "slow": Cost(80, 110.0)}
    assert cheapest(list(costs), costs.__getitem__, N2) == "tied"
    assert cheapest(["slow", "short"], costs.__getitem__, N2) == "short"


def test_vector_work_takes_as_long_as_the_cores_pipes_say():
    one, two, four = (CORES[name] for name in ("cortex-a53", "neoverse-n2", "neoverse-v2"))
    assert [arithmetic(240).cycles(core) for core in (one, two, four)] == [240, 120, 60]
    # Three chains of 80, a product each four cycles, whatever pipes there are for more of them.
    assert [chained(arithmetic(240), 3, 4, core).cycles(core) for core in (one, two, four)] == [320, 320, 320]
    assert [waiting(4, 4, core).cycles(core) for core in (one, two, four)] == [2, 4, 4]
