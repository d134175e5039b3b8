# SPDX-License-Identifier: Apache-2.0
"""Nothing of TVM's own log reaches users: it is written by C++, to the process's standard error."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import arm_ext
from arm_ext.cli import invoke
from tests.arm_ext.models import model


def gathers() -> onnx.ModelProto:
    """Return lookups in a table, by rows and by columns."""
    nodes = [
        helper.make_node("Gather", ["table", "rows"], ["found"], name="rows"),
        helper.make_node("Gather", ["found", "columns"], ["y"], name="columns", axis=1),
    ]
    indices = [
        helper.make_tensor_value_info(n, TensorProto.INT64, [k]) for n, k in (("rows", 3), ("columns", 2))
    ]
    table = numpy_helper.from_array(np.random.default_rng(1).random((10, 4), np.float32), "table")
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])
    graph = helper.make_graph(nodes, "gathers", indices, [output], [table])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_lookups_compile_without_a_word(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arm_ext.compile(gathers(), "host", tmp_path / "p")
    assert capfd.readouterr() == ("", "")


def test_scatters_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node("ScatterElements", ["x", "places", "new"], ["y"], name="scatter")
    proto = model([node], {"x": [4], "new": [2]}, ["y"], {"places": np.array([3, 0])})
    arm_ext.compile(proto, "host", tmp_path / "p")
    assert capfd.readouterr() == ("", "")


def test_lookups_of_any_number_of_samples_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node("Gather", ["x", "columns"], ["y"], name="columns", axis=1)
    proto = model([node], {"x": ["n", 8]}, ["y"], {"columns": np.array([7, 2, 0])})
    arm_ext.compile(proto, "host", tmp_path / "p", shapes={"x": ("n", 8)})
    assert capfd.readouterr() == ("", "")


def test_a_refusal_in_the_middle_of_an_import_is_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="relu"),
        helper.make_node("CumSum", ["h", "axis"], ["y"], name="sum"),
    ]
    proto = model(nodes, {"x": [4, 4]}, ["y"])
    proto.graph.input.append(helper.make_tensor_value_info("axis", TensorProto.INT64, []))
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    assert invoke(["compile", str(path), "--target", "host", "-o", str(tmp_path / "p")]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: CumSum node 'sum' cannot be imported")


def test_the_reference_of_a_stablehlo_program_says_nothing(tmp_path: Path) -> None:
    text = "func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n  return %x : tensor<8xf32>\n}"
    (tmp_path / "m.mlir").write_text(text)
    command = [sys.executable, "-c", "from arm_ext.cli import main; main()", "compile", "m.mlir"]
    run = subprocess.run(
        [*command, "--target", "host"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
