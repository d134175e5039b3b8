# SPDX-License-Identifier: Apache-2.0
"""Parsing of sums of products: both layouts, borders, bounds of accumulators, and averages."""

import math

import numpy as np
import pytest

from arm_ext.ethosu.ops.common.operators import Operator, channels_last
from arm_ext.ethosu.ops.common.sums import SumAttributes
from arm_ext.ethosu.partition.read import read
from tests.arm_ext.ethosu.ops.integer_cases import Build, conv3d
from tests.arm_ext.ethosu.ops.one_operator import SCALE, ZERO, weights
from tests.arm_ext.ethosu.ops.operator_rows import averaged, binary, unary, weighted
from tests.fuzz.npu import integer_graph


def the_sum(build: Build) -> Operator:
    """Return the only operator of a model with requantised sums."""
    (found,) = [
        op for op in read(integer_graph(build())[0]).operators if isinstance(op.attributes, SumAttributes)
    ]
    return found


def test_a_convolution_knows_its_border_and_a_bound_of_its_sums():
    conv = the_sum(weighted("Conv", (1, 3, 5, 4), (7, 3, 3, 3), pads=[1, 0, 2, 1], strides=[2, 1]))
    given = conv.attributes
    assert (conv.kind, given.window.padding, given.window.strides) == ("conv2d", (1, 0, 2, 1), (2, 1))
    assert (given.input_zero_point, given.groups, given.channels_first) == (ZERO, 1, False)
    taps = np.abs(weights((7, 3, 3, 3)).astype(int)).sum((1, 2, 3)).max()
    bound = taps * (127 - ZERO) + np.abs(given.requantization.bias).max()
    assert given.requantization.magnitude == bound
    assert conv.macs == math.prod(conv.output.shape) * 27


@pytest.mark.parametrize(
    ("groups", "out", "kind"), [(1, 4, "conv2d"), (2, 4, "conv2d"), (4, 4, "depthwise_conv2d")]
)
def test_depthwise_is_a_group_for_each_channel(groups: int, out: int, kind: str):
    conv = the_sum(weighted("Conv", (1, 4, 5, 5), (out, 4 // groups, 3, 3), group=groups))
    assert (conv.kind, conv.attributes.groups) == (kind, groups)


def test_a_volume_has_its_channels_in_front_and_its_weights_last():
    conv = the_sum(conv3d(2, 3, 3, pads=[1, 0, 1, 0, 1, 2], strides=[1, 2, 1]))
    given = conv.attributes
    assert (conv.kind, given.channels_first, given.window.padding) == ("conv3d", True, (1, 0, 1, 0, 1, 2))
    np.testing.assert_array_equal(given.weight, np.moveaxis(weights((4, 6, 2, 3, 3)), 1, -1))
    # One bias per channel, in whichever axis the graph has the channels.
    assert given.requantization.bias.shape in ((1,), (4,))
    last = channels_last(conv)
    assert last.inputs[0].shape == (1, 3, 7, 8, 6)
    assert last.output.shape[-1] == 4
    assert not last.attributes.channels_first


def test_an_average_that_counts_its_border_is_no_pool():
    assert the_sum(averaged(SCALE)).kind == "average_pool2d"
    counted = the_sum(averaged(SCALE, count_include_pad=1))
    assert counted.kind == "depthwise_conv2d"
    assert counted.attributes.requantization.multiplier.size == 1


def test_an_average_in_another_scale_has_a_multiplier_a_position():
    average = channels_last(the_sum(averaged(0.05)))
    multiplier = average.attributes.requantization.multiplier
    assert average.kind == "depthwise_conv2d"
    assert multiplier.shape == (1, 7, 6, 1)
    # Of nine taps, six are inside the image at an edge, and four in a corner.
    assert len(np.unique(multiplier)) == 3


def test_sums_over_axes_and_products_are_bounded():
    total = the_sum(unary("ReduceSum", 2, 7, 9, numbers=([1],)))
    assert (total.kind, total.attributes.axes) == ("reduce_sum", (1,))
    assert total.attributes.requantization.magnitude == 7 * 128 + abs(7 * ZERO)
    product = the_sum(binary("MatMul", (3, 5, 7), (3, 7, 4)))
    assert (product.attributes.a_zero_point, product.attributes.b_zero_point) == (ZERO, 3)
    assert product.attributes.requantization.magnitude == 7 * (127 - ZERO) * (128 + 3)
