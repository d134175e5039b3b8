# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from arm_ext.report.caches import CallOperands, operand_cycles
from schedules.cores import CORES
from schedules.kernels.common.cost_model import fetch_cycles

BASE = CORES["cortex-a76"]
CORE = replace(BASE, l1d=replace(BASE.l1d, size=100), l2=replace(BASE.l2, size=1000))


def test_what_l1_holds_from_the_inference_before_is_free():
    assert operand_cycles([CallOperands(60, (), 30)], CORE) == [0]


def test_what_is_larger_than_a_cache_is_fetched_each_time():
    assert operand_cycles([CallOperands(900, (), 30)], CORE) == [fetch_cycles(930, 0)]
    assert operand_cycles([CallOperands(5000, (), 30)], CORE) == [fetch_cycles(5030, 5030)]


def test_a_result_that_was_just_written_is_in_the_cache_and_weights_are_not():
    calls = [CallOperands(900, (), 40), CallOperands(900, (0,), 40)]
    # 1,880 bytes are touched between two uses of weights, and 940 from the second result to the place of the first.
    assert operand_cycles(calls, CORE) == [fetch_cycles(940, 900), fetch_cycles(980, 940)]


def test_a_result_takes_the_place_of_one_that_is_not_needed_any_more():
    chain = [CallOperands(0, (), 40), CallOperands(0, (0,), 40), CallOperands(0, (1,), 40)]
    assert operand_cycles(chain, CORE) == [0, 0, 0]
    kept = [*chain, CallOperands(0, (0, 1, 2), 40)]  # four places of 40 bytes, more than L1
    assert sum(operand_cycles(kept, CORE)) > 0


def test_the_distance_is_of_what_was_touched_between():
    calls = [CallOperands(0, (), 40), CallOperands(200, (), 10), CallOperands(0, (0,), 10)]
    cycles = operand_cycles(calls, CORE)
    assert cycles[2] == pytest.approx(fetch_cycles(40 + 10, 0))
