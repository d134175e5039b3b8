# SPDX-License-Identifier: Apache-2.0
"""Cost estimates for rewrites of matrix products: kernel cycles, and the memory traffic of intermediate values."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import relax

from schedules.composites.one_axis import widened
from schedules.composites.vocabulary import BIAS, LINEAR, VOCABULARY
from schedules.composites.workload import Operand, Step, Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.cost_model import MEMORY_BYTES_PER_CYCLE
from schedules.kernels.epilogues import residual_s8
from schedules.lowering.parse import Routines, parse
from schedules.select import Choice, Rejected, select

FLOAT = 4
"""Bytes of a float32."""

SPLIT_INSTRUCTIONS = 5.0
"""Instructions per element copied by a split along the last axis; counts are 4.3 to 6 for parts of 9 to 192 columns."""

SPLIT_CALL = 800.0
"""Cycles of the calls and allocations around a split: 2.8 k instructions more are counted than for one call less."""


@dataclass(frozen=True)
class RewriteCosts:
    """Estimates, in cycles, of the cost of a rewrite on one core.

    Attributes:
        core: Core for which cycles are estimated.
        select: Selects a kernel, as `schedules.select.select`.
    """

    core: Core
    select: Callable[[Workload, Core], Choice | Rejected] = select

    @property
    def cache(self) -> int:
        """Size of L2 in bytes; larger values are assumed to be in memory when they are read again."""
        return self.core.l2.size

    def linear(self, data: Sequence[int], columns: int, *, bias: bool) -> float | None:
        """Estimate a float32 linear layer with constant weights, reads of its data included; None without a kernel.

        Args:
            data: Shape of the data.
            columns: Number of columns of the weights.
            bias: Whether the layer has a bias.
        """
        depth, shape = data[-1], (*data[:-1], columns)
        operands = (
            Operand(tuple(data), "float32", "input", 0),
            Operand((depth, columns), "float32", "constant", 0),
        )
        steps = (Step(BIAS.name, Operand((columns,), "float32", "constant", 1)),) if bias else ()
        choice = self.select(Workload(LINEAR.name, operands, (), steps, shape, "float32"), self.core)
        return choice.estimate + self.moved(data) if isinstance(choice, Choice) else None

    def dearer(self, composite: relax.Function, routines: Routines) -> tuple[str, str, str] | None:
        """Return why a separate kernel for an integer product's residual addition is cheaper; None if fusing it is.

        Args:
            composite: The composite, whose last step adds the residual.
            routines: Routines that the composite calls by call_tir.

        Returns:
            Reason, limit and actual value: the estimates of two kernels, and of one.
        """
        spec = next(spec for spec in VOCABULARY if spec.name == str(composite.attrs["Composite"]))
        parsed = parse(composite, spec, routines)
        if isinstance(parsed, Diagnostic):
            return parsed.reason, parsed.limit, parsed.actual
        whole = widened(parsed).workload
        apart = residual_s8.separate(whole)
        both, *each = (self.select(workload, self.core) for workload in (whole, *(apart or ())))
        if not isinstance(both, Choice):
            first = both.rejections[0]
            return f"no kernel adds it: {first.reason}", first.limit, first.actual
        cycles = sum(choice.estimate if isinstance(choice, Choice) else math.inf for choice in each)
        if both.estimate <= cycles:
            return None
        reason = "with it the kernel would spill, or wait: estimated cycles"
        return reason, f"at most {cycles:.0f}, as of two kernels", f"{both.estimate:.0f}"

    def split(self, shape: Sequence[int]) -> float:
        """Estimate splitting a float32 value along its last axis: the copy, and the traffic between L2 and memory."""
        elements = math.prod(shape)
        copied = elements * SPLIT_INSTRUCTIONS / self.core.issue_width
        return SPLIT_CALL + copied + 2 * self.moved(shape)

    def moved(self, shape: Sequence[int]) -> float:
        """Estimate moving a float32 value once between L2 and memory; 0.0 if it fits L2."""
        size = math.prod(shape) * FLOAT
        return size / MEMORY_BYTES_PER_CYCLE if size > self.cache else 0.0
