# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.attributes import encoded
from schedules.composites.workload import Operand, Workload
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.recurrent import recurrent_s8 as kernel
from schedules.kernels.recurrent.recurrent_s8 import Params
from schedules.numerics.recurrent import Cell
from schedules.numerics.recurrent_dynamic import Rounding, recurrent_dynamic_routine, sequence_dynamic
from tests.schedules.kernels.recurrent.test_recurrent_f32 import GRU, HARD, LINEAR_GRU, LSTM, RELU, RNN, TANH
from tests.schedules.programs import BASELINE, Array, assembly, loops, model_so, run_on_host

CORE = CORES["neoverse-n2"]
DOTPROD = {**BASELINE, "mattr": ["+dotprod"]}


class Case:
    """A layer with random data, and the result of its definition in float32."""

    exact = 4e-6
    """Error bound of the first step for states of about 1: rounding of activations and of the last sums."""

    bound = 0.02
    """Error bound of later steps: an h near a tie may round to the next integer, a step of at most 1 / 100."""

    def __init__(
        self,
        cell: Cell,
        steps: int,
        batch: int,
        hidden: int,
        *,
        rounding: Rounding = "uint8",
        nine_bits: bool = False,
        lengths: bool = False,
    ) -> None:
        rng = np.random.default_rng(5)

        def drawn(*shape: int, scale: float = 1.0) -> Array:
            return (rng.normal(size=shape) * scale).astype(np.float32)

        width, late = cell.gates * hidden, cell.linear_before_reset
        x = drawn(steps, batch, width)
        r = rng.integers(-128, 128, (hidden, width)) + (rng.integers(-127, 129, width) if nine_bits else 0)
        self.r = r.astype(np.int16 if nine_bits else np.int8)
        scale = (rng.uniform(0.5, 1.0, width) / 128 / hidden**0.5).astype(np.float32)
        states, bias = [drawn(batch, hidden, scale=0.5) for _ in range(cell.states)], drawn(hidden)
        ends = [rng.integers(0, steps + 1, batch).astype(np.int32)] * lengths
        self.inputs, self.constants = [x, *states, *ends], [self.r, scale, *[bias] * late]
        self.arguments = [x, self.r, scale, *states, *[bias] * late, *ends]
        self.cell, self.rounding = cell, rounding
        self.expected = sequence_dynamic(
            cell,
            x,
            self.r,
            scale,
            tuple(states),
            rounding,
            bias if late else None,
            ends[0] if ends else None,
        )
        held = {
            id(array): (kind, index)
            for kind, arrays in (("constant", self.constants), ("input", self.inputs))
            for index, array in enumerate(arrays)
        }
        operands = [Operand(array.shape, str(array.dtype), *held[id(array)]) for array in self.arguments]
        attributes = {**cell.attributes, "rounding": rounding}
        self.workload = Workload(
            f"arm.{cell.kind}_dynamic",
            tuple(operands),
            tuple((name, encoded(value)) for name, value in sorted(attributes.items())),
            (),
            self.expected.shape,
            "float32",
        )

    def call(self, params: Params) -> tuple[object, list[Array], tuple[int, ...], str]:
        packed = kernel.pack(self.workload, params, self.constants)
        func = kernel.build(self.workload, params)
        return func, [*self.inputs, *packed], self.expected.shape, "float32"

    def check(self, actual: Array, message: str) -> None:
        steps, away = self.inputs[0].shape[0], np.abs(actual - self.expected)
        first = steps - 1 if self.cell.reverse else 0
        assert away[first].max() <= self.exact, message
        assert away.max() <= self.bound, message
        # Most sequences have no such h and are exact, and all of them are within the bound.
        assert np.median(away) <= self.exact * 10, message


CASES = [
    Case(LSTM, 1, 1, 1),
    Case(LSTM, 2, 3, 7, lengths=True),
    Case(LSTM, 9, 1, 31),
    Case(LSTM, 3, 1, 64, nine_bits=True),
    Case(LSTM, 3, 5, 20, nine_bits=True, rounding="symmetric"),
    Case(dataclasses.replace(LSTM, clip=0.5, reverse=True, activations=(HARD, TANH, RELU)), 2, 1, 9),
    Case(LSTM, 4, 3, 16, rounding="symmetric", lengths=True),
    Case(LINEAR_GRU, 4, 3, 9),
    Case(RNN, 5, 3, 8, rounding="symmetric"),
    Case(RNN, 2, 1, 31),
]


@pytest.mark.parametrize("core", ["neoverse-n2", "cortex-a53"])
def test_values_are_those_of_the_definition(core: str, tmp_path: Path, board: Board):
    # The cores differ in how they multiply, not in the cells: each has a half of them.
    own = CASES[core == "cortex-a53" :: 2]
    chosen = [(case, kernel.candidates(case.workload, CORES[core])[-1]) for case in own]
    chosen.append((own[2], kernel.default(own[2].workload, CORES[core])))
    calls = [case.call(params) for case, params in chosen]
    so = model_so(tmp_path / "model.so", calls, DOTPROD if core == "neoverse-n2" else BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for (case, params), actual in zip(chosen, outputs, strict=True):
        case.check(actual, f"{case.workload} {params}")


@pytest.mark.parametrize("index", [1, 4, 7])
def test_the_routine_is_the_definition(index: int):
    case = CASES[index]
    steps, batch, _ = case.inputs[0].shape
    lengths = case.inputs[-1].dtype == np.int32
    sizes = (steps, batch, len(case.r))
    func = recurrent_dynamic_routine(case.cell, sizes, str(case.r.dtype), case.rounding, lengths=lengths).func
    case.check(
        run_on_host(func.with_attr("global_symbol", "f"), case.arguments, case.expected.shape, "float32"), ""
    )


def test_the_inner_loop_is_sdot_and_leaves_the_stack_alone():
    case = Case(LSTM, 3, 1, 128)
    func = kernel.build(case.workload, kernel.default(case.workload, CORE))
    inner = [loop for loop in loops(assembly(func, DOTPROD)) if sum(i.startswith("sdot") for i in loop) > 8]
    assert inner
    for loop in inner:
        if not any("fdiv" in line or "fcvt" in line for line in loop):
            assert not [line for line in loop if "[sp" in line]
            assert sum(line.startswith("sdot") for line in loop) / len(loop) >= 0.55


def test_a_gru_that_quantises_twice_is_declined():
    answer = kernel.matches(Case(GRU, 2, 1, 8).workload, CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.reason == "the reset gate comes before its product"


def test_matches_says_what_it_saw():
    assert kernel.matches(CASES[2].workload, CORE) == KernelMatch("int8 LSTM of 9 steps, 1 x 31")
