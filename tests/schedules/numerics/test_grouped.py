# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.numerics.grouped import linear_grouped_routine, packed, unpacked, weights
from tests.schedules.programs import run_on_host


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 31])
def test_bytes_hold_what_was_packed(depth: int):
    integers = np.random.default_rng(depth).integers(-8, 8, (depth, 5)).astype(np.int8)
    held = packed(integers)
    assert (held.dtype, held.shape) == (np.int8, (-(-depth // 2), 5))
    np.testing.assert_array_equal(unpacked(held, depth), integers)


@pytest.mark.parametrize(("depth", "group"), [(1, 4), (9, 4), (31, 8), (32, 32)])
def test_the_routine_is_the_product_of_float_weights(depth: int, group: int):
    rng = np.random.default_rng(depth)
    integers = rng.integers(-8, 8, (depth, 5)).astype(np.int8)
    scales = rng.normal(size=(-(-depth // group), 5)).astype(np.float32)
    x = rng.normal(size=(2, 3, depth)).astype(np.float32)
    by_row = np.repeat(scales, group, 0)[:depth]
    np.testing.assert_array_equal(weights(packed(integers), scales, group, depth), integers * by_row)
    made = linear_grouped_routine(x.shape, integers, scales, group)
    assert dict(made.func.attrs)["group"] == group
    func = made.func.with_attr("global_symbol", "main")
    found = run_on_host(func, [x, *made.constants], (2, 3, 5), "float32")
    magnitude = np.abs(x) @ np.abs(integers * by_row)
    assert (np.abs(found - x @ (integers * by_row)) <= depth * 2.0**-23 * magnitude).all()
