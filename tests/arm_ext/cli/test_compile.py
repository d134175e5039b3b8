# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext import cli
from arm_ext.cli import invoke
from tests.arm_ext.models import mlp


def test_timings_name_every_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "digits.armpkg")
    assert invoke(["compile", "--target", "host", "-o", output, "--no-cache", "--timings", "--json"]) == 0
    timings = json.loads(capsys.readouterr().out)["timings"]
    parts = timings["parts"]
    assert {"Python modules", "import", "fuse", "lower", "code generation", "machine code"} <= parts.keys()
    assert "lower" in parts["self-test"]["parts"]
    assert sum(parts["kernels"]["counts"].values()) > 0
    assert invoke(["compile", "--target", "host", "-o", output]) == 0  # fills the cache
    capsys.readouterr()
    assert invoke(["compile", "--target", "host", "-o", output, "--timings"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.split("CPU seconds")[1].splitlines()]
    assert any("from the cache" in " ".join(row) for row in rows if row[:1] == ["kernels"])
    assert not any(row[-1] == "0.0" for row in rows if row)
    named = sum(part["cpu_seconds"] for part in parts.values())
    assert 0.5 * timings["cpu_seconds"] < named <= timings["cpu_seconds"] + 0.1


def _rows_of_a_quantised_table(path: Path, rows: list[int]) -> None:
    """x + table[rows]: the rows are found while compiling, from integers that no importer makes floats of."""
    numbers = {
        "table": np.arange(40, dtype=np.int8).reshape(5, 8),
        "scale": np.float32(0.5),
        "rows": np.array(rows, np.int64),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["table", "scale"], ["floats"], "dequantize"),
        helper.make_node("Gather", ["floats", "rows"], ["picked"], "pick"),
        helper.make_node("Add", ["x", "picked"], ["y"], "add"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [len(rows), 8]) for name in "xy")
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in numbers.items()]
    graph = helper.make_graph(nodes, "rows", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize(
    ("rows", "code", "told"),
    [
        ([3, -1], 0, ""),
        (
            [3, 7],
            1,
            "error: node 'pick': an index is out of bounds for an axis of size 5, whatever the inputs are\n",
        ),
    ],
)
def test_constant_indices_are_folded_without_a_word_or_refused(
    rows: list[int], code: int, told: str, tmp_path: Path
) -> None:
    model = tmp_path / "rows.onnx"
    _rows_of_a_quantised_table(model, rows)
    main = "from arm_ext.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", main, "compile", str(model), "--target", "host", "-o", tmp_path / "pkg"],
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, told)


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
    assert "would overwrite the input m.onnx" in capsys.readouterr().err
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
        ("weights.bin", "would overwrite the input weights.bin"),
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
