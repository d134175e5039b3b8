# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.common.scalars import bounds, is_number, uniform_value
from tests.relay_passes.graphs import tensor


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.full((1, 7, 1), 3, "int32"), 3.0),
        (np.array([1, 1, 2], "float32"), None),
        (np.zeros(0, "float32"), None),
        (np.float32("nan"), None),
    ],
)
def test_the_one_number_of_a_constant(value: np.ndarray, expected: float | None) -> None:
    assert uniform_value(relax.const(value)) == expected


def test_an_input_is_no_number() -> None:
    assert uniform_value(tensor("x", 7)) is None
    assert not is_number(tensor("x", 7), 0.0)


def test_a_number_is_met_up_to_the_rounding_of_exporters() -> None:
    root = np.float32(1) / np.sqrt(np.float32(2))
    assert is_number(relax.const(np.nextafter(root, np.float32(1))), math.sqrt(0.5))
    assert not is_number(relax.const(np.float32(0.70711)), math.sqrt(0.5))


def test_bounds_of_clip_and_relu() -> None:
    x = tensor("x", 7)
    assert bounds(op.clip(x, -1.0, 6.0)) == (-1.0, 6.0)
    assert bounds(op.nn.relu(x)) == (0.0, math.inf)
