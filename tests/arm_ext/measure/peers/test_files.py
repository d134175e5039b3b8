# SPDX-License-Identifier: Apache-2.0
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from arm_ext.common.errors import UsageError
from arm_ext.measure.peers.empty import write_empty
from arm_ext.measure.peers.files import model_format, weight_bytes
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.models import model


def test_the_format_is_told_by_content_before_the_name(tmp_path: Path) -> None:
    renamed = tmp_path / "m.bin"
    renamed.write_bytes(write_empty("tflite", tmp_path).read_bytes())
    assert model_format(renamed) == "tflite"
    assert model_format(write_empty("onnx", tmp_path)) == "onnx"
    (tmp_path / "m.mlir").write_text("module {}")
    assert model_format(tmp_path / "m.mlir") == "StableHLO"
    with zipfile.ZipFile(tmp_path / "m.pt2", "w") as archive:
        archive.writestr("m/archive_format", "pt2")
    assert model_format(tmp_path / "m.pt2") == "PyTorch"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.onnx: cannot be read \(No such file"):
        model_format(tmp_path / "gone.onnx")


def test_weights_of_onnx_are_initializers_and_constant_nodes(tmp_path: Path) -> None:
    held = numpy_helper.from_array(np.zeros((3, 5), np.float32))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=held),
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("MatMul", ["xw", "c"], ["y"]),
    ]
    path = tmp_path / "m.onnx"
    onnx.save(model(nodes, {"x": [2, 7]}, ["y"], {"w": np.ones((7, 3), "f")}), path)
    assert weight_bytes(path) == 4 * (3 * 5 + 7 * 3)


def test_weights_of_tflite_are_the_tensors_buffers(tmp_path: Path) -> None:
    builder = TfliteBuilder()
    x, y = builder.take("float32", 1, 7), builder.tensor("float32", 1, 7)
    builder.op("ADD", [x, builder.hold(np.ones((1, 7)), "float32")], [y])
    path = tmp_path / "m.tflite"
    path.write_bytes(builder.build())
    assert weight_bytes(path) == 4 * 7
