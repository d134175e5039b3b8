# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.kernels.depthwise.geometry import Depthwise, Field, field_of

LANES = 8
WALKED = [
    Depthwise((2, 5, 7, 9), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    Depthwise((1, 9, 8, 8), (3, 2), (2, 3), (2, 1), (0, 0, 0, 0)),
    Depthwise((1, 4, 11, 3), (3, 3), (2, 1), (1, 2), (1, 2, 1, 2)),
    Depthwise((1, 1, 13, 4), (1, 5), (1, 1), (1, 1), (0, 2, 0, 2), 2),
]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("of", WALKED, ids=str)
def test_offsets_and_lanes_are_the_convolution(of: Depthwise, transposed: bool):
    """Sums over the axes, at the offsets that the field gives, are those of the definition."""
    rng = np.random.default_rng(2)
    field = field_of(of, LANES, transposed=transposed)
    assert isinstance(field, Field)
    outputs = of.data[3] * of.multiplier
    x, w = rng.integers(-9, 9, of.data), rng.integers(-9, 9, (outputs, *of.kernel))
    top, left, bottom, right = of.pads
    wide = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0))).repeat(of.multiplier, axis=3)
    assert wide.shape[:3] == field.shape[:3]
    rows, columns = (axis.outputs for axis in of.axes)
    expected = np.zeros((of.data[0], rows, columns, outputs), int)
    for i, j in np.ndindex(*of.kernel):
        seen = wide[:, i * of.dilation[0] :: of.strides[0], j * of.dilation[1] :: of.strides[1]]
        expected += seen[:, :rows, :columns] * w[:, i, j]
    weights = w.transpose(0, 2, 1) if transposed else w
    found = np.full(expected.size, 99)
    flat, lane_outputs = wide.ravel(), field.lanes_of(LANES)
    places = np.ndindex(of.data[0], field.down.outputs, field.across.outputs, len(lane_outputs))
    for image, y, z, block in places:
        start = field.blocks(LANES)[block] + np.arange(LANES)
        total = 0
        for i, j in np.ndindex(field.down.kernel, field.across.kernel):
            line = y * field.down.stride + i * field.down.dilation
            column = z * field.across.stride + j * field.across.dilation
            at = np.dot(field.source, (image, line, column))
            total = total + flat[at + start] * weights[lane_outputs[block], i, j]
        found[np.dot(field.target, (image, y, z)) + start] = total
    np.testing.assert_array_equal(found, expected.ravel())


def test_borders_of_small_kernels_may_be_left_out():
    field = field_of(WALKED[0], LANES, border=3)
    assert isinstance(field, Field)
    assert (field.padded, field.copied, field.down.before) == (False, 0, 1)
    copied = field_of(WALKED[0], LANES)
    assert isinstance(copied, Field)
    assert (copied.padded, copied.copied, copied.down.before) == (True, 2 * 7 * 9 * 9, 0)


def test_few_channels_are_rows_of_one_pixel():
    field = field_of(WALKED[2], LANES)
    assert isinstance(field, Field)
    assert (field.channels, field.across.outputs, field.lanes_of(LANES)[0].tolist()) == (
        33,
        1,
        [0, 1, 2, 0, 1, 2, 0, 1],
    )


def test_few_channels_of_a_stride_are_not_walked():
    of = Depthwise((1, 9, 9, 3), (3, 3), (1, 2), (1, 1), (0, 0, 0, 0))
    assert field_of(of, LANES) == ("too few channels", "8 or more, or stride 1", "3, stride 2")
