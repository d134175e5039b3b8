# SPDX-License-Identifier: Apache-2.0
"""`arm-ext init`, and the description that it writes, read by the other commands."""

import io
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

import arm_ext
from arm_ext import cli
from arm_ext.api.init import _nearest


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A step of a recurrence whose length, rate and state only a person knows: y = h' = tanh(x w + rate h)."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"], name="project"),
        helper.make_node("Cast", ["rate"], ["factor"], to=TensorProto.FLOAT, name="factor"),
        helper.make_node("Mul", ["h", "factor"], ["decayed"], name="decay"),
        helper.make_node("Add", ["xw", "decayed"], ["sum"], name="sum"),
        helper.make_node("Tanh", ["sum"], ["next"], name="next"),
        helper.make_node("ReduceSum", ["next"], ["y"], keepdims=0, name="y"),
    ]
    wide, rate = ["batch", 8], helper.make_tensor_value_info("rate", TensorProto.INT64, [1])
    graph = helper.make_graph(
        nodes,
        "step",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6]),
            helper.make_tensor_value_info("h", TensorProto.FLOAT, wide),
            rate,
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, wide),
        ],
        [numpy_helper.from_array(rng.standard_normal((6, 8), dtype=np.float32), "w")],
    )
    path = Path("step.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def _answers(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in lines).encode()))
    )


@pytest.mark.parametrize(
    ("name", "alike", "found"),
    [
        ("h", ["next"], "next"),
        ("h0", ["hN", "cN"], "hN"),
        ("past_key", ["y", "present_key", "past_out"], "past_out"),
        ("state", ["a", "b"], ""),
        ("s", ["s1", "s2"], ""),
        ("h", [], ""),
    ],
)
def test_of_several_outputs_alike_the_next_value_has_the_nearest_name(
    name: str, alike: list[str], found: str
) -> None:
    assert _nearest(name, alike) == found


def test_answers_are_kept_and_read_by_all_commands(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answers(monkeypatch, "1,6", "1,8", "2", "y")
    assert cli.invoke(["init", str(model)]) == 0
    assert yaml.safe_load(Path("step.onnx.yaml").read_text()) == {
        "shape": ["x=1,6", "h=1,8"],
        "value": ["rate=2"],
        "state": ["h=next"],
    }
    capsys.readouterr()
    assert cli.invoke(["compile", str(model), "--target", "cortex-a76", "--json"]) == 0
    told = capsys.readouterr()
    manifest = json.loads(Path("step.armpkg/manifest.json").read_text())
    assert [each["name"] for each in manifest["inputs"]] == ["x", "h"]
    assert [each["input"] for each in manifest["states"]] == ["h"]
    assert "reading step.onnx.yaml: shape, value, state" in told.err
    assert cli.invoke(["explain", str(model)]) == 0


def test_the_command_line_goes_before_config_and_this_before_the_description(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("step.onnx.yaml").write_text('shape: ["x=1,6", "h=1,8"]\nvalue: rate=2\n')
    Path("two.yaml").write_text('shape: ["x=2,6", "h=2,8"]\n')

    def batch(*argv: str) -> int:
        assert cli.invoke(["compile", str(model), "--json", "-o", "p", *argv]) == 0
        return int(json.loads(Path("p/manifest.json").read_text())["inputs"][0]["shape"][0])

    assert batch() == 1
    assert batch("--config", "two.yaml") == 2
    assert batch("--config", "two.yaml", "--shape", "x=3,6", "--shape", "h=3,8") == 3
    assert batch("--shape", "x=3,6", "--shape", "h=3,8", "--config", "two.yaml") == 3


def test_without_answers_it_says_what_is_missing(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answers(monkeypatch)
    assert cli.invoke(["init", str(model)]) == 2
    assert "the shape of x[batch,6] is not known: give it by --shape x=…" in capsys.readouterr().err
    assert not Path("step.onnx.yaml").exists()


def test_a_wrong_answer_is_refused_and_nothing_is_written(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answers(monkeypatch, "1,7", "1,8")
    assert cli.invoke(["init", str(model)]) == 2
    assert "--shape x=1,7 does not fit the model's" in capsys.readouterr().err
    assert not Path("step.onnx.yaml").exists()


def test_a_description_is_replaced_by_force_alone(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--shape", "x=1,6", "--shape", "h=1,8"]
    for force, code in ((), 0), ((), 2), (("--force",), 0):
        _answers(monkeypatch)
        assert cli.invoke(["init", str(model), *given, *force]) == code
    assert "--force replaces it" in capsys.readouterr().err


def test_a_description_holds_no_option_that_runs_code(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("step.onnx.yaml").write_text("plugin: evil.py\n")
    assert cli.invoke(["explain", str(model)]) == 2
    assert "a model's description has no 'plugin'" in capsys.readouterr().err


def test_descriptions_of_the_models_of_a_library(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Path("other.onnx")
    other.write_bytes(model.read_bytes())
    for path, batch in ((model, 1), (other, 2)):
        Path(f"{path}.yaml").write_text(f'shape: ["x={batch},6", "h={batch},8"]\n')
    argv = ["compile", str(model), str(other), "--emit", "c-library", "-o", "both", "--json"]
    assert cli.invoke(argv) == 0
    found = [each["manifest"] for each in json.loads(capsys.readouterr().out)["models"]]
    assert [each["inputs"][0]["shape"][0] for each in found] == [1, 2]


@pytest.mark.parametrize("extra", [(), (1,)])
def test_samples_give_the_shapes(
    model: Path, extra: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(5)
    arrays = {
        name: rng.standard_normal((4, *extra, size), dtype=np.float32) for name, size in (("x", 6), ("h", 8))
    }
    np.savez("samples.npz", **arrays)
    argv = ["compile", str(model), "--value", "rate=2", "--inputs", "samples.npz", "--json", "-o", "p"]
    assert cli.invoke(argv) == 0
    inputs = json.loads(Path("p/manifest.json").read_text())["inputs"]
    assert [each["shape"] for each in inputs] == [[1, 6], [1, 8]]


def test_samples_that_do_not_fit_leave_the_question(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("samples.npz", x=np.zeros((4, 7), np.float32), h=np.zeros((4, 8), np.float32))
    assert cli.invoke(["compile", str(model), "--value", "rate=2", "--inputs", "samples.npz", "-o", "p"]) == 2
    told = capsys.readouterr().err
    assert "x: [batch,6]    e.g. --shape x=1,6" in told
    assert "arm-ext init MODEL" in told


def test_a_description_of_one_model_alone_is_refused_for_several(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path("other.onnx")
    other.write_bytes(model.read_bytes())
    Path("step.onnx.yaml").write_text("state-init: a.npz\n")
    assert cli.invoke(["compile", str(model), str(other), "--emit", "c-library", "-o", "both"]) == 2
    assert "step.onnx.yaml: --state-init is for one model, but there are 2" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["profile", "compile", "init"])
def test_a_folder_has_no_description(model: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke([verb, "."]) == 2
    assert "internal error" not in capsys.readouterr().err


def test_python_is_not_told_of_files_that_the_command_line_reads(model: Path) -> None:
    with pytest.raises(arm_ext.UsageError) as refused:
        arm_ext.explain(model)
    assert "arm-ext init" not in str(refused.value)
