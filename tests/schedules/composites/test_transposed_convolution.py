# SPDX-License-Identifier: Apache-2.0
import pytest

from schedules.composites.transposed_convolution import Geometry, SpatialAxis
from tests.schedules.transposed_cases import GEOMETRIES, GROUPED, SINGLE, SPARSE

# Strides and dilations with a common divisor.
DILATED = Geometry((1, 4, 5, 1), (1, 3, 3, 1), (2, 4), (1, 0, 1, 2), (0, 1), (4, 6), 1)
ALL = [*GEOMETRIES.values(), GROUPED, SINGLE, SPARSE, DILATED]


@pytest.mark.parametrize("geometry", ALL, ids=str)
def test_phases_hold_each_output_once_with_the_taps_that_meet_an_input(geometry: Geometry):
    for axis in geometry.axes:
        before, after = axis.border()
        met = {}
        for phase in axis.phases():
            for index in range(phase.count):
                inputs = [phase.start + index + tap * phase.step for tap in range(len(phase.taps))]
                output = phase.first + index * axis.stride
                assert output not in met
                met[output] = set(zip(phase.taps, inputs, strict=True))
                assert all(-before <= i < axis.size + after for i in inputs)
        for output in range(axis.outputs):
            # Where an input lies among the outputs, without the padding.
            at = {
                (tap, (output + axis.before - tap * axis.dilation) / axis.stride)
                for tap in range(axis.kernel)
            }
            assert met.pop(output) == {(tap, i) for tap, i in at if i == int(i)}
        assert not met


def test_the_border_is_no_wider_than_needed():
    # 4 taps, stride 2, 1 left out: outputs 0 and 1 meet input -1 and 0, 0 and 1.
    assert SpatialAxis(size=4, kernel=4, stride=2, dilation=1, before=1, outputs=8).border() == (1, 1)
    assert SpatialAxis(size=4, kernel=2, stride=2, dilation=1, before=0, outputs=8).border() == (0, 0)


def test_outputs_that_meet_no_tap_have_none():
    assert [phase.taps for phase in SPARSE.axes[0].phases()] == [(0,), ()]


def test_attributes_read_back():
    attributes = {name: str(value) for name, value in GROUPED.attributes.items()}
    assert Geometry.read(GROUPED.data, GROUPED.weights, attributes) == GROUPED
