# SPDX-License-Identifier: Apache-2.0
import json
import os
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


SAVE = ("compile", "m.onnx", "--shape", "x=2,31", "--save-node", "fc1/bias", "-o")


@pytest.mark.parametrize("output", ["m.onnx", "link", "hard", "sub/../m.onnx"])
def test_the_model_is_not_written_over(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    onnx.save(mlp("n"), "m.onnx")
    Path("sub").mkdir()
    Path("link").symlink_to("m.onnx")
    os.link("m.onnx", "hard")
    before = Path("m.onnx").read_bytes()
    assert invoke([*SAVE, output]) == 2
    assert "m.onnx would be written over" in capsys.readouterr().err
    assert Path("m.onnx").read_bytes() == before
    assert Path("link").is_symlink()


def test_a_saved_node_is_replaced_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    onnx.save(mlp("n"), "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    onnx.save(mlp(), "other.onnx")
    Path("notes.txt").write_text("mine")
    Path("dangling").symlink_to("nothing")
    for output, says in [
        ("weights.bin", "weights.bin would be written over, which is read"),
        ("other.onnx", "--save-node did not write it"),
        ("notes.txt", "--save-node did not write it"),
        ("missing/x.onnx", "there is no folder missing"),
        ("dangling", "is a link to nothing"),
        (".", "is a folder"),
        ("/dev/null", "is a device"),
    ]:
        assert invoke([*SAVE, output]) == 2
        assert says in capsys.readouterr().err
    before = Path("weights.bin").read_bytes()
    assert [invoke([*SAVE, "x.onnx"]) for _ in range(2)] == [0, 0]
    assert Path("weights.bin").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["m.onnx", "weights.bin", "other.onnx", "notes.txt", "dangling", "x.onnx"]
    )
    assert invoke(["compile", "x.onnx", "--save-node", "fc1/bias", "-o", "x.onnx"]) == 2
