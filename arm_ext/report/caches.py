# SPDX-License-Identifier: Apache-2.0
"""What caches fetch for the calls of an inference, by the sizes of operands, without running it.

An operand is in a cache if fewer bytes than the cache holds were touched since it was touched last: the distance of
reuse, as in a cache that replaces the least recently used line. The inference before has touched the same operands in
the same order. A call that reads an operand several times is counted once; kernels that fetch a block again and again
have these cycles in their selection cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schedules.cores import Core
from schedules.kernels.common.cost_model import fetch_cycles


@dataclass(frozen=True)
class CallOperands:
    """The operands of a call.

    Attributes:
        weights: Bytes of constants and of the model's inputs, which no other call touches.
        reads: Places of the calls whose results it reads.
        written: Bytes of its results.
    """

    weights: int
    reads: Sequence[int]
    written: int


def operand_cycles(calls: Sequence[CallOperands], core: Core) -> list[float]:
    """Return the cycles in which cache lines are carried to the core for each call, in order of execution."""
    touched = _touched(calls)
    stack: list[tuple[int, int]] = []  # (operand, bytes), the least recently touched first
    cycles: list[float] = []
    for operands in (*touched, *touched):  # the first inference fills the caches
        spent = [(size, _distance(stack, operand, size)) for operand, size in operands]
        from_l2, from_memory = (
            sum(size for size, distance in spent if distance > cache.size) for cache in (core.l1d, core.l2)
        )
        cycles.append(fetch_cycles(from_l2, from_memory))
    return cycles[len(calls) :]


def _distance(stack: list[tuple[int, int]], operand: int, size: int) -> float:
    """Return the bytes that were touched since the operand was, itself included, and move it to the top."""
    between = 0
    for at in reversed(range(len(stack))):
        between += stack[at][1]
        if stack[at][0] == operand:
            del stack[at]
            stack.append((operand, size))
            return max(between, size)
    stack.append((operand, size))
    return float("inf")


def _touched(calls: Sequence[CallOperands]) -> list[list[tuple[int, int]]]:
    """Return (operand, bytes) that each call touches, in order.

    A result is written where the most recent result that is no longer needed was, if it fits there.
    """
    last = {read: index for index, call in enumerate(calls) for read in call.reads}
    free: list[tuple[int, int]] = []
    place: list[int] = []
    touched: list[list[tuple[int, int]]] = []
    for index, call in enumerate(calls):
        fitting = next((at for at in reversed(range(len(free))) if free[at][1] >= call.written), None)
        place.append(-1 - index if fitting is None else free.pop(fitting)[0])
        operands = [(index, call.weights)] if call.weights else []
        operands += [(place[read], calls[read].written) for read in call.reads]
        touched.append([*operands, (place[index], call.written)])
        free += [(place[read], calls[read].written) for read in set(call.reads) if last[read] == index]
    return touched
