# SPDX-License-Identifier: Apache-2.0
"""Division of a convolution's axis into steps of several outputs, with the inputs of each step that are not border."""

from dataclasses import dataclass
from functools import cached_property

from tvm import ir, tirx


@dataclass(frozen=True)
class Span:
    """Consecutive steps along one axis with the same number of outputs and the same relative inputs.

    Attributes:
        first: Index of the first step.
        count: Number of steps.
        outputs: Number of outputs of each step.
        inputs: Indices, relative to the first input of a step, of the inputs that taps read, without those in the
            border.
    """

    first: int
    count: int
    outputs: int
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class SteppedAxis:
    """One axis of a convolution, with the number of outputs per step.

    Attributes:
        size: Number of inputs.
        kernel: Number of taps.
        stride: Distance in inputs between two outputs.
        before: Number of border elements before the first input.
        after: Number of border elements after the last input.
        step: Number of outputs that are computed together.
        dilation: Distance in inputs between two taps.
        late: Whether the code of a step, of one output, computes at run time which of its inputs are in the border.
    """

    size: int
    kernel: int
    stride: int
    before: int
    after: int
    step: int
    dilation: int = 1
    late: bool = False

    @property
    def outputs(self) -> int:
        """Number of outputs along the axis."""
        return (self.size + self.before + self.after - self.reach) // self.stride + 1

    @property
    def reach(self) -> int:
        """Extent of the dilated kernel, in inputs."""
        return (self.kernel - 1) * self.dilation + 1

    def met(self, outputs: int) -> list[int]:
        """Return the indices, relative to the first, of the inputs that the taps of `outputs` outputs read."""
        return sorted(
            {o * self.stride + tap * self.dilation for o in range(outputs) for tap in range(self.kernel)}
        )

    @property
    def overlaps(self) -> bool:
        """Whether the last step may overlap the one before it, instead of having fewer outputs."""
        return not (self.before or self.after) and self.outputs >= self.step

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All steps; consecutive steps with equal outputs and inputs are one span."""
        steps = -(-self.outputs // self.step)
        if self.overlaps or self.late:
            return (Span(0, steps, self.step, tuple(self.met(self.step))),)
        found: list[Span] = []
        for index in range(steps):
            outputs = min(self.step, self.outputs - index * self.step)
            left = index * self.step * self.stride - self.before
            inputs = tuple(i for i in self.met(outputs) if 0 <= left + i < self.size)
            last = found[-1] if found else None
            if last and (last.outputs, last.inputs) == (outputs, inputs):
                found[-1] = Span(last.first, last.count + 1, outputs, inputs)
            else:
                found.append(Span(index, 1, outputs, inputs))
        return tuple(found)

    def start(self, index: ir.Expr) -> ir.Expr:
        """Return the index of the first output of step `index`."""
        first = index * self.step
        if self.overlaps and self.outputs % self.step:
            return tirx.min(first, tirx.IntImm("int64", self.outputs - self.step))
        return first

    def taps(self, index: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Return (first, end) of the taps by which output `index` reads data and not border."""
        first = index * self.stride - self.before
        start = tirx.max(tirx.IntImm("int64", 0), tirx.floordiv(self.dilation - 1 - first, self.dilation))
        stop = tirx.floordiv(self.size + self.dilation - 1 - first, self.dilation)
        return start, tirx.min(tirx.IntImm("int64", self.kernel), stop)

    def products(self, span: Span) -> int:
        """Count the multiplications of one step of a span, without those of border inputs."""
        return sum(
            output * self.stride + tap * self.dilation in span.inputs
            for output in range(span.outputs)
            for tap in range(self.kernel)
        )
