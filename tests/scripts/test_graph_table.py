# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import graph_table
import onnx
import pytest
from onnx import helper

from arm_ext.api import digits
from schedules.diagnostic import Diagnostic
from tests.arm_ext.models import model


def save(path: Path, *nodes: onnx.NodeProto) -> Path:
    onnx.save(model(list(nodes), {"x": [1, 7, 9, 9]}, ["y"]), path)
    return path


def test_digits_int8_is_integer_but_at_its_borders():
    row = graph_table.measure(digits.model_path("int8"))
    assert (row.model, row.left_float) == ("digits_int8", ())
    # The image's quantize and the logits' dequantize.
    assert (row.qdq, row.transposes) == (2, 0)
    assert row.after < row.before
    assert row.seconds > 0


def test_transposes_are_counted(tmp_path: Path):
    transpose = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 3, 2, 1])
    row = graph_table.measure(save(tmp_path / "m.onnx", transpose))
    assert (row.nodes, row.before, row.after, row.transposes) == (1, 1, 1, 1)
    assert row.left_float is None


def test_table_gives_the_reasons_of_quantised_models():
    left = tuple(Diagnostic("no integer form", nodes=(name,), operator="nn.layer_norm") for name in "ab")
    row = graph_table.Row("net", 9, 8, 7, 6, 5, 0.125, left)
    assert graph_table.table([row]).splitlines()[2:] == [
        "| net | 9 | 8 | 7 | 6 | 5 | 2 | 0.12 |",
        "",
        "net computes in float:",
        "",
        "- 2x nn.layer_norm: no integer form",
    ]


def test_command_line_goes_on_after_a_model_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    unknown = helper.make_node("Frobnicate", ["x"], ["y"], domain="acme")
    onnx.save(model([unknown], {"x": [1]}, ["y"], domains=("acme",)), tmp_path / "bad.onnx")
    good = save(tmp_path / "good.onnx", helper.make_node("Relu", ["x"], ["y"]))
    monkeypatch.setattr("sys.argv", ["graph_table.py", str(tmp_path / "bad.onnx"), str(good)])
    with pytest.raises(SystemExit) as end:
        graph_table.main()
    assert end.value.code == 1
    out, err = capsys.readouterr()
    assert "| good | 1 | 1 | 1 | 0 | 0 | - |" in out
    assert "bad.onnx: " in err
    assert "Frobnicate" in err
