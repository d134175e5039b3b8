# SPDX-License-Identifier: Apache-2.0
"""Cost of each kernel call of a counted inference, and its bottleneck."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from arm_ext.common.trace import MODEL_IMAGE, TraceSection
from arm_ext.measure.classify import MAC_CLASSES, InsnClass, disassemble
from arm_ext.measure.cycles import LINE_BYTES, BlockCost, costs_of, glue, instructions_by_class
from arm_ext.measure.mca import Mca
from arm_ext.measure.pipes import vector_cycles
from schedules.cores import Core
from schedules.kernels.common.cost_model import L2_BYTES_PER_CYCLE, MEMORY_BYTES_PER_CYCLE

Bound = Literal["vector pipes", "dispatch", "latency", "L2", "memory", "overhead"]
"""What takes cycles of a call; see `CallCost.parts`."""

# Maximum number of instructions of a loop in a report.
_LONGEST_LOOP = 64

# Multiply-accumulates per instruction on 128-bit vectors (Arm ARM DDI 0487, the instructions' descriptions).
MACS_OF = {
    InsnClass.SMMLA: 32,
    InsnClass.SDOT: 16,
    InsnClass.BF16: 16,
    InsnClass.FP16_FMLA: 8,
    InsnClass.FMLA: 4,
}


@dataclass(frozen=True)
class HottestBlock:
    """The block of a call with the most cycles.

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
    """Cost of one kernel call, or of the code between two calls.

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
    hot: HottestBlock | None

    @property
    def l2_cycles(self) -> float:
        """Cycles in which the bus between L1 and L2 transfers cache lines."""
        return self.l2_bytes / L2_BYTES_PER_CYCLE

    @property
    def memory_cycles(self) -> float:
        """Cycles in which the bus to memory transfers cache lines."""
        return self.memory_bytes / MEMORY_BYTES_PER_CYCLE

    @property
    def cycles(self) -> float:
        """Core cycles plus transfer cycles of cache lines: as if a core did not compute during a transfer."""
        return self.core_cycles + self.l2_cycles + self.memory_cycles

    @property
    def parts(self) -> dict[Bound, float]:
        """Cycles by cause, the largest first; they sum to `cycles`.

        "memory", "L2": cache lines are carried. "overhead": the share of the core's cycles that instructions have which
        run once, as a call sets itself up. Of the other core cycles, "vector pipes" or "dispatch", whichever is longer:
        those are busy; "latency": instructions wait for the results of others.
        """
        once = self.once / self.instructions if self.instructions else 0.0
        looped = self.core_cycles * (1 - once)
        busy: dict[Bound, float] = {"vector pipes": self.vector_cycles, "dispatch": self.dispatch_cycles}
        name = max(busy, key=lambda each: busy[each])
        computing = min(busy[name] * (1 - once), looped)
        found: dict[Bound, float] = {
            name: computing,
            "latency": looped - computing,
            "overhead": self.core_cycles * once,
            "L2": self.l2_cycles,
            "memory": self.memory_cycles,
        }
        return dict(sorted(found.items(), key=lambda part: -part[1]))

    @property
    def bound(self) -> Bound:
        """The cause of the largest part of the cycles."""
        return next(iter(self.parts))

    @property
    def limit_cycles(self) -> float:
        """Lower bound of the cycles for the same instructions in any order: the cycles of the busiest resource."""
        return max(self.dispatch_cycles, self.vector_cycles, self.l2_cycles, self.memory_cycles)


def call_costs(sections: Sequence[TraceSection], core: Core, mca: Mca) -> list[CallCost]:
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


def _cost(section: TraceSection, costs: Sequence[BlockCost], core: Core) -> CallCost:
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


def _hot(costs: Sequence[BlockCost]) -> HottestBlock | None:
    own = [cost for cost in costs if cost.block.image == MODEL_IMAGE]
    if not own:
        return None
    hot = max(own, key=lambda cost: cost.cycles)
    words = hot.block.words[:_LONGEST_LOOP]
    lines = tuple(" ".join(disassemble(word)).strip() for word in words)
    more = len(hot.block.words) - len(words)
    return HottestBlock(hot.block.count, round(hot.cycles), (*lines, f"… {more} more") if more else lines)


def peak_macs_per_cycle(costs: Sequence[CallCost], core: Core) -> dict[InsnClass, float]:
    """Return the peak rate of each multiply-accumulate instruction in use, as if only it ran: the roofs."""
    used = {kind for cost in costs for kind in cost.classes if kind in MAC_CLASSES}
    return {kind: macs * core.vector_pipes for kind, macs in MACS_OF.items() if kind in used}
