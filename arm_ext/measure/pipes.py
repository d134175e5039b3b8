# SPDX-License-Identifier: Apache-2.0
"""Utilisation of a core's vector pipes, which bounds what reordering instructions could gain.

At 100 % no scheduling, unrolling or other use of registers gains: what remains is to need fewer vector instructions.
"""

from collections.abc import Sequence

from arm_ext.measure.classify import MAC_CLASSES, InsnClass, classify
from arm_ext.measure.cycles import BlockCost
from schedules.cores import Core

ON_PIPES = MAC_CLASSES | {InsnClass.VECTOR, InsnClass.VECTOR_STORE}
"""Classes of instructions that occupy a vector pipe: stores do, too; loads have pipes of their own."""


def least_cycles(costs: Sequence[BlockCost], core: Core) -> float:
    """Return the lower bound of cycles for any order of the instructions, from vector pipes and dispatch."""
    instructions = sum(cost.block.instructions for cost in costs)
    cycles = sum(cost.cycles for cost in costs)
    return max(vector_share(costs, core) * cycles, instructions / core.issue_width)


def vector_share(costs: Sequence[BlockCost], core: Core) -> float:
    """Return the number of vector instructions as a share of the vector pipes' capacity in the estimated cycles."""
    return vector_cycles(costs, core) / sum(cost.cycles for cost in costs)


def vector_cycles(costs: Sequence[BlockCost], core: Core) -> float:
    """Return the cycles for which the vector pipes are busy if all of them work in parallel."""
    on_pipes = sum(
        cost.block.count * sum(classify(word) in ON_PIPES for word in cost.block.words) for cost in costs
    )
    return on_pipes / core.vector_pipes
