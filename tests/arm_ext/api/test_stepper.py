# SPDX-License-Identifier: Apache-2.0
"""`run --steps` on the emulated board."""

import json
from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext.cli import invoke
from arm_ext.common.errors import UsageError
from arm_ext.package import Package
from tests.arm_ext import state_models
from tests.arm_ext.models import mlp

COUNT = 6


@pytest.fixture(scope="module")
def lstm(tmp_path_factory: pytest.TempPathFactory) -> Package:
    output = tmp_path_factory.mktemp("steps") / "p"
    return arm_ext.compile(state_models.lstm(), output=output, state={"h": "hn", "c": "cn"}).package


def test_steps_take_a_frame_each_and_keep_the_state(lstm: Package, tmp_path: Path):
    frames = np.random.default_rng(1).standard_normal((COUNT, 1, 1, state_models.INPUT)).astype(np.float32)
    np.save(tmp_path / "x.npy", frames)
    arguments = ["run", str(lstm.path), "--steps", str(COUNT), "--input", f"x={tmp_path / 'x.npy'}"]
    assert invoke([*arguments, "--output", str(tmp_path / "out")]) == 0
    (found,) = [np.load(file) for file in (tmp_path / "out").glob("*.npy")]
    begin = np.zeros((1, 1, state_models.HIDDEN), np.float32)
    expected = arm_ext.run(lstm, inputs={"x": frames[0], "h": begin, "c": begin}).outputs["y"]
    np.testing.assert_array_equal(found[0], expected)
    # A step alone would give the same for the same frame.
    twice = arm_ext.run(lstm, steps=2, inputs={"x": frames[0]}).outputs["y"]
    np.testing.assert_array_equal(twice[0], expected)
    assert not np.array_equal(twice[0], twice[1])
    assert found.shape == (COUNT, *expected.shape)


def test_without_inputs_it_is_the_self_test(lstm: Package, capsys: pytest.CaptureFixture[str]):
    assert invoke(["run", str(lstm.path), "--steps", "4", "--json"]) == 0
    (output,) = json.loads(capsys.readouterr().out)["outputs"]
    assert (output["name"], output["shape"][0]) == ("y", 4)
    (found,) = arm_ext.run(lstm, steps=4).outputs.values()
    np.testing.assert_allclose(found, [step[0] for step in lstm.selftest().steps], atol=1e-6)


def test_what_does_not_fit_is_refused_before_a_board_starts(lstm: Package, tmp_path: Path):
    frame = np.zeros((1, 1, state_models.INPUT), np.float32)
    for inputs, message in (
        ({"x": np.stack([frame, frame])}, "inputs x: has values of 2 steps, but steps is 3"),
        ({"x": frame[..., 1:]}, r"inputs x: shape is \[1, 1, 4\]"),
        ({"h": np.zeros((1, 1, 7), np.float32)}, "inputs h: is a state, which the package keeps"),
        ({"z": frame}, "inputs names no input: z"),
    ):
        with pytest.raises(UsageError, match=message):
            arm_ext.run(lstm, "host:1", steps=3, inputs=inputs)
    with pytest.raises(UsageError, match="leave steps out"):
        arm_ext.run(lstm, "host:1", steps=3, check=True)
    plain = arm_ext.compile(mlp(), output=tmp_path / "p").package
    with pytest.raises(UsageError, match="has no state, so it has no steps"):
        arm_ext.run(plain, "host:1", steps=3)
