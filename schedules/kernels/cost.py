# SPDX-License-Identifier: Apache-2.0
"""What straight code of vector instructions costs: the slower of dispatch and vector pipes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from schedules.cores import Core
from schedules.kernels.requantize_tile import INSTRUCTIONS, Form, Requantization

VECTOR_PIPES = 2
"""Vector instructions a cycle (Arm Neoverse N2 and Cortex-A76 software optimization guides, pipes V0 and V1). Cores
of the X and V series have four, the A53 and A55 one of 128 bits; that scales vector code alike."""

TIE = 0.025
"""Estimates closer than this rank nothing: the model leaves out latencies and the order of instructions."""

VECTOR = 16
"""Bytes of a vector register."""


@dataclass(frozen=True)
class Cost:
    """Instructions of a piece of code.

    Attributes:
        instructions: All.
        vector: Those that run on the vector pipes: arithmetic, moves and stores of vector registers, not loads.
    """

    instructions: float = 0.0
    vector: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.instructions + other.instructions, self.vector + other.vector)

    def __mul__(self, count: float) -> "Cost":
        return Cost(self.instructions * count, self.vector * count)

    def cycles(self, core: Core) -> float:
        """With all loads in L1 and no chain of latencies."""
        return max(self.instructions / core.issue_width, self.vector / VECTOR_PIPES)


def arithmetic(instructions: float) -> Cost:
    """Vector arithmetic, and stores, whose data pass a vector pipe (same guides)."""
    return Cost(instructions, instructions)


def scalar(instructions: float) -> Cost:
    """Loads, and everything on general registers."""
    return Cost(instructions, 0.0)


def requantization(outputs: float, form: Form, to: Requantization) -> Cost:
    """`requantize16` of that many outputs, without stores."""
    least, most = (-128, 127) if to.dtype == "int8" else (0, 255)
    clamps = ((to.low > least) + (to.high < most)) / VECTOR
    return arithmetic(outputs * (INSTRUCTIONS[form] + clamps))


Option = TypeVar("Option")


def cheapest(options: Sequence[Option], cost: Callable[[Option], Cost], core: Core) -> Option:
    """The option with the fewest instructions among those whose cycles tie with the lowest; then the first."""
    costs = {option: cost(option) for option in options}
    limit = (1 + TIE) * min(each.cycles(core) for each in costs.values())
    tied = [option for option in options if costs[option].cycles(core) <= limit]
    return min(tied, key=lambda option: costs[option].instructions)
