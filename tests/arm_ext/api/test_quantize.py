# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import onnx
import pytest

import arm_ext
from arm_ext import cli
from arm_ext.api import digits

FLOAT = str(digits.model_path("fp32"))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    images, labels = digits.held_out()
    np.savez("data.npz", inputs=images[:24], labels=labels[:24])
    return tmp_path


def test_what_is_written_is_compiled_and_compared(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.invoke(["quantize", FLOAT, "--data", "data.npz", "-o", "int8.onnx", "--calibration", "mse"]) == 0
    )
    told = capsys.readouterr().out
    assert "int8 against digits_fp32, 24 samples" in told
    assert "No layer is to blame" in told
    onnx.checker.check_model("int8.onnx", full_check=True)
    assert arm_ext.compile("int8.onnx", "host", "int8.armpkg").report.package is not None


def test_nodes_that_are_kept_stay_in_float(files: Path) -> None:
    result = arm_ext.quantize(
        FLOAT, "data.npz", "mixed.onnx", keep_float=["conv2/depthwise", "conv2/depthwise/relu"]
    )
    types = {layer.name: layer.type for layer in result.accuracy.layers}
    assert types["conv2/depthwise"] == "float32"
    assert types["conv3"] == "int8"
    nodes = {node.name: node for node in onnx.load("mixed.onnx").graph.node}
    assert list(nodes["conv2/depthwise"].input[1:]) == ["conv2/depthwise/weight", "conv2/depthwise/bias"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "q.onnx", "--keep-float", "conv2/depthwis"], "did you mean conv2/depthwise"),
        (["-o", "q.tflite"], "name a file that ends with .onnx"),
        (["-o", "q.onnx", "--metric", "map"], "is none of top1"),
        (["-o", FLOAT], "would be written over"),
    ],
)
def test_what_is_wrong_is_told(
    files: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert cli.invoke(["quantize", FLOAT, "--data", "data.npz", *options]) == 2
    assert message in capsys.readouterr().err
    assert not list(files.glob("q.*")), "what is wrong is told before a file is written"
