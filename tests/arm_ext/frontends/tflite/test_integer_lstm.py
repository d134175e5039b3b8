# SPDX-License-Identifier: Apache-2.0
"""TFLite's LSTM of 8-bit data and a 16-bit cell against LiteRT, bit for bit, run by run."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.tflite.runs import runs_of_both

STEPS, BATCH, INPUTS, HIDDEN, PROJECTED = 2, 3, 7, 5, 4
TANH = 4
X_SCALE, WEIGHT, STATE, CELL = 0.03, 0.011, 0.0079, 2.0**-11
X_ZERO, HIDDEN_ZERO, STATE_ZERO = -7, 9, 3

Case = Callable[[TfliteBuilder], None]


def lstm(
    *,
    coupled: bool = False,
    peephole: bool = False,
    projected: bool = False,
    clip: float = 0.0,
    time_major: bool = False,
    steps: int = STEPS,
) -> Case:
    def build(m: TfliteBuilder) -> None:
        outputs, there = PROJECTED if projected else HIDDEN, [not coupled, True, True, True]
        lines = (steps, BATCH) if time_major else (BATCH, steps)
        x = m.take("int8", *lines, INPUTS, scale=X_SCALE, zero=X_ZERO)
        gates = [
            m.weight(HIDDEN, size, scale=WEIGHT * (1 + k)) if gate else -1
            for size in (INPUTS, outputs)
            for k, gate in enumerate(there)
        ]
        seen = [
            m.hold(m.rng.integers(-32767, 32768, HIDDEN), "int16", scale=2e-5)
            if peephole and (k or not coupled)
            else -1
            for k in range(3)
        ]
        biases = [m.bias(HIDDEN, X_SCALE * WEIGHT) if gate else -1 for gate in there]
        last = (
            [m.weight(PROJECTED, HIDDEN, scale=WEIGHT), m.bias(PROJECTED, WEIGHT * STATE)]
            if projected
            else [-1, -1]
        )
        zero = STATE_ZERO if projected else HIDDEN_ZERO
        states = [
            m.variable(BATCH, outputs, dtype="int8", scale=STATE, zero=zero),
            m.variable(BATCH, HIDDEN, dtype="int16", scale=CELL),
        ]
        y = m.tensor("int8", *lines, outputs, scale=STATE, zero=zero)
        options = {
            "fusedActivationFunction": TANH,
            "timeMajor": time_major,
            "cellClip": clip,
            "projClip": clip,
        }
        m.op(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            [x, *gates, *seen, *biases, *last, *states, *[-1] * 4],
            [y],
            **options,
        )
        none = [m.tensor("float32", 0) for _ in range(4)]
        m.operators[-1].intermediates = [*none, m.tensor("int8", 0, scale=STATE, zero=HIDDEN_ZERO)]

    return build


CASES: dict[str, Case] = {
    "plain": lstm(),
    "peepholes and clips": lstm(peephole=True, clip=0.4),
    # With peepholes too, LiteRT takes the projection's size for the cell's.
    "coupled gates and a projection": lstm(coupled=True, projected=True, clip=0.4, time_major=True),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_litert(tmp_path: Path, name: str):
    m = TfliteBuilder()
    CASES[name](m)
    for found, expected in runs_of_both(tmp_path, m, m.values()):
        assert len(np.unique(expected)) > 6
        np.testing.assert_array_equal(found, expected)


def test_code_does_not_grow_with_the_steps(tmp_path: Path):
    code, calls = set(), set()
    for steps in (4, 32):
        m = TfliteBuilder()
        lstm(steps=steps)(m)
        (path := tmp_path / "model.tflite").write_bytes(m.build())
        arm_ext.compile(path, "neoverse-n2", tmp_path / f"out{steps}")
        report = json.loads((tmp_path / f"out{steps}" / "report.json").read_text())
        calls.add(len(report["calls"]))
        code.add((tmp_path / f"out{steps}" / "model.so").stat().st_size)
    assert len(calls) == 1
    # Of a page: the product of all steps has other rows beside its full tiles.
    assert max(code) - min(code) <= 4096


def test_reference_has_the_states(tmp_path: Path):
    m = TfliteBuilder()
    CASES["coupled gates and a projection"](m)
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    imported = import_tflite(path)
    hidden = m.rng.integers(-128, 128, (BATCH, PROJECTED)).astype(np.int8)
    cell = m.rng.integers(-32768, 32768, (BATCH, HIDDEN)).astype(np.int16)
    inputs = [*m.values(), hidden, cell]
    found, (expected, _) = run_on_host(imported.mod, inputs), imported.reference(inputs)
    assert len(found) == 3
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_normalised_gates_are_refused(tmp_path: Path):
    m = TfliteBuilder()
    CASES["plain"](m)
    m.operators[-1].inputs[20:] = [
        m.hold(m.rng.integers(-9, 9, HIDDEN), "int16", scale=0.1) for _ in range(4)
    ]
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    with pytest.raises(ModelError, match="its gates are normalised"):
        import_tflite(path)
