# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import arm_ext
from arm_ext.api import digits
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.estimate import estimate
from arm_ext.target.profiles import resolve

TARGET = "cortex-a76"


def test_it_is_that_of_the_compiled_package(tmp_path: Path) -> None:
    found = estimate(import_onnx(digits.model_path("int8")), resolve(TARGET, None))
    result = arm_ext.compile(digits.model_path("int8"), TARGET, tmp_path / "p")
    report = result.report
    assert [(call.anchor, call.kernel, call.selection_cost) for call in found.calls] == [
        (call.anchor, call.kernel, call.selection_cost) for call in report.calls
    ]
    assert found.cycles == sum(call.selection_cost for call in report.calls)
    assert found.weights == result.package.manifest.memory.weight_bytes


@pytest.mark.parametrize("group", [1, 16])
def test_a_product_may_go_from_8_bits_to_16(group: int) -> None:
    held = {
        "scale": np.float32(0.1),
        "zero": np.int8(3),
        "one": np.float32(0.01),
        "none": np.int8(0),
        "fine": np.float32(0.001),
        "wide": np.int16(0),
        "w": np.random.default_rng(1).integers(-9, 9, (16, 16 // group, 3, 3)).astype(np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "one", "none"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["c"], name="conv", group=group),
        helper.make_node("QuantizeLinear", ["c", "fine", "wide"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "fine", "wide"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "widening",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 6, 6])],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    found = estimate(import_onnx(proto), resolve(TARGET, None))
    (conv,) = (call for call in found.calls if call.anchor == "conv")
    assert conv.output.endswith("int16")
