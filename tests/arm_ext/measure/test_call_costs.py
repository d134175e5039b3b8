# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import pytest

from arm_ext.common.trace import MODEL_IMAGE, TraceSection, TranslationBlock
from arm_ext.measure.call_costs import CallCost, bound_of, call_costs, peak_macs_per_cycle
from arm_ext.measure.classify import InsnClass
from arm_ext.measure.mca import find_mca
from schedules.cores import CORES
from tests.arm_ext.measure.a64 import words

CORE = CORES["neoverse-n2"]
ROUNDS = 10_000
# Encodings are llvm-mc's.
FMLA_BY_REGISTER = 0x4E20CC00  # fmla v0.4s, v0.4s, v0.4s; the fields Rm, Rn and Rd are set below
FDIV = 0x6E20FC00  # fdiv v0.4s, v0.4s, v0.4s
LOOP_END = (0xF1000400, 0x54FFFF01)  # subs x0, x0, #1; b.ne
LOAD, STORE = words("ldr q0, [x0], #0x10", "str q0, [x0], #0x10")


def cost_of(loop: Sequence[int], l1_misses: int = 0, l2_misses: int = 0, rounds: int = ROUNDS) -> CallCost:
    block = TranslationBlock(0x1000, rounds, (*loop, *LOOP_END), MODEL_IMAGE, "kernel")
    (cost,) = call_costs([TraceSection("kernel", (block,), 0, l1_misses, l2_misses)], CORE, find_mca())
    return cost


def sums(count: int) -> list[int]:
    """Multiply-adds into registers of their own."""
    return [FMLA_BY_REGISTER | 31 << 16 | 30 << 5 | register for register in range(count)]


def test_a_product_in_registers_is_bound_by_the_vector_pipes() -> None:
    cost = cost_of(sums(24))
    assert bound_of(cost) == "vector pipes"
    assert cost.limit_cycles == pytest.approx(ROUNDS * 24 / CORE.vector_pipes)
    assert cost.limit_cycles / cost.cycles > 0.9


def test_a_chain_of_divisions_is_bound_by_latency() -> None:
    cost = cost_of([FDIV | 1 << 16, FDIV | 1 << 16])
    assert bound_of(cost) == "latency"
    assert cost.limit_cycles < 0.5 * cost.cycles


def test_a_product_with_a_vector_from_memory_is_bound_by_memory() -> None:
    # Each round loads 64 bytes of weights, a line, and does four multiply-adds.
    cost = cost_of([LOAD, LOAD, LOAD, LOAD, *sums(4)], l1_misses=ROUNDS, l2_misses=ROUNDS)
    assert bound_of(cost) == "memory"
    assert cost.memory_bytes == 64 * ROUNDS


def test_a_copy_in_l2_is_bound_by_l2() -> None:
    # Each round reads a line and writes another.
    cost = cost_of([LOAD, STORE], l1_misses=2 * ROUNDS)
    assert bound_of(cost) == "L2"


def test_scalar_work_is_bound_by_dispatch() -> None:
    independent = [0x91000400 | register << 5 | register for register in range(1, 16)]  # add xN, xN, #1
    assert bound_of(cost_of(independent)) == "dispatch"


def test_what_runs_once_is_overhead() -> None:
    assert bound_of(cost_of([0x91000400] * 100, rounds=1)) == "overhead"


def test_roofs_are_of_the_instructions_in_use() -> None:
    roofs = peak_macs_per_cycle([cost_of(sums(4)), cost_of(words("sdot v0.4s, v1.16b, v2.4b[3]"))], CORE)
    assert roofs == {InsnClass.SDOT: 16 * CORE.vector_pipes, InsnClass.FMLA: 4 * CORE.vector_pipes}


def test_sections_are_costed_as_by_themselves() -> None:
    sections = [
        TraceSection(
            "kernel", (TranslationBlock(0x1000, ROUNDS, (*loop, *LOOP_END), MODEL_IMAGE, "kernel"),), 0, 0, 0
        )
        for loop in (sums(24), [FDIV])
    ]
    mca = find_mca()
    together = call_costs(sections, CORE, mca)
    assert together == [call_costs([section], CORE, mca)[0] for section in sections]


def test_the_hot_loop_is_the_block_with_most_cycles() -> None:
    cold = TranslationBlock(0x2000, 1, words("nop"), MODEL_IMAGE, "kernel")
    hot = TranslationBlock(0x1000, ROUNDS, (FDIV | 1 << 16, *LOOP_END), MODEL_IMAGE, "kernel")
    (cost,) = call_costs([TraceSection("kernel", (cold, hot), 0, 0, 0)], CORE, find_mca())
    assert cost.hot is not None
    assert cost.hot.count == ROUNDS
    assert cost.hot.lines[0] == "fdiv v0.4s, v0.4s, v1.4s"
