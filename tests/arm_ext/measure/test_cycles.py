# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from dataclasses import replace

import pytest

from arm_ext.common.trace import TranslationBlock
from arm_ext.measure.cycles import block_costs, glue
from arm_ext.measure.mca import find_mca
from schedules.cores import CORES
from tests.arm_ext.measure.a64 import words

pytestmark = pytest.mark.usefixtures("mca_cache")

N2 = CORES["neoverse-n2"]
BACK = "cbz x0, #0xfffffffffffffff0"


def block(vaddr: int, count: int, code: Sequence[int]) -> TranslationBlock:
    return TranslationBlock(vaddr, count, tuple(code), "model.so", "conv")


def cycles(*text: str, core: str = "neoverse-n2") -> float:
    """Estimated cycles of one execution of a block."""
    [cost] = block_costs([block(0x1000, 1000, words(*text))], CORES[core], find_mca())
    assert cost.unmodelled == 0
    return cost.cycles / 1000


def test_a_loop_split_at_a_page_is_one_block() -> None:
    head, tail = words("nop", "sdot v0.4s, v1.16b, v2.4b[3]"), words("nop", BACK)
    joined = glue([block(0x2000, 31, tail), block(0x1FF8, 31, head)])
    assert joined == [block(0x1FF8, 31, head + tail)]


def test_a_block_cut_twice_is_one() -> None:
    parts = [words("nop"), words("add x0, x0, #1", "nop"), words(BACK)]
    joined = glue([block(0x1000, 7, parts[0]), block(0x1004, 7, parts[1]), block(0x100C, 7, parts[2])])
    assert joined == [block(0x1000, 7, sum(parts, ()))]


def test_a_tail_that_is_entered_from_elsewhere_keeps_the_rest() -> None:
    head, tail = words("nop", "nop"), words("add x0, x0, #1", BACK)
    joined = glue([block(0x1FF8, 8, head), block(0x1FFC, 1, head[1:]), block(0x2000, 31, tail)])
    assert joined == [
        block(0x1FF8, 8, head + tail),
        block(0x1FFC, 1, head[1:] + tail),
        block(0x2000, 22, tail),
    ]


@pytest.mark.parametrize(
    ("end", "after"),
    [("ret", 9), ("bl #0xffffffffffffffc0", 9), (BACK, 8), (BACK, 10)],
)
def test_a_block_that_ends_with_a_branch_stays(end: str, after: int) -> None:
    blocks = [block(0x1FF8, 9, words("nop", end)), block(0x2000, after, words("nop", "ret"))]
    assert glue(blocks) == blocks


@pytest.mark.parametrize("end", [BACK, "b.eq #0x10", "tbz w0, #3, #0xfffffffffffffff0"])
def test_behind_a_branch_that_is_never_taken_it_goes_on(end: str) -> None:
    head, tail = words("nop", end), words("nop", "ret")
    assert glue([block(0x1FF8, 9, head), block(0x2000, 9, tail)]) == [block(0x1FF8, 9, head + tail)]


def test_a_sum_that_begins_anew_behind_such_a_branch_waits_for_none_of_its_last_round() -> None:
    sums = words(*["fmla v0.4s, v1.4s, v2.s[3]"] * 4, "b.eq #0x10")
    rest = words("smull v0.8h, v1.8b, v2.8b", BACK)
    n2, mca = CORES["neoverse-n2"], find_mca()
    halves = block(0x1000, 1000, sums), block(0x1000 + 4 * len(sums), 1000, rest)
    apart = sum(cost.cycles for half in halves for cost in block_costs([half], n2, mca))
    assert sum(cost.cycles for cost in block_costs(halves, n2, mca)) < apart / 2


def test_of_two_that_follow_the_one_that_ran_as_often_is_taken() -> None:
    head, whole, half = block(0x1FF8, 8, words("nop")), block(0x1FFC, 9, words("nop", "ret")), words("nop")
    joined = glue([head, block(0x1FFC, 7, half), whole, block(0x2000, 7, words("ret"))])
    assert joined == [
        block(0x1FF8, 8, head.words + whole.words),
        block(0x1FFC, 7, half + words("ret")),
        block(0x1FFC, 1, whole.words),
    ]


def test_a_block_that_ran_more_often_than_what_follows_stays() -> None:
    blocks = [block(0x1FF8, 9, words("nop", "nop")), block(0x2000, 8, words("nop", "ret"))]
    assert glue(blocks) == blocks


@pytest.mark.parametrize("core", ["neoverse-n2", "cortex-a72", "cortex-a76"])
def test_a_post_indexed_load_does_not_delay_the_next_address(core: str) -> None:
    # Unsplit, the models of N2 and A57 take the load's whole latency: 6 and 5 cycles.
    assert cycles("ldr q0, [x0], #0x10", core=core) == pytest.approx(1, abs=0.1)


def test_a_lane_load_waits_for_its_insertion_alone() -> None:
    # Unsplit 8 cycles; `ins` on Neoverse N2 takes 2.
    assert cycles("ld1 {v0.d}[1], [x0]") == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("core", ["neoverse-n2", "cortex-a53"])
def test_a_call_costs_a_jump(core: str) -> None:
    assert cycles("bl #0xffffffffffffffc0", core=core) < 1.5


def test_no_more_instructions_a_cycle_than_the_core_dispatches() -> None:
    # llvm-mca's model dispatches 10 a cycle.
    assert cycles(*["nop"] * 31) == 31 / N2.issue_width
    wide = replace(N2, issue_width=1000)
    [cost] = block_costs([block(0x1000, 1, words(*["nop"] * 31))], wide, find_mca())
    assert cost.cycles < 31 / N2.issue_width


def test_what_the_model_does_not_know_is_counted() -> None:
    code = words("casal x0, x1, [x2]", "ret")
    [some, alone] = block_costs([block(0x1000, 7, code), block(0x3000, 9, code[:1])], N2, find_mca())
    assert some.unmodelled == 7
    assert (alone.unmodelled, alone.cycles) == (9, 9 / N2.issue_width)
