# SPDX-License-Identifier: Apache-2.0
"""Cost of each kernel call of a counted inference, and its bottleneck."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from arm_ext.common.trace import MODEL_IMAGE, Section
from arm_ext.measure.classify import MAC_CLASSES, InsnClass, disassemble
from arm_ext.measure.cycles import BlockCost, costs_of, glue, instructions_by_class
from arm_ext.measure.mca import Mca
from arm_ext.measure.pipes import vector_cycles
from schedules.cores import Core
from schedules.kernels.common.cost_model import L2_BYTES_PER_CYCLE
from schedules.lowering.rewrite_costs import BYTES_PER_CYCLE as MEMORY_BYTES_PER_CYCLE

LINE_BYTES = 64
"""Bytes of a cache line, as in the cache model of the counting plugin."""

Bound = Literal["vector pipes", "dispatch", "latency", "L2", "memory", "overhead"]
"""Bottleneck of a call: the resource of which more would make it faster; see `bound_of`."""

# A resource that is in use for at least this share of the cycles bounds the call.
_BUSY = 0.7
# If at least this share of a call's instructions runs only once, the call's overhead bounds it.
_ONCE = 0.5
# Instructions of a loop that a report shows.
_LONGEST_LOOP = 64

# Multiply-accumulates of one instruction on 128-bit vectors (Arm ARM DDI 0487, the instructions' descriptions).
MACS_OF = {
    InsnClass.SMMLA: 32,
    InsnClass.SDOT: 16,
    InsnClass.BF16: 16,
    InsnClass.FP16_FMLA: 8,
    InsnClass.FMLA: 4,
}


@dataclass(frozen=True)
class HotLoop:
    """The block of a call that takes most cycles.

    Attributes:
        count: Number of executions.
        cycles: Estimated cycles of all executions.
        lines: Instructions of the block, such as "sdot v0.4s, v1.16b, v2.4b[0]".
    """

    count: int
    cycles: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class CallCost:
    """Cost of one kernel call, or of the code that ran between two calls.

    Attributes:
        symbol: The kernel; "" is the program around kernels.
        instructions: Number of executed instructions.
        core_cycles: Estimated as if all loads hit L1.
        dispatch_cycles: Least cycles that dispatching the instructions takes.
        vector_cycles: Cycles in which the vector pipes are busy.
        l2_bytes: Lines that L1 fetched from L2 or beyond, in bytes.
        memory_bytes: Lines that L2 fetched from memory, in bytes.
        moved_bytes: Bytes that loads read and stores wrote.
        classes: Class of instructions → how many were executed.
        once: Instructions of blocks that ran once.
        hot: The block with most cycles; None without instructions in model.so.
    """

    symbol: str
    instructions: int
    core_cycles: float
    dispatch_cycles: float
    vector_cycles: float
    l2_bytes: int
    memory_bytes: int
    moved_bytes: int
    classes: Counter[InsnClass]
    once: int
    hot: HotLoop | None

    @property
    def l2_cycles(self) -> float:
        """Cycles in which the bus between L1 and L2 carries lines."""
        return self.l2_bytes / L2_BYTES_PER_CYCLE

    @property
    def memory_cycles(self) -> float:
        """Cycles in which the bus to memory carries lines."""
        return self.memory_bytes / MEMORY_BYTES_PER_CYCLE

    @property
    def cycles(self) -> float:
        """Core cycles, and those in which lines are carried: as if a core did not compute while it waits for one."""
        return self.core_cycles + self.l2_cycles + self.memory_cycles

    @property
    def limit_cycles(self) -> float:
        """Lower bound of the cycles for the same instructions in any order: those of the busiest resource."""
        return max(self.dispatch_cycles, self.vector_cycles, self.l2_cycles, self.memory_cycles)


def call_costs(sections: Sequence[Section], core: Core, mca: Mca) -> list[CallCost]:
    """Estimate the cost of each section of a trace.

    Args:
        sections: Sections of one inference.
        core: Core to estimate cycles for.
        mca: The llvm-mca that estimates cycles.
    """
    glued = [glue(section.blocks) for section in sections]
    ends = list(accumulate(map(len, glued), initial=0))
    costs = costs_of([block for blocks in glued for block in blocks], core, mca)
    parts = (costs[begin:end] for begin, end in pairwise(ends))
    return [_cost(section, part, core) for section, part in zip(sections, parts, strict=True)]


def _cost(section: Section, costs: Sequence[BlockCost], core: Core) -> CallCost:
    instructions = sum(cost.block.instructions for cost in costs)
    return CallCost(
        symbol=section.symbol,
        instructions=instructions,
        core_cycles=sum(cost.cycles for cost in costs),
        dispatch_cycles=instructions / core.issue_width,
        vector_cycles=vector_cycles(costs, core),
        l2_bytes=section.l1_misses * LINE_BYTES,
        memory_bytes=section.l2_misses * LINE_BYTES,
        moved_bytes=section.bytes,
        classes=instructions_by_class(costs),
        once=sum(len(cost.block.words) for cost in costs if cost.block.count == 1),
        hot=_hot(costs),
    )


def _hot(costs: Sequence[BlockCost]) -> HotLoop | None:
    own = [cost for cost in costs if cost.block.image == MODEL_IMAGE]
    if not own:
        return None
    hot = max(own, key=lambda cost: cost.cycles)
    words = hot.block.words[:_LONGEST_LOOP]
    lines = tuple(" ".join(disassemble(word)).strip() for word in words)
    more = len(hot.block.words) - len(words)
    return HotLoop(hot.block.count, round(hot.cycles), (*lines, f"… {more} more") if more else lines)


def bound_of(cost: CallCost) -> Bound:
    """Return what bounds a call.

    "memory" or "L2": carrying cache lines takes longer than computing. "vector pipes" or "dispatch": busy for most of
    the core's cycles. "overhead": most instructions run once, which is how a call sets itself up. "latency": nothing is
    busy; instructions wait for the results of others.
    """
    if max(cost.memory_cycles, cost.l2_cycles) > cost.core_cycles:
        return "memory" if cost.memory_cycles >= cost.l2_cycles else "L2"
    if cost.vector_cycles >= max(_BUSY * cost.core_cycles, cost.dispatch_cycles):
        return "vector pipes"
    if cost.once > _ONCE * cost.instructions:
        return "overhead"
    return "dispatch" if cost.dispatch_cycles >= _BUSY * cost.core_cycles else "latency"


def peak_macs_per_cycle(costs: Sequence[CallCost], core: Core) -> dict[InsnClass, float]:
    """Return the peak rate of each multiply-accumulate instruction in use, if it ran alone: the roofs."""
    used = {kind for cost in costs for kind in cost.classes if kind in MAC_CLASSES}
    return {kind: macs * core.vector_pipes for kind, macs in MACS_OF.items() if kind in used}
