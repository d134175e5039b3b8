# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from relay_passes.layout.form import Flat, Form, LayoutStep, channels_last
from tests.relay_passes.graphs import tensor

FLAT = Flat((4, 3, 5), (1, 2, 0))
FORMS = {
    "nhwc": Form.of((2, 7, 9, 8), ("N", "C", "S", "S")),
    "groups": Form.of((1, 2, 4, 9, 7), ("N", "C", "C", "S", "S")),
    "flat": Form.of((2, 60), ("N", FLAT)),
    "flat and more": Form.of((2, 60, 3), ("N", FLAT, None)),
    "one pixel": Form.of((1, 31, 1, 1), ("N", "C", "S", "S")),
    "as it was": Form.of((2, 31), ("N", "C")),
}


def apply(steps: list[LayoutStep], value: np.ndarray) -> np.ndarray:
    for step in steps:
        value = value.transpose(step.numbers) if step.permute else value.reshape(step.numbers)
    return value


@pytest.mark.parametrize("name", FORMS)
def test_there_and_back(name: str):
    form = FORMS[name]
    value = np.arange(np.prod(form.shape)).reshape(form.shape)
    moved = apply(form.steps_in(), value)
    np.testing.assert_array_equal(moved, form.array(value))
    assert moved.shape == form.physical
    np.testing.assert_array_equal(apply(form.steps_out(), moved), value)
    assert form.is_view == (moved.reshape(-1) == value.reshape(-1)).all()
    assert form.is_trivial == (form.is_view and moved.shape == value.shape)
    assert any(step.permute for step in form.steps_in()) != form.is_view


def test_nhwc():
    form = FORMS["nhwc"]
    assert form.order == (0, 2, 3, 1)
    assert form.position(1) == 3
    assert form.position(-1) == 2
    assert form.steps_in() == [LayoutStep(True, (0, 2, 3, 1))]


def test_flat_orders_elements_inside_an_axis():
    value = np.arange(60)
    expected = value.reshape(4, 3, 5).transpose(1, 2, 0).reshape(-1)
    np.testing.assert_array_equal(Form((60,), (0,), (FLAT,)).array(value), expected)


def test_same_knows_one_order_under_two_descriptions():
    # One flattened axis in the order that a whole axis has: axes of size 1 make no difference.
    assert Form((1, 60), (0, 1), (None, Flat((60, 1), (1, 0)))).same(Form.ordered((1, 60), (0, 1)))
    assert not Form.ordered((4, 3, 5), (1, 2, 0)).same(Form.ordered((4, 3, 5), (0, 1, 2)))
    # The same elements in the same order, in another shape.
    assert not Form.ordered((1, 8, 1), (0, 2, 1)).same(Form.ordered((1, 8, 1), (0, 1, 2)))


def test_an_axis_without_a_role_stays_behind_the_one_before():
    assert channels_last(("N", "C", None, "S")) == (0, 3, 1, 2)
    assert channels_last((None, None)) == (0, 1)


def test_a_step_is_one_call():
    x = tensor("x", 2, 3, 4)
    assert LayoutStep(True, (0, 2, 1)).call(x).op.name == "relax.permute_dims"
    assert LayoutStep(False, (2, 12)).call(x).op.name == "relax.reshape"
