# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.kernels.axes import Axis, Span


def test_steps_of_one_kind_are_one_span():
    assert Axis(size=7, kernel=3, stride=1, before=1, after=1, step=2).spans == (
        Span(0, 1, 2, (False, True, True, True)),
        Span(1, 2, 2, (True, True, True, True)),
        Span(3, 1, 1, (True, True, False)),
    )


@pytest.mark.parametrize("step", [1, 2, 5])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "before", "after"), [(9, 3, 2, 1, 0), (2, 5, 1, 2, 2), (3, 3, 1, 5, 5)]
)
def test_spans_hold_every_output_and_product(
    size: int, kernel: int, stride: int, before: int, after: int, step: int
):
    axis = Axis(size, kernel, stride, before, after, step)
    ones = np.pad(np.ones(size), (before, after))
    expected = [
        ones[first : first + kernel].sum() for first in range(0, size + before + after - kernel + 1, stride)
    ]
    assert axis.outputs == len(expected)
    assert sum(span.count * span.outputs for span in axis.spans) == len(expected)
    assert sum(span.count * axis.products(span) for span in axis.spans) == sum(expected)
