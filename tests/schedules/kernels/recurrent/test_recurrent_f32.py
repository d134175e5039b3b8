# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path

import numpy as np

from arm_ext.board import Board
from schedules.composites.attributes import encoded
from schedules.composites.workload import Operand, Workload
from schedules.cores import CORES
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.recurrent import recurrent_f32 as kernel
from schedules.kernels.recurrent.recurrent_f32 import Params
from schedules.numerics.recurrent import Activation, Cell, sequence
from tests.schedules.kernels.refusals import refusals_of
from tests.schedules.programs import BASELINE, Array, assembly, model_so, run_on_host

CORE = CORES["neoverse-n2"]

SIGMOID, TANH, RELU = (Activation(name) for name in ("sigmoid", "tanh", "relu"))
LSTM = Cell("lstm", (SIGMOID, TANH, TANH))
PEEPING = dataclasses.replace(LSTM, peepholes=True)
AFFINE, SCALED = Activation("affine", (0.1, 0.4)), Activation("scaled_tanh", (0.9, 0.8))
SOFTSIGN, LEAKY = Activation("softsign"), Activation("leaky_relu", (0.01,))
GRU = Cell("gru", (SIGMOID, TANH))
LINEAR_GRU = dataclasses.replace(GRU, linear_before_reset=True)
RNN = Cell("rnn", (TANH,))
HARD = Activation("hard_sigmoid", (0.2, 0.5))


class Case:
    """A layer with random data, and what its definition gives in binary64."""

    bound = 2e-6
    """Of states of about 1: a sum of `hidden` products, activations of 5 eps each, and what states carry of both."""

    def __init__(self, cell: Cell, steps: int, batch: int, hidden: int, *, lengths: bool = False) -> None:
        rng = np.random.default_rng(5)

        def drawn(*shape: int, scale: float = 1.0) -> Array:
            return (rng.normal(size=shape) * scale).astype(np.float32)

        width, late = cell.gates * hidden, cell.linear_before_reset
        x, self.r = drawn(steps, batch, width), drawn(hidden, width, scale=0.5 / hidden**0.5)
        states, bias = [drawn(batch, hidden, scale=0.5) for _ in range(cell.states)], drawn(hidden)
        peepholes = drawn(3 * hidden, scale=0.5) if cell.peepholes else np.zeros(0, np.float32)
        ends = [rng.integers(0, steps + 1, batch).astype(np.int32)] * lengths
        more = [*[bias] * late, *[peepholes] * cell.peepholes]
        self.inputs, self.constants = [x, *states, *ends], [self.r, *more]
        self.arguments = [x, self.r, *states, *more, *ends]
        self.expected = sequence(
            cell,
            x.astype(np.float64),
            self.r.astype(np.float64),
            tuple(state.astype(np.float64) for state in states),
            bias.astype(np.float64) if late else None,
            ends[0] if ends else None,
            peepholes=peepholes.astype(np.float64) if cell.peepholes else None,
        )
        constant = {id(array): index for index, array in enumerate(self.constants)}
        run_time = {id(array): index for index, array in enumerate(self.inputs)}
        operands = [
            Operand(array.shape, str(array.dtype), "constant", constant[id(array)])
            if id(array) in constant
            else Operand(array.shape, str(array.dtype), "input", run_time[id(array)])
            for array in self.arguments
        ]
        attributes = tuple((name, encoded(value)) for name, value in sorted(cell.attributes.items()))
        shape = self.expected.shape
        self.workload = Workload(f"arm.{cell.kind}", tuple(operands), attributes, (), shape, "float32")

    def call(self, params: Params) -> tuple[object, list[Array], tuple[int, ...], str]:
        packed = kernel.pack(self.workload, params, self.constants)
        func = kernel.build(self.workload, params)
        return func, [*self.inputs, *packed], self.expected.shape, "float32"


CASES = [
    Case(LSTM, 1, 1, 1),
    Case(LSTM, 2, 3, 7, lengths=True),
    Case(LSTM, 33, 1, 31),
    Case(dataclasses.replace(LSTM, clip=0.5, reverse=True, activations=(HARD, TANH, RELU)), 2, 1, 9),
    Case(PEEPING, 33, 1, 25),
    Case(dataclasses.replace(PEEPING, coupled=True, clip=0.5, reverse=True), 2, 3, 7, lengths=True),
    Case(dataclasses.replace(LSTM, coupled=True, activations=(SIGMOID, SOFTSIGN, LEAKY)), 2, 1, 9),
    Case(GRU, 2, 3, 31),
    Case(dataclasses.replace(GRU, reverse=True), 33, 1, 8, lengths=True),
    Case(LINEAR_GRU, 33, 3, 9),
    Case(LINEAR_GRU, 1, 1, 64),
    Case(dataclasses.replace(LINEAR_GRU, activations=(HARD, RELU)), 2, 5, 7, lengths=True),
    Case(RNN, 33, 3, 8),
    Case(dataclasses.replace(RNN, activations=(RELU,), clip=0.4), 2, 1, 31),
    Case(dataclasses.replace(RNN, activations=(Activation("thresholded_relu", (0.1,)),)), 2, 1, 31),
    Case(dataclasses.replace(LSTM, activations=(AFFINE, SCALED, Activation("elu", (0.7,)))), 2, 1, 9),
    Case(dataclasses.replace(GRU, activations=(SIGMOID, Activation("softplus"))), 33, 3, 9),
]


def test_errors_are_within_the_stated_bound(tmp_path: Path, board: Board):
    chosen = [(case, kernel.candidates(case.workload, CORE)[-1]) for case in CASES]
    chosen += [(case, kernel.default(case.workload, CORE)) for case in (CASES[1], CASES[9])]
    calls = [
        case.call(dataclasses.replace(params, parallel=bool(i % 2)))
        for i, (case, params) in enumerate(chosen)
    ]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for (case, params), actual in zip(chosen, outputs, strict=True):
        assert np.abs(actual - case.expected).max() <= case.bound, (case.workload, params)


def test_tiles_and_threads_give_the_same_bits():
    case = Case(LSTM, 3, 5, 20)
    values = [
        run_on_host(*case.call(params))
        for params in (Params(1, 16), Params(2, 8), Params(5, 4), Params(2, 4, parallel=True))
    ]
    assert all((value == values[0]).all() for value in values)


def test_the_code_does_not_grow_with_the_steps():
    short, long = (
        assembly(kernel.build(Case(GRU, steps, 1, 20).workload, Params(1, 8)), BASELINE)
        for steps in (30, 300)
    )
    assert abs(len(short.splitlines()) - len(long.splitlines())) < 20


def test_matches_says_what_it_saw():
    assert kernel.matches(CASES[2].workload, CORE) == KernelMatch("float32 LSTM of 33 steps, 1 x 31")


def test_only_several_tiles_are_spread_over_threads():
    assert not kernel.default(Case(LSTM, 100, 1, 64).workload, CORE).parallel
    assert kernel.default(Case(LSTM, 100, 12, 64).workload, CORE).parallel


def test_a_tile_has_no_more_rows_than_the_batch():
    assert {params.rows for params in kernel.candidates(CASES[7].workload, CORE)} == {1, 2, 3}


def test_near_misses_name_limit_and_actual():
    good = CASES[2].workload
    refused = refusals_of(kernel, CORE)

    assert refused(dataclasses.replace(good, composite="arm.linear")) == (
        "arm.lstm, arm.gru, arm.rnn",
        "arm.linear",
    )
    first, *rest = good.operands
    empty = dataclasses.replace(first, shape=(0, *first.shape[1:]))
    assert refused(dataclasses.replace(good, operands=(empty, *rest)))[0] == "1 or more"
    half = dataclasses.replace(first, dtype="float16")
    assert refused(dataclasses.replace(good, operands=(half, *rest))) == ("float32", "float16")
