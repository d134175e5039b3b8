# SPDX-License-Identifier: Apache-2.0
"""A run in onnxruntime whose loop does not end is ended, by name; models without loops have no limit."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import arm_ext
from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx import reference
from arm_ext.frontends.onnx.weights import Serialised

SHAPE = (1, 9)
SAYS = "onnxruntime was ended after 0.2 s, .*in Loop node 'no end': give the loop a largest number of rounds"


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reference, "RUN_SECONDS", 0.2)


@pytest.fixture
def endless() -> onnx.ModelProto:
    """A product, and a loop that goes on while the sines of its data are below 2."""
    two, true = (
        numpy_helper.from_array(np.array(value), name)
        for value, name in ((np.float32(2), "two"), (True, "go"))
    )
    weights = numpy_helper.from_array(np.eye(9, dtype=np.float32), "w")
    body = helper.make_graph(
        [
            helper.make_node("Sin", ["y"], ["next"]),
            helper.make_node("ReduceMax", ["next"], ["largest"], keepdims=0),
            helper.make_node("Less", ["largest", "two"], ["again"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("before", TensorProto.BOOL, []),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, SHAPE),
        ],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
        helper.make_node("Loop", ["", "go", "product"], ["z"], name="no end", body=body),
    ]
    inputs, outputs = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE)] for name in "xz")
    graph = helper.make_graph(nodes, "model", inputs, outputs, [two, true, weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.usefixtures("short_limit")
def test_a_reference_says_why_there_is_none(endless: onnx.ModelProto):
    outputs, told = reference.reference(Serialised(endless.SerializeToString()), [np.ones(SHAPE, np.float32)])
    assert outputs == []
    assert "cannot run it: onnxruntime was ended after 0.2 s" in told


@pytest.mark.usefixtures("short_limit")
@pytest.mark.parametrize("options", [{}, {"weights": "int8"}, {"state": {"x": "z"}}], ids=str)
def test_quantize(endless: onnx.ModelProto, tmp_path: Path, options: dict[str, object]):
    path, data = tmp_path / "m.onnx", tmp_path / "x.npz"
    onnx.save(endless, path)
    np.savez(data, x=np.ones((3, *SHAPE), np.float32))
    with pytest.raises(ModelError, match=SAYS):
        arm_ext.quantize(path, data, tmp_path / "q.onnx", **options)
    assert not (tmp_path / "q.onnx").exists()


@pytest.mark.usefixtures("short_limit")
def test_models_without_loops_have_no_limit(endless: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch):
    del endless.graph.node[1]
    endless.graph.output[0].name = "product"
    monkeypatch.setattr(reference, "RUN_SECONDS", 0.0)
    (found,) = reference.run_onnxruntime(
        endless.SerializeToString(), [np.ones(SHAPE, np.float32)], integers=False
    )
    assert (found == 1).all()
