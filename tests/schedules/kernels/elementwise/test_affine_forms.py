# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.kernels.elementwise.affine_forms import BroadcastFunction, of_constant, of_values
from schedules.numerics.qdq.values import every_value
from tests.schedules.kernels.elementwise.test_binary_forms import A, U, Y, per

TIE = per(2.0**-4, 3)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("op", ["add", "subtract", "multiply"])
@pytest.mark.parametrize("x", [A, U], ids=str)
def test_words_equal_the_definition_for_every_value(x, op, first):
    function = BroadcastFunction(op, first, x, Y, (-100, 127))
    numbers = np.random.default_rng(0).normal(size=300).astype(np.float32)
    form = of_constant(function, numbers)
    assert form is not None
    a = every_value(x.dtype).astype(np.int32) << form.lift
    word = a * form.m.astype(np.int32)[:, None] + form.k[:, None]
    np.testing.assert_array_equal(np.clip(word >> form.shift, -100, 127), function.values(numbers))


def test_forms_are_nearly_always_found_and_mostly_with_16_bits():
    rng = np.random.default_rng(0)
    lifts = []
    for _ in range(30):
        x = per(rng.uniform(0.01, 0.1), int(rng.integers(-128, 128)))
        gate = per(rng.uniform(0.8, 1) / 256, -128)
        y = per(x.scale * rng.uniform(0.5, 1), int(rng.integers(-128, 128)))
        form = of_values(BroadcastFunction("multiply", True, x, y, (-128, 127)), gate)
        lifts.append(None if form is None else form.lift)
    assert lifts.count(7) > 15
    assert lifts.count(None) <= 1


def test_ties_have_no_form():
    assert of_values(BroadcastFunction("add", True, TIE, TIE, (-128, 127)), per(2.0**-5, 0)) is None


def test_a_constant_that_is_no_number_has_no_form():
    assert (
        of_constant(BroadcastFunction("multiply", True, A, Y, (-128, 127)), np.array([np.inf], np.float32))
        is None
    )
