# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest

from schedules.composites.attributes import encoded
from schedules.numerics.recurrent import Activation, Cell, recurrent_routine
from tests.schedules.kernels.recurrent.test_recurrent_f32 import CASES, GRU, LSTM, Case
from tests.schedules.programs import run_on_host


def cell_of(case: Case) -> Cell:
    return Cell.of(case.workload.composite.removeprefix("arm."), dict(case.workload.attributes))


@pytest.mark.parametrize("index", [1, 3, 5, 6, 7, 11, 12, 14, 15, 16])
def test_the_routine_is_the_definition(index: int):
    case, cell = CASES[index], cell_of(CASES[index])
    steps, batch, _ = case.arguments[0].shape
    lengths = case.arguments[-1].dtype == np.int32
    func = recurrent_routine(cell, steps, batch, len(case.r), lengths=lengths).func
    found = run_on_host(func.with_attr("global_symbol", "f"), case.arguments, case.expected.shape, "float32")
    assert np.abs(found - case.expected).max() <= case.bound


@pytest.mark.parametrize("reverse", [False, True])
def test_a_sequence_of_no_steps_gives_zeros_and_leaves_the_states(reverse: bool):
    case = Case(dataclasses.replace(LSTM, reverse=reverse), 2, 3, 7, lengths=True)
    empty = case.arguments[-1] == 0
    assert empty.any()
    for state, given in zip(case.expected[2:], case.arguments[2:4], strict=True):
        np.testing.assert_array_equal(state[empty], given[empty])
    assert not case.expected[:2, empty].any()


def test_attributes_hold_a_cell():
    cell = dataclasses.replace(
        GRU, activations=(Activation("hard_sigmoid", (0.2, 0.5)), Activation("relu")), reverse=True, clip=0.1
    )
    assert Cell.of("gru", {name: encoded(value) for name, value in cell.attributes.items()}) == cell


def test_a_cell_validates_itself():
    with pytest.raises(ValueError, match="a lstm has 3 activations"):
        dataclasses.replace(LSTM, activations=GRU.activations)
    with pytest.raises(ValueError, match="mish is none of sigmoid, tanh"):
        Activation("mish")
