# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import tirx

from schedules.kernels.depthwise.axis_steps import Span, SteppedAxis


def test_steps_of_one_kind_are_one_span():
    assert SteppedAxis(size=7, kernel=3, stride=1, before=1, after=1, step=2).spans == (
        Span(0, 1, 2, (1, 2, 3)),
        Span(1, 2, 2, (0, 1, 2, 3)),
        Span(3, 1, 1, (0, 1)),
    )


@pytest.mark.parametrize("step", [1, 2, 5])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "before", "after", "dilation"),
    [(9, 3, 2, 1, 0, 1), (2, 5, 1, 2, 2, 1), (3, 3, 1, 5, 5, 1), (9, 3, 1, 2, 2, 2), (7, 2, 2, 3, 0, 5)],
)
def test_spans_hold_every_output_and_product(
    size: int, kernel: int, stride: int, before: int, after: int, dilation: int, step: int
):
    axis = SteppedAxis(size, kernel, stride, before, after, step, dilation)
    ones = np.pad(np.ones(size), (before, after))
    reach = (kernel - 1) * dilation + 1
    expected = [
        ones[first : first + reach : dilation].sum()
        for first in range(0, size + before + after - reach + 1, stride)
    ]
    assert axis.outputs == len(expected)
    assert sum(span.count * span.outputs for span in axis.spans) == len(expected)
    assert sum(span.count * axis.products(span) for span in axis.spans) == sum(expected)


def test_without_a_border_the_last_step_overlaps():
    axis = SteppedAxis(size=9, kernel=3, stride=1, before=0, after=0, step=3)
    assert axis.spans == (Span(0, 3, 3, (0, 1, 2, 3, 4)),)
    starts = [int(axis.start(tirx.IntImm("int64", index))) for index in range(3)]
    assert starts == [0, 3, 4]


@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_late_taps_are_those_that_meet_data(stride: int, dilation: int):
    axis = SteppedAxis(7, 4, stride, 5, 6, 1, dilation, late=True)
    assert [(span.first, span.count) for span in axis.spans] == [(0, axis.outputs)]
    for output in range(axis.outputs):
        bounds = axis.taps(tirx.IntImm("int64", output))
        start, stop = (int(bound) for bound in bounds)
        met = [tap for tap in range(4) if 0 <= output * stride - 5 + tap * dilation < 7]
        assert list(range(start, max(start, stop))) == met
