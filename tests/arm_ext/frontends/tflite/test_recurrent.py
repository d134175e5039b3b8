# SPDX-License-Identifier: Apache-2.0
"""TFLite's LSTM and RNN against LiteRT."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.importer import import_tflite
from schedules.numerics.recurrent import NAMES
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.tflite.runs import runs_of_both

STEPS, BATCH, INPUTS, HIDDEN, PROJECTED = 2, 3, 7, 5, 4
TANH = 4
# Of a few sums of a few products; data of another step differ by 1e-3.
BOUND = 2e-6

Weights = Callable[..., int]
Case = Callable[[TfliteBuilder, int], None]


def _in_float(m: TfliteBuilder) -> Weights:
    return lambda *shape: m.hold(0.5 * m.rng.standard_normal(shape), "float32")


def _in_8_bits(m: TfliteBuilder) -> Weights:
    return lambda *shape: m.weight(*shape, scale=0.004)


def _gates(m: TfliteBuilder, w: Weights, *, coupled: bool, peephole: bool, projected: bool) -> list[int]:
    """The 17 operands from the weights of the input to the projection's bias; -1 for what is not there."""
    outputs, vector, there = PROJECTED if projected else HIDDEN, _in_float(m), [not coupled, True, True, True]
    groups = [[w(HIDDEN, size) if gate else -1 for gate in there] for size in (INPUTS, outputs)]
    at = [vector(HIDDEN) if peephole and (k or not coupled) else -1 for k in range(3)]
    biases = [vector(HIDDEN) if gate else -1 for gate in there]
    last = [w(PROJECTED, HIDDEN), vector(PROJECTED)] if projected else [-1, -1]
    return [*groups[0], *groups[1], *at, *biases, *last]


def _lstm(
    *,
    weights: Callable[[TfliteBuilder], Weights] = _in_float,
    coupled: bool = False,
    peephole: bool = False,
    projected: bool = False,
    normed: bool = False,
    time_major: bool = False,
    clip: float = 0.0,
) -> Case:
    def build(m: TfliteBuilder, x: int) -> None:
        outputs, vector = PROJECTED if projected else HIDDEN, _in_float(m)
        gates = _gates(m, weights(m), coupled=coupled, peephole=peephole, projected=projected)
        norms = [vector(HIDDEN) for _ in range(4)] if normed else [-1] * 4
        states = [m.variable(BATCH, outputs), m.variable(BATCH, HIDDEN)]
        y = m.tensor("float32", *((STEPS, BATCH) if time_major else (BATCH, STEPS)), outputs)
        options = {
            "fusedActivationFunction": TANH,
            "timeMajor": time_major,
            "cellClip": clip,
            "projClip": clip,
        }
        m.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *gates, *states, *norms], [y], **options)

    return build


def _bidirectional_lstm(m: TfliteBuilder, x: int) -> None:
    gates = [_gates(m, _in_float(m), coupled=False, peephole=False, projected=False) for _ in range(2)]
    states = [m.variable(BATCH, HIDDEN) for _ in range(4)]
    # Backwards, LiteRT takes one order for the other where the batch comes first.
    y = m.tensor("float32", STEPS, BATCH, 2 * HIDDEN)
    options = {"fusedActivationFunction": TANH, "mergeOutputs": True, "timeMajor": True}
    m.op("BIDIRECTIONAL_SEQUENCE_LSTM", [x, *gates[0], *gates[1], *states, *[-1] * 9], [y], **options)


def _cell(m: TfliteBuilder, w: Weights) -> list[int]:
    return [w(HIDDEN, INPUTS), w(HIDDEN, HIDDEN), _in_float(m)(HIDDEN), m.variable(BATCH, HIDDEN)]


def _rnn(weights: Callable[[TfliteBuilder], Weights]) -> Case:
    def build(m: TfliteBuilder, x: int) -> None:
        y = m.tensor("float32", BATCH, STEPS, HIDDEN)
        m.op("UNIDIRECTIONAL_SEQUENCE_RNN", [x, *_cell(m, weights(m))], [y], fusedActivationFunction=TANH)

    return build


def _bidirectional_rnn(m: TfliteBuilder, x: int) -> None:
    w, ys = _in_float(m), [m.tensor("float32", BATCH, STEPS, HIDDEN) for _ in range(2)]
    operands = [x, *_cell(m, w), *_cell(m, w), -1, -1, -1]
    m.op("BIDIRECTIONAL_SEQUENCE_RNN", operands, ys, fusedActivationFunction=TANH, mergeOutputs=False)


CASES: dict[str, Case] = {
    "lstm": _lstm(),
    "lstm of 8 bits": _lstm(weights=_in_8_bits),
    "lstm of 8 bits, projected": _lstm(weights=_in_8_bits, projected=True),
    "lstm with everything": _lstm(peephole=True, projected=True, time_major=True, clip=0.3),
    "lstm of coupled gates": _lstm(coupled=True, peephole=True),
    "lstm of normalised gates": _lstm(normed=True),
    "lstm both ways": _bidirectional_lstm,
    "rnn of 8 bits": _rnn(_in_8_bits),
    "rnn both ways": _bidirectional_rnn,
}


# The others differ from these by few operators each.
QUICK = (
    "lstm both ways",
    "lstm with everything",
    "lstm of normalised gates",
    "lstm of 8 bits",
    "rnn of 8 bits",
    "rnn both ways",
)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.long) for n in CASES]
)
def test_equals_litert(tmp_path: Path, name: str):
    m = TfliteBuilder()
    lines = (STEPS, BATCH) if name in ("lstm with everything", "lstm both ways") else (BATCH, STEPS)
    CASES[name](m, m.take("float32", *lines, INPUTS))
    values = m.rng.standard_normal((*lines, INPUTS)).astype(np.float32)
    for found, expected in runs_of_both(tmp_path, m, [values]):
        assert np.abs(found - expected).max() < BOUND * np.abs(expected).max()


WALKED = {
    "lstm": 1,
    "lstm of 8 bits": 1,
    "lstm of 8 bits, projected": 0,
    "rnn of 8 bits": 1,
    "lstm with everything": 0,
    "lstm of coupled gates": 0,
    "lstm both ways": 2,
    "rnn both ways": 2,
}
"""How many calls walk the steps: none where they are unrolled."""


@pytest.mark.parametrize("name", WALKED)
def test_what_is_a_loop(tmp_path: Path, name: str):
    m = TfliteBuilder()
    lines = (STEPS, BATCH) if name in ("lstm with everything", "lstm both ways") else (BATCH, STEPS)
    CASES[name](m, m.take("float32", *lines, INPUTS))
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    functions = [func for _, func in import_tflite(path).mod.functions_items()]
    routines = [f.attrs["numerics"] for f in functions if isinstance(f, tvm.tirx.PrimFunc)]
    assert sum(str(routine) in NAMES for routine in routines) == WALKED[name]


def test_quantised_data_are_refused(tmp_path: Path):
    m = TfliteBuilder()
    x = m.take("int8", BATCH, STEPS, INPUTS, scale=0.1)
    _rnn(_in_8_bits)(m, x)
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    with pytest.raises(ModelError, match="its data is quantised; only float data is supported"):
        import_tflite(path)
