# SPDX-License-Identifier: Apache-2.0
"""onnxruntime as a reference: its integers do not saturate on the way, and a loop that does not end is ended."""

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
SAYS = (
    "onnxruntime was ended after 0.2 s, .*in Loop node 'no end': give the loop a maximum number of iterations"
)


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


def extremes(data: str, *, qdq: bool) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray]:
    """Return a product of 64 extreme values a sum, in QDQ or QLinear form, its input and its output as defined."""
    rng, scale = np.random.default_rng(5), np.float32(0.25)
    limits, zero = np.iinfo(data), np.array(3, data)
    w = rng.choice([-127, 127], (64, 5)).astype(np.int8)
    x = rng.choice([limits.min, limits.max], (9, 64)).astype(data)
    weights = {"s": scale, "z": zero, "to": np.float32(256), "w": w, "sw": np.float32(0.5), "zw": np.int8(0)}
    ends = ["s", "z"], ["sw", "zw"], ["to", "z"]
    if qdq:
        nodes = [
            helper.make_node("DequantizeLinear", ["x", *ends[0]], ["xd"]),
            helper.make_node("DequantizeLinear", ["w", *ends[1]], ["wd"]),
            helper.make_node("MatMul", ["xd", "wd"], ["yd"]),
            helper.make_node("QuantizeLinear", ["yd", *ends[2]], ["y"]),
        ]
    else:
        nodes = [helper.make_node("QLinearMatMul", ["x", *ends[0], "w", *ends[1], *ends[2]], ["y"])]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(data))
    held = [numpy_helper.from_array(np.array(value), name) for name, value in weights.items()]
    inputs, outputs = (
        [helper.make_tensor_value_info(name, kind, shape)] for name, shape in (("x", [9, 64]), ("y", [9, 5]))
    )
    graph = helper.make_graph(nodes, "extremes", inputs, outputs, held)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    sums = (x.astype(np.int64) - 3) @ w.astype(np.int64)
    y = np.clip(np.rint(sums * (0.25 * 0.5 / 256)) + 3, limits.min, limits.max)
    return proto, x, y.astype(data)


@pytest.mark.parametrize("vnni", [True, False], ids=["as here", "without VNNI"])
@pytest.mark.parametrize("qdq", [True, False], ids=["QDQ", "QLinear"])
@pytest.mark.parametrize("data", ["int8", "uint8"])
def test_integers_do_not_saturate(data: str, qdq: bool, vnni: bool, monkeypatch: pytest.MonkeyPatch):
    if not vnni:
        monkeypatch.setattr(reference, "_has_vnni", lambda: False)
    proto, x, y = extremes(data, qdq=qdq)
    (found,) = reference.run_onnxruntime(proto.SerializeToString(), [x], integers=True)
    assert len(np.unique(y)) > 9
    np.testing.assert_array_equal(found, y)
