# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models for tests."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    outputs: list[str],
    weights: dict[str, np.ndarray] | None = None,
    domains: tuple[str, ...] = (),
) -> onnx.ModelProto:
    """Return a model with float32 inputs; outputs get their shapes by inference, or are scalars."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    proto = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=9))
    for value in proto.graph.output:
        value.type.tensor_type.shape.SetInParent()
    return proto


def mlp(batch: int | str = 2) -> onnx.ModelProto:
    """Return linear + relu + linear with odd sizes: 31 → 9 → 7."""
    rng = np.random.default_rng(1)
    weights = {
        "w1": rng.standard_normal((31, 9), dtype=np.float32),
        "b1": rng.standard_normal(9, dtype=np.float32),
        "w2": rng.standard_normal((9, 7), dtype=np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], name="fc1"),
        helper.make_node("Add", ["h", "b1"], ["hb"], name="fc1/bias"),
        helper.make_node("Relu", ["hb"], ["a"], name="fc1/relu"),
        helper.make_node("MatMul", ["a", "w2"], ["y"], name="fc2"),
    ]
    return model(nodes, {"x": [batch, 31]}, ["y"], weights)


def residual_cnn() -> onnx.ModelProto:
    """Return conv + relu, a depthwise conv with a residual add around it, and a pooled linear with two outputs."""
    rng = np.random.default_rng(2)
    weights = {
        "w": rng.standard_normal((8, 3, 3, 3), dtype=np.float32),
        "b": rng.standard_normal(8, dtype=np.float32),
        "dw": rng.standard_normal((8, 1, 3, 3), dtype=np.float32),
        "fc": rng.standard_normal((8, 5), dtype=np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "dw"], ["d"], name="depthwise", pads=[1, 1, 1, 1], group=8),
        helper.make_node("Add", ["d", "r"], ["s"], name="residual"),
        helper.make_node("GlobalAveragePool", ["s"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "fc"], ["y"], name="classifier"),
        helper.make_node("Softmax", ["y"], ["z"], name="softmax"),
    ]
    return model(nodes, {"x": [1, 3, 9, 7]}, ["y", "z"], weights)
