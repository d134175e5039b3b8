# SPDX-License-Identifier: Apache-2.0
"""TFLite's SVDF against LiteRT, run by run."""

from pathlib import Path

import numpy as np
import pytest

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.tflite.runs import runs_of_both

ROWS, INPUTS, FILTERS, FRAMES, RANK = 2, 7, 6, 4, 2
RELU = 1
# Of a sum of a few dozen products.
BOUND = 2e-6
X, FEATURES, TIME, STATE, Y = 0.03, 0.011, 0.0004, 0.002, 0.05


def svdf(m: TfliteBuilder, *, rounded: bool) -> None:
    x, bias = m.take("float32", ROWS, INPUTS), m.hold(m.rng.standard_normal(FILTERS // RANK), "float32")
    if rounded:
        weights = [m.weight(FILTERS, INPUTS, scale=0.01), m.weight(FILTERS, FRAMES, scale=0.02)]
    else:
        weights = [m.hold(m.rng.standard_normal((FILTERS, size)), "float32") for size in (INPUTS, FRAMES)]
    y = m.tensor("float32", ROWS, FILTERS // RANK)
    state = m.variable(ROWS, FILTERS * FRAMES)
    m.op("SVDF", [x, *weights, bias, state], [y], rank=RANK, fusedActivationFunction=RELU)


def integer_svdf(m: TfliteBuilder, dtype: str, zero: int = 0) -> None:
    x = m.take("int8", ROWS, INPUTS, scale=X, zero=-7)
    time = m.hold(m.rng.integers(-100, 101, (FILTERS, FRAMES)), dtype, scale=TIME)
    state = m.variable(ROWS, FILTERS * FRAMES, dtype=dtype, scale=STATE, zero=zero)
    y = m.tensor("int8", ROWS, FILTERS // RANK, scale=Y, zero=5)
    operands = [
        x,
        m.weight(FILTERS, INPUTS, scale=FEATURES),
        time,
        m.bias(FILTERS // RANK, STATE * TIME),
        state,
    ]
    m.op("SVDF", operands, [y], rank=RANK, fusedActivationFunction=RELU)


@pytest.mark.parametrize("rounded", [False, True])
def test_float_data(tmp_path: Path, rounded: bool):
    m = TfliteBuilder()
    svdf(m, rounded=rounded)
    for found, expected in runs_of_both(tmp_path, m, m.values()):
        assert np.abs(found - expected).max() < BOUND * np.abs(expected).max()


def test_integers(tmp_path: Path):
    m = TfliteBuilder()
    integer_svdf(m, "int16")
    for found, expected in runs_of_both(tmp_path, m, m.values()):
        assert len(np.unique(expected)) > 4
        np.testing.assert_array_equal(found, expected)


def test_state_of_8_bits(tmp_path: Path):
    # LiteRT takes it for one of 16; only its edition for microcontrollers has it.
    m = TfliteBuilder()
    integer_svdf(m, "int8", zero=9)
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    imported = import_tflite(path)
    values = m.values()
    state = m.rng.integers(-128, 128, imported.states[0].initial.shape).astype(np.int8)
    y, after = run_on_host(imported.mod, [*values, state])
    frames = after.reshape(ROWS, FILTERS, FRAMES)
    np.testing.assert_array_equal(frames[..., :-1], state.reshape(ROWS, FILTERS, FRAMES)[..., 1:])
    features, time, bias = (_held(m, at) for at in (1, 2, 3))
    newest = (values[0].astype(int) + 7) @ features.T * (X * FEATURES / STATE) + 9
    np.testing.assert_allclose(frames[..., -1], np.clip(newest, -128, 127), atol=0.51)
    total = ((frames.astype(int) - 9) * time).reshape(ROWS, FILTERS // RANK, -1).sum(-1) + bias
    np.testing.assert_allclose(y, np.clip(total * (STATE * TIME / Y) + 5, -128, 127), atol=0.51)
    outputs, why = imported.reference([*values, state])
    assert outputs == []
    assert "a state of 8 bits" in why


def _held(m: TfliteBuilder, at: int) -> np.ndarray:
    """The elements of a constant operand, as integers."""
    tensor = m.tensors[m.operators[-1].inputs[at]]
    dtype = {9: np.int8, 2: np.int32}[tensor.type]
    return np.frombuffer(bytes(m.buffers[tensor.buffer].data), dtype).reshape(tensor.shape).astype(int)


def test_state_that_does_not_fit_is_refused(tmp_path: Path):
    m = TfliteBuilder()
    svdf(m, rounded=False)
    m.operators[-1].builtinOptions.rank = 4
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    with pytest.raises(ModelError, match="its rank 4 does not fit 6 filters"):
        import_tflite(path)
