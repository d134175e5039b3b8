# SPDX-License-Identifier: Apache-2.0
"""The axes of a convolution, cut into steps of some outputs, and which inputs of each step are data and not border."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Span:
    """Equal steps along one axis, each of some outputs, that follow each other.

    Attributes:
        first: Index of the first.
        count: How many.
        outputs: Outputs of each.
        valid: Which of the inputs that each reads are data and not border.
    """

    first: int
    count: int
    outputs: int
    valid: tuple[bool, ...]


@dataclass(frozen=True)
class Axis:
    """One axis of a convolution.

    Attributes:
        size: Inputs.
        kernel: Taps.
        stride: Inputs from an output to the next.
        before: Border before the first input.
        after: Border after the last.
        step: Outputs that are computed together.
    """

    size: int
    kernel: int
    stride: int
    before: int
    after: int
    step: int

    @property
    def outputs(self) -> int:
        """How many there are."""
        return (self.size + self.before + self.after - self.kernel) // self.stride + 1

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All steps; those of one kind that follow each other are one span."""
        found: list[Span] = []
        for index in range(-(-self.outputs // self.step)):
            outputs = min(self.step, self.outputs - index * self.step)
            left = index * self.step * self.stride - self.before
            valid = tuple(0 <= left + i < self.size for i in range((outputs - 1) * self.stride + self.kernel))
            last = found[-1] if found else None
            if last and (last.outputs, last.valid) == (outputs, valid):
                found[-1] = Span(last.first, last.count + 1, outputs, valid)
            else:
                found.append(Span(index, 1, outputs, valid))
        return tuple(found)

    def products(self, span: Span) -> int:
        """Products of one step, over all of its outputs; those with the border are none."""
        return sum(
            span.valid[output * self.stride + tap]
            for output in range(span.outputs)
            for tap in range(self.kernel)
        )
