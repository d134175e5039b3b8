# SPDX-License-Identifier: Apache-2.0
"""Cost model of straight-line vector code: the slower of instruction dispatch and vector pipes, plus cache misses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from schedules.cores import Core
from schedules.intrinsics.registers import VECTOR
from schedules.kernels.epilogues.requantize import INSTRUCTIONS, Form, Requantization

TIE = 0.025
"""Relative difference of two estimates below which they count as equal: the model leaves out latencies and the order of
instructions."""

LOOP_OVERHEAD = 4
"""Instructions that advance and close one loop iteration: two pointers, the count, the branch."""

WAITED_FOR = 0.5
"""Share of the time that loads wait for L2 which prefetching does not hide. Assumed: other ways to divide a product are
taken only where they gain even if half of it is hidden."""

KEPT, LOST = 0.6, 1.1
"""Shares of L1: a block of weights up to `KEPT` stays there while it is used, and of one of `LOST` or more nothing
does. Of blocks of 0.59, 0.67, 0.81, 0.86, 0.95 and 1.2 an emulated cache (least recently used, as large as Neoverse
N2's) fetched 3, 18, 30, 59, 55 and 100 % again."""

L2_BYTES_PER_CYCLE = 32.0
"""Bytes per cycle that a core reads from L2: half a line. Assumed, not measured."""

MEMORY_BYTES_PER_CYCLE = 8.0
"""Bytes per cycle that one core reads from beyond L2. Assumed: some 20 GB/s at 2.5 GHz."""


def fetch_cycles(from_l2: float, from_memory: float) -> float:
    """Return the cycles in which cache lines are carried to a core, as if it did not compute meanwhile.

    Args:
        from_l2: Bytes that L1 fetches, from L2 or beyond.
        from_memory: Bytes among these that L2 fetches.
    """
    return from_l2 / L2_BYTES_PER_CYCLE + from_memory / MEMORY_BYTES_PER_CYCLE


@dataclass(frozen=True)
class Cost:
    """Instruction counts of a piece of code, and its cycles of waiting for L2.

    Attributes:
        instructions: Number of all instructions.
        vector: Number of instructions that run on the vector pipes: arithmetic, moves and stores of vector
            registers, not loads.
        fetching: Cycles of waiting for cache lines that L1 evicted and that are read from L2 again.
    """

    instructions: float = 0.0
    vector: float = 0.0
    fetching: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.instructions + other.instructions,
            self.vector + other.vector,
            self.fetching + other.fetching,
        )

    def __mul__(self, count: float) -> "Cost":
        return Cost(self.instructions * count, self.vector * count, self.fetching * count)

    def cycles(self, core: Core) -> float:
        """Return the cycles on a core, without latencies and with all other loads in L1."""
        return max(self.instructions / core.issue_width, self.vector / core.vector_pipes) + self.fetching


def chained(loop: Cost, accumulators: int, latency: int, core: Core) -> Cost:
    """Return the cost of a loop, raised if its accumulators are too few to hide the latency of its instructions.

    Args:
        loop: Cost of the loop if its vector instructions kept the pipes full.
        accumulators: Number of independent dependency chains.
        latency: Cycles between two dependent instructions of a chain.
        core: Core whose vector pipes run it.
    """
    full = latency * core.vector_pipes
    return loop if accumulators >= full else replace(loop, vector=loop.vector * full / accumulators)


def arithmetic(instructions: float) -> Cost:
    """Return the cost of vector arithmetic or stores, which occupy a vector pipe."""
    return Cost(instructions, instructions)


def converting(instructions: float, core: Core) -> Cost:
    """Return the cost of conversions between binary16 and binary32 (FCVTL, FCVTN).

    On out-of-order cores each occupies a pipe for two cycles (Arm Cortex-A76 and Neoverse N2 software optimization
    guides, ASIMD FP convert, long and narrow).
    """
    return Cost(instructions, instructions * (1 if core.in_order else 2))


def scalar(instructions: float) -> Cost:
    """Return the cost of loads and of instructions on general registers, which occupy no vector pipe."""
    return Cost(instructions, 0.0)


def waiting(instructions: float, cycles: float, core: Core) -> Cost:
    """Return the cost of instructions for which the vector pipes stall `cycles` cycles; no stall with a single pipe.

    A single pipe is busy twice as long as two pipes, which hides the wait: by LLVM's model of Cortex-A55, SDOT tiles
    with 24 accumulators and stack accesses take three quarters of the cycles of tiles with 8 and no stack accesses.
    """
    return Cost(instructions, cycles * core.vector_pipes if core.vector_pipes > 1 else 0.0)


def reloading(instructions: float, core: Core) -> Cost:
    """Return the cost of loads whose values are used immediately; cores with one vector pipe stall for them.

    Without the stalls in the model, the residual additions of ResNet-8 would be fused into its kernels on Cortex-A53,
    which takes 0.6 % more cycles.
    """
    return Cost(instructions, instructions if core.vector_pipes == 1 else 0.0)


def requantization(outputs: float, form: Form, to: Requantization) -> Cost:
    """Return the cost of requantising `outputs` outputs by `requantize16`, without stores."""
    limits = np.iinfo(to.dtype)
    clamps = ((to.low > limits.min) + (to.high < limits.max)) * limits.bits / 8 / VECTOR
    return arithmetic(outputs * (INSTRUCTIONS[form] + clamps))


def rereading_cycles(size: float, times: int, kept: float, core: Core) -> float:
    """Return the cycles of waiting when data is read again that is no longer in L1, or not even in L2.

    All of it is still in a cache if the bytes `kept` are at most `KEPT` of the cache, none of it if they are at least
    `LOST`; in between, the share is interpolated.

    Args:
        size: Bytes that are read again.
        times: How often they are read again.
        kept: Bytes that are read between two reads of the same byte, the data itself included.
        core: Core whose caches are modelled.
    """
    again = size * times
    return WAITED_FOR * fetch_cycles(again * _lost(kept, core.l1d.size), again * _lost(kept, core.l2.size))


def _lost(kept: float, cache: int) -> float:
    return min(1.0, max(0.0, (kept / cache - KEPT) / (LOST - KEPT)))


Option = TypeVar("Option")


def cheapest(options: Sequence[Option], cost: Callable[[Option], Cost], core: Core) -> Option:
    """Return, of the options within `TIE` of the minimum cycles, the (first) one with the fewest instructions."""
    costs = {option: cost(option) for option in options}
    return cheapest_by(
        options, lambda option: costs[option].cycles(core), lambda option: costs[option].instructions, TIE
    )


def cheapest_by(
    options: Sequence[Option],
    cycles: Callable[[Option], float],
    instructions: Callable[[Option], float],
    tie: float,
) -> Option:
    """Return the cheapest option as in `cheapest`, by given functions for cycles and instructions."""
    found = {option: cycles(option) for option in options}
    limit = (1 + tie) * min(found.values())
    return min((option for option in options if found[option] <= limit), key=instructions)
