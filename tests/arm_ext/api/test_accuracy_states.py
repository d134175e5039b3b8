# SPDX-License-Identifier: Apache-2.0
"""`accuracy` and `quantize` of ONNX models with states: samples are consecutive steps."""

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import arm_ext
from arm_ext import cli
from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.state import take_defaults
from arm_ext.quantization.session import TensorSession
from arm_ext.quantization.static import Quantizer
from arm_ext.quantization.steps import OnnxStates
from arm_ext.report.accuracy.record import AccuracyReport
from arm_ext.report.accuracy.views import text
from tests.arm_ext.state_models import convolution

STEPS = 9
STATE = {"buffer": "buffer_out"}


def frames() -> np.ndarray:
    """Frames of growing size, so that a state that is forgotten shows."""
    rng = np.random.default_rng(4)
    return (rng.standard_normal((STEPS, 1, 3, 1)) * np.linspace(0.2, 1, STEPS)[:, None, None, None]).astype(
        np.float32
    )


@cache
def quantized() -> bytes:
    quantizer = Quantizer(convolution(), {"x": frames()}, "minmax", ({},), steps=OnnxStates(STATE, {}))
    return quantizer.quantized({}).SerializeToString()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(convolution(), "float.onnx")
    np.savez("steps.npz", x=frames())
    Path("int8.onnx").write_bytes(quantized())
    return tmp_path


def stepped(path: str, first: np.ndarray) -> list[np.ndarray]:
    """The outputs of a model that goes on from its own states."""
    proto = onnx.load(path)
    take_defaults(proto, STATE)
    session, buffer, found = TensorSession(proto, path, ["y", "buffer_out"]), first, []
    for frame in frames():
        results = session({"x": frame, "buffer": buffer})
        buffer = results["buffer_out"]
        found.append(results["y"])
    return found


def sqnr(values: list[np.ndarray], exact: list[np.ndarray]) -> float:
    pairs = [(value.astype(np.float64), right) for value, right in zip(values, exact, strict=True)]
    signal = sum(float(np.sum(right**2)) for _, right in pairs)
    return 10 * np.log10(signal / sum(float(np.sum((value - right) ** 2)) for value, right in pairs))


@pytest.mark.parametrize("initial", [None, 0.5])
def test_each_link_goes_on_from_its_own_states(files: Path, initial: float | None) -> None:
    first = np.full((1, 3, 4), initial or 0.0, np.float32)
    given = None if initial is None else {"buffer": first}
    report = arm_ext.accuracy("int8.onnx", "float.onnx", "steps.npz", state=STATE, state_init=given)
    assert report.samples == STEPS
    assert f"{STEPS} samples" in text(report)
    # States are no outputs of the model as the package's `step` has them.
    (output,) = report.outputs
    assert output.name == "y"
    expected = sqnr(stepped("int8.onnx", first), stepped("float.onnx", first))
    assert output.fake.sqnr_db == pytest.approx(expected, abs=0.02)
    assert output.integers.sqnr_db == pytest.approx(expected, abs=1)
    # The state is a layer like others, which onnxruntime's integers are compared on, too.
    assert {"buffer", "conv"} <= {layer.name for layer in report.layers}
    assert {layer.differing for layer in report.layers} <= {0, None}


def test_states_in_the_data_are_inputs(files: Path) -> None:
    rng = np.random.default_rng(6)
    buffers = rng.standard_normal((STEPS, 1, 3, 4)).astype(np.float32)
    data = {"x": frames(), "buffer": buffers}
    given = arm_ext.accuracy("int8.onnx", "float.onnx", data, state=STATE)
    without = arm_ext.accuracy("int8.onnx", "float.onnx", data)
    assert given.outputs[0] == without.outputs[0]


def test_what_a_model_has_for_a_state_is_kept(files: Path) -> None:
    proto, first = convolution(), np.full((1, 3, 4), 0.5, np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(first, "buffer"))
    onnx.save(proto, "held.onnx")
    arm_ext.quantize("held.onnx", "steps.npz", "held_int8.onnx", state=STATE)
    held = {tensor.name: tensor for tensor in onnx.load("held_int8.onnx").graph.initializer}
    assert np.array_equal(numpy_helper.to_array(held["buffer"]), first)
    report = arm_ext.accuracy("held_int8.onnx", "held.onnx", "steps.npz", state=STATE)
    (output,) = report.outputs
    expected = sqnr(stepped("held_int8.onnx", first), stepped("float.onnx", first))
    assert output.fake.sqnr_db == pytest.approx(expected, abs=0.02)


def test_the_search_measures_steps(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ["--state", "buffer=buffer_out", "--metric", "cosine", "--max-drop", "0.5%", "--json"]
    assert cli.invoke(["quantize", "float.onnx", "--data", "steps.npz", "-o", "mixed.onnx", *said]) == 0
    report = AccuracyReport.model_validate_json(capsys.readouterr().out)
    assert report.mixed is not None
    assert report.metric is not None
    (chosen,) = (each for each in report.mixed.choices if each.chosen)
    assert report.metric.fake == pytest.approx(chosen.metric, abs=1e-6)
    assert (
        cli.invoke(["accuracy", "mixed.onnx", "--against", "float.onnx", "--data", "steps.npz", *said]) == 0
    )


def test_a_bound_that_leaves_nothing_to_quantise_is_a_finding(files: Path) -> None:
    with pytest.raises(ModelError, match="leaves nothing to quantise; allow a larger --max-drop"):
        arm_ext.quantize("float.onnx", "steps.npz", "q.onnx", state=STATE, metric="cosine", max_drop=0.0)
    assert not Path("q.onnx").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--state", "buffer=y"], "--state buffer=y: input buffer"),
        (["--state", "bufer=buffer_out"], "--state: the model has no input bufer"),
        (["--state", "buffer=buffer_out", "--state", "buffer=y"], "--state names an input twice"),
        (["--state-init", "steps.npz"], "--state-init: x is not a state"),
        ([], "no samples for buffer"),
    ],
)
def test_what_is_wrong_with_states_is_told(
    files: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    asked = ["accuracy", "int8.onnx", "--against", "float.onnx", "--data", "steps.npz", *options]
    assert cli.invoke(asked) == 2
    assert message in capsys.readouterr().err
