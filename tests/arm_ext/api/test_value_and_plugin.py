# SPDX-License-Identifier: Apache-2.0
"""`--value` and `--plugin` mean the same for each verb that compiles a model."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper

import arm_ext
from arm_ext.api.compare import OURS, compare
from arm_ext.cli import invoke
from arm_ext.common.errors import UsageError
from tests.arm_ext.models import model

WEIGHTS = np.random.default_rng(3).standard_normal((31, 9), dtype=np.float32)
TARGET = ["--target", "cortex-a76"]
PLUGIN = """
from tvm import relax


def swirl(op):
    return relax.op.nn.relu(op.inputs[0])


CONVERTERS = {"com.example.Swirl": swirl}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """chosen.onnx takes x and what it is multiplied with; swirl.onnx has an operator that plugin.py knows."""
    monkeypatch.chdir(tmp_path)
    product = helper.make_node("MatMul", ["x", "w"], ["h"], name="fc")
    chosen = model(
        [product, helper.make_node("Mul", ["h", "gain"], ["y"], name="mul")], {"x": [1, 31]}, ["y"]
    )
    chosen.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHTS, "w"))
    chosen.graph.input.append(helper.make_tensor_value_info("gain", TensorProto.FLOAT, []))
    onnx.save(chosen, "chosen.onnx")
    swirl = helper.make_node("Swirl", ["h"], ["y"], name="swirl", domain="com.example")
    custom = model([product, swirl], {"x": [1, 31]}, ["y"], {"w": WEIGHTS}, ("com.example",))
    custom.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 9]))
    onnx.save(custom, "swirl.onnx")
    Path("plugin.py").write_text(PLUGIN)
    samples = np.random.default_rng(4).standard_normal((5, 1, 31)).astype(np.float32)
    np.savez("data.npz", x=samples, labels=np.zeros(5, np.int64))
    return tmp_path


@pytest.mark.parametrize("verb", [["profile", *TARGET], ["explain"]], ids=lambda verb: verb[0])
def test_a_custom_operator_and_a_value(verb: list[str], folder: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke([verb[0], "swirl.onnx", *verb[1:]]) == 1
    assert "com.example.Swirl" in capsys.readouterr().err
    assert invoke([verb[0], "swirl.onnx", *verb[1:], "--plugin", "plugin.py"]) == 0
    assert invoke([verb[0], "chosen.onnx", *verb[1:], "--value", "gain=2"]) == 0
    assert invoke([verb[0], "chosen.onnx", *verb[1:], "--value", "gian=2"]) == 2
    assert "names no input: gian" in capsys.readouterr().err


def test_quantize_and_accuracy_take_a_value(folder: Path, capsys: pytest.CaptureFixture[str]):
    value = ["--value", "gain=2"]
    assert invoke(["quantize", "chosen.onnx", "--data", "data.npz", "-o", "int8.onnx"]) == 2
    assert invoke(["quantize", "chosen.onnx", "--data", "data.npz", "-o", "int8.onnx", *value]) == 0
    assert [each.name for each in onnx.load("int8.onnx").graph.input] == ["x"]
    capsys.readouterr()
    compared = ["accuracy", "int8.onnx", "--against", "chosen.onnx", "--data", "data.npz"]
    assert invoke(compared) == 2
    assert "are not of the same model" in capsys.readouterr().err
    assert invoke([*compared, *value]) == 0
    assert "fc" in capsys.readouterr().out
    assert invoke([*compared, "--value", "gian=2"]) == 2
    assert "names no input: gian" in capsys.readouterr().err


def test_advise_tells_the_values_that_it_was_given(folder: Path):
    advice = ["advise", "chosen.onnx", *TARGET, "--budget", "1s", "--apply", "found.yaml"]
    assert invoke([*advice, "--value", "gain=2"]) == 0
    assert yaml.safe_load(Path("found.yaml").read_text())["value"] == ["gain=2"]
    assert invoke(["compile", "chosen.onnx", "--config", "found.yaml", "-o", "p"]) == 0
    assert [each.name for each in arm_ext.load_package("p").manifest.inputs] == ["x"]


def test_bench_against_others_runs_the_model_with_the_value(folder: Path):
    compared = compare(
        "chosen.onnx", "litert", "virtual:cortex-a76", values={"gain": 2}, plugins=["plugin.py"]
    )
    assert [row.runtime for row in compared.rows] == [OURS]
    assert compared.model == "chosen"


def test_what_is_compiled_takes_neither(folder: Path, digits_package: Path):
    for options in ({"values": {"gain": 2}}, {"plugins": ["plugin.py"]}):
        with pytest.raises(
            UsageError, match="a package is already compiled; the option is only for model files"
        ):
            arm_ext.profile(digits_package, **options)
        with pytest.raises(
            UsageError, match="a package is already compiled; the option is only for model files"
        ):
            compare(digits_package, "litert", **options)
    assert invoke(["bench", str(digits_package), "--value", "gain=2"]) == 2
