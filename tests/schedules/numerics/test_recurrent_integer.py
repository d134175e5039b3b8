# SPDX-License-Identifier: Apache-2.0
"""The loops of an integer LSTM against its definition in numpy; the definition is checked against LiteRT elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from schedules.composites.attributes import encoded
from schedules.composites.workload import Operand, Workload
from schedules.numerics.recurrent_integer import (
    Constants,
    IntegerLstm,
    Scale,
    integer_lstm_routine,
    scaled,
    sequence_of_integers,
)
from tests.schedules.programs import Array, run_on_host

LSTM = IntegerLstm(
    data=(Scale(1400000001, -3), Scale(1700000000, 1), Scale(1073741824, 0), Scale(1900000000, -1)),
    products=(Scale(1518500250, -2), Scale(2000000011, -3), Scale(1100000003, -2), Scale(1300000001, 1)),
    hidden=Scale(1132462080, -22),
    hidden_zero=-9,
    output_zero=-9,
    cell_bits=-11,
)


class Case:
    """A layer with random data, and the result of its definition."""

    def __init__(self, lstm: IntegerLstm, steps: int, batch: int, hidden: int, outputs: int = 0) -> None:
        rng = np.random.default_rng(7)
        outputs = outputs or hidden
        self.lstm, self.sizes, self.outputs = lstm, (steps, batch, hidden), outputs
        width = len(lstm.gates) * hidden

        def drawn(low: int, high: int, dtype: type, *shape: int) -> Array:
            return rng.integers(low, high, shape).astype(dtype)

        argument = np.arange(-(2**15), 2**15) / 2**12
        tables = [1 / (1 + np.exp(-argument)), np.tanh(argument), np.tanh(argument * 2.0)]
        self.held = Constants(
            drawn(-128, 128, np.int8, outputs, width),
            drawn(-9999, 9999, np.int32, width),
            np.clip(np.round(np.stack(tables) * 2**15), -(2**15), 2**15 - 1).astype(np.int16),
        )
        if lstm.peepholes:
            peepholes = drawn(-(2**15), 2**15, np.int16, 3, hidden)
            self.held = replace(self.held, peepholes=peepholes)
        if lstm.projection is not None:
            self.held = replace(
                self.held,
                projection=drawn(-128, 128, np.int8, hidden, outputs),
                projection_offset=drawn(-999, 999, np.int32, outputs),
            )
        x = drawn(-(2**14), 2**14, np.int32, steps, batch, width)
        x.flat[0], x.flat[-1] = 2**31 - 1, -(2**31)
        states = (
            drawn(-128, 128, np.int16, batch, outputs),
            drawn(-(2**15), 2**15, np.int16, batch, hidden),
        )
        self.inputs, self.arguments = [x, *states], [x, *self.held.arrays, *states]
        self.constants = self.held.arrays
        self.expected = sequence_of_integers(lstm, x, self.held, states)
        kinds = [
            ("input", 0),
            *(("constant", k) for k in range(len(self.constants))),
            ("input", 1),
            ("input", 2),
        ]
        operands = (
            Operand(array.shape, str(array.dtype), *kind)
            for array, kind in zip(self.arguments, kinds, strict=True)
        )
        attributes = tuple(sorted((name, encoded(value)) for name, value in lstm.attributes.items()))
        shape = self.expected.shape
        self.workload = Workload("arm.lstm_s8", tuple(operands), attributes, (), shape, "int16")


CASES = [
    Case(LSTM, 3, 2, 7),
    Case(replace(LSTM, cell_clip=9000), 2, 1, 9),
    Case(replace(LSTM, peepholes=(Scale(1400000000, -11), Scale(0, 0), Scale(1200000000, -10))), 2, 3, 5),
    Case(
        replace(
            LSTM,
            data=LSTM.data[1:],
            products=LSTM.products[1:],
            projection=Scale(1900000000, -8),
            output_zero=4,
            output_clip=90,
        ),
        3,
        2,
        7,
        5,
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_the_routine_is_the_definition(case: Case):
    func = integer_lstm_routine(case.lstm, case.sizes, case.outputs).func.with_attr("global_symbol", "f")
    assert len(np.unique(case.expected)) > 20
    found = run_on_host(func, case.arguments, case.expected.shape, "int16")
    np.testing.assert_array_equal(found, case.expected)


def test_a_scale_rounds_its_product_half_up_and_its_shift_away_from_zero():
    x = np.array([-6, -5, -3, -1, 1, 3, 5, 6])
    assert scaled(x, Scale(1 << 30, 0)).tolist() == [-3, -2, -1, 0, 1, 2, 3, 3]
    assert scaled(x, Scale(1 << 30, 2)).tolist() == (2 * x).tolist()
    assert scaled(2 * x, Scale(1 << 30, -1)).tolist() == [-3, -3, -2, -1, 1, 2, 3, 3]


@pytest.mark.parametrize("case", CASES)
def test_attributes_hold_a_layer(case: Case):
    attributes = {name: encoded(value) for name, value in case.lstm.attributes.items()}
    assert IntegerLstm.of(attributes) == case.lstm
