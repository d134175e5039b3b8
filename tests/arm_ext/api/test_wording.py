# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import onnx
import pytest

import arm_ext
from arm_ext.api.wording import in_python
from arm_ext.cli import invoke
from arm_ext.common.errors import UsageError
from tests.arm_ext.models import mlp

WORDED = {
    "--npu needs a quantised model; --quantize FILE.npz quantises one": (
        "npu needs a quantised model; quantize FILE.npz quantises one"
    ),
    "exceed --memory-budget 16: ": "exceed memory_budget 16: ",
    "names no op; add it to --npu-ops": "names no op; add it to npu_ops",
    "e.g. --shape x=1,31": "e.g. shapes x=1,31",
    "a--shape and --shaped stay": "a--shape and --shaped stay",
    "run: pip install --upgrade x": "run: pip install --upgrade x",
    "arm-ext tune m --target x --db d": "arm-ext tune m --target x --db d",
}


@pytest.mark.parametrize(("said", "expected"), WORDED.items())
def test_options_become_arguments_and_commands_stay(said: str, expected: str):
    assert in_python(said) == expected


def test_errors_of_the_api_speak_of_arguments_and_those_of_the_command_of_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(UsageError, match=r"^shapes names no input: nope"):
        arm_ext.compile(mlp(), shapes={"nope": [1]}, output=tmp_path / "p")
    onnx.save(mlp(), tmp_path / "m.onnx")
    assert invoke(["compile", str(tmp_path / "m.onnx"), "--shape", "nope=1", "-o", str(tmp_path / "p")]) == 2
    assert "--shape names no input: nope" in capsys.readouterr().err
