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


@dataclass(frozen=True)
class Cost:
    """Instruction counts of a piece of code, and its cycles of waiting for L2.

    Attributes:
        instructions: Number of all instructions.
        vector: Number of instructions that run on the vector pipes: arithmetic, moves and stores of vector
            registers, not loads.
        fetching: Cycles in which lines that L1 did not keep come from L2 again.
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
    """Raise the cost of a loop whose accumulators are too few to hide the latency of their instructions.

    Args:
        loop: Cost of the loop if its vector instructions kept the pipes full.
        accumulators: Number of independent chains.
        latency: Cycles from one instruction of a chain to the next.
        core: Core whose vector pipes run it.
    """
    full = latency * core.vector_pipes
    return loop if accumulators >= full else replace(loop, vector=loop.vector * full / accumulators)


def arithmetic(instructions: float) -> Cost:
    """Return the cost of vector arithmetic or stores, which occupy a vector pipe."""
    return Cost(instructions, instructions)


def converting(instructions: float, core: Core) -> Cost:
    """Return the cost of conversions between binary16 and binary32 (FCVTL, FCVTN).

    Cores that execute out of order take two turns of a pipe for each (Arm Cortex-A76 and Neoverse N2 software
    optimization guides, ASIMD FP convert, long and narrow).
    """
    return Cost(instructions, instructions * (1 if core.in_order else 2))


def scalar(instructions: float) -> Cost:
    """Return the cost of loads and of instructions on general registers, which occupy no vector pipe."""
    return Cost(instructions, 0.0)


def waiting(instructions: float, cycles: float, core: Core) -> Cost:
    """Return the cost of instructions for which the vector pipes stall that many cycles.

    One pipe, which the same code fills for twice as long as two, waits for none: by LLVM's model of Cortex-A55, tiles
    of SDOT with 24 accumulators and stack accesses take three quarters of the cycles of tiles with 8 and none.
    """
    return Cost(instructions, cycles * core.vector_pipes if core.vector_pipes > 1 else 0.0)


def reloading(instructions: float, core: Core) -> Cost:
    """Return the cost of loads whose values are used at once, for which in-order cores with one vector pipe stall.

    With them hidden behind that pipe, ResNet-8 would have its residuals added by its kernels on Cortex-A53, and take
    0.6 % more cycles.
    """
    return Cost(instructions, instructions if core.vector_pipes == 1 else 0.0)


def requantization(outputs: float, form: Form, to: Requantization) -> Cost:
    """Return the cost of requantising that many outputs by `requantize16`, without stores."""
    limits = np.iinfo(to.dtype)
    clamps = ((to.low > limits.min) + (to.high < limits.max)) * limits.bits / 8 / VECTOR
    return arithmetic(outputs * (INSTRUCTIONS[form] + clamps))


def again(size: float, times: int, kept: float, core: Core) -> float:
    """Return the cycles of waiting for L2 when data that was read before is no longer in L1.

    All of it is still there if the data read in between takes up to `KEPT` of L1, nothing if it takes `LOST` or more;
    between these bounds the share is interpolated.

    Args:
        size: Bytes that are read again.
        times: How often it is read again.
        kept: Bytes that are read from one time to the next, these included.
        core: Core whose L1 it is.
    """
    lost = min(1.0, max(0.0, (kept / core.l1d.size - KEPT) / (LOST - KEPT)))
    return WAITED_FOR * lost * size * times / L2_BYTES_PER_CYCLE


Option = TypeVar("Option")


def cheapest(options: Sequence[Option], cost: Callable[[Option], Cost], core: Core) -> Option:
    """Return the option with the fewest instructions among those within `TIE` of the lowest cycles; then the first."""
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
    """Return the cheapest option as `cheapest` does, given functions for cycles and instructions."""
    found = {option: cycles(option) for option in options}
    limit = (1 + tie) * min(found.values())
    return min((option for option in options if found[option] <= limit), key=instructions)
