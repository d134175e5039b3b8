# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import onnx
import pytest

from arm_ext.cli import invoke
from tests.arm_ext.models import mlp


def test_save_node_writes_one_and_compiles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    onnx.save(mlp("n"), "m.onnx")
    assert invoke(["compile", "m.onnx", "--shape", "x=2,31", "--save-node", "fc1/bias"]) == 0
    out = capsys.readouterr().out
    assert "wrote    m-fc1_bias.onnx" in out
    assert "h float32[2, 9]" in out
    assert "36 bytes, the model's own" in out
    assert invoke(["compile", "m-fc1_bias.onnx", "--save-node", "fc1/bias", "-o", "x.onnx", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["nodes"] == {"fc1/bias": "Add"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m-fc1_bias.onnx", "m.onnx", "x.onnx"]
