# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.composites.attributes import ConvolutionAttributes, encoded, is_false, numbers
from tests.schedules.float_cases import conv2d


def test_a_convolution_has_typed_attributes():
    workload = conv2d(
        (1, 9, 8, 4), 6, (3, 3), strides=(2, 1), dilation=(1, 3), padding=(0, 1, 2, 3), groups=2
    )
    layouts = ("NHWC", "OHWI", "NHWC")
    assert ConvolutionAttributes.of(workload) == ConvolutionAttributes(
        (2, 1), (0, 1, 2, 3), (1, 3), 2, layouts
    )


@pytest.mark.parametrize("value", [(3,), (1, -2, 0, 4), ()])
def test_numbers_read_back_as_they_were(value: tuple[int, ...]):
    assert numbers({"axes": encoded(value)}, "axes") == value


def test_a_float_reads_back_as_the_same():
    value = float(np.float32(0.1))
    assert float(encoded(value)) == value


def test_what_is_not_there_is_not_false():
    assert is_false({"center": encoded(False)}, "center")
    assert not is_false({"center": encoded(True)}, "center")
    assert not is_false({}, "center")
