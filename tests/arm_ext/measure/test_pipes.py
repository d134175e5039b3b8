# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.common.trace import TranslationBlock
from arm_ext.measure.cycles import BlockCost
from arm_ext.measure.pipes import least_cycles, vector_share
from schedules.cores import CORES

FMLA, LOAD, STORE, ADD = 0x4E22CC20, 0x3DC00000, 0x3D800000, 0x91000400


def cost(count: int, *words: int, cycles: float) -> BlockCost:
    return BlockCost(TranslationBlock(0, count, words, "model.so", "kernel"), cycles, 0)


def test_arithmetic_and_stores_are_on_the_pipes_loads_and_scalars_are_not():
    block = cost(10, FMLA, FMLA, FMLA, STORE, LOAD, ADD, cycles=20.0)
    assert vector_share([block], CORES["neoverse-n2"]) == 1.0
    assert vector_share([block], CORES["neoverse-v2"]) == 0.5
    assert vector_share([cost(10, FMLA, LOAD, cycles=20.0)], CORES["cortex-a55"]) == 0.5


def test_blocks_weigh_by_their_cycles():
    full, empty = cost(10, FMLA, FMLA, cycles=10.0), cost(5, ADD, cycles=30.0)
    assert vector_share([full, empty], CORES["neoverse-n1"]) == pytest.approx(0.25)


def test_no_order_is_faster_than_full_pipes_or_full_dispatch():
    core = CORES["neoverse-n2"]  # two pipes, five a cycle
    assert least_cycles([cost(10, FMLA, FMLA, cycles=40.0)], core) == pytest.approx(10.0)
    assert least_cycles([cost(10, LOAD, ADD, ADD, ADD, ADD, cycles=40.0)], core) == pytest.approx(10.0)
