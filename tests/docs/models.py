# SPDX-License-Identifier: Apache-2.0
"""The small models that the pages' commands name: model.onnx, lstm.onnx, encoder.onnx, ….

Model  What it is
model.onnx, model_int8.onnx    a classifier of two layers, image [1, 1, 8, 8] → logits [1, 10]
dynamic.onnx                   the same in float, with an open number of samples
encoder.onnx                   tokens [1, n], mask [1, n] → a mean of embeddings
lstm.onnx                      x, h, c → y, h_out, c_out
camera_model.onnx              image [1, 3, 24, 24] → logits
model.tflite                   one quantised convolution
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from arm_ext.api import digits
from arm_ext.quantization.static import quantize
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
_SAME = 0  # TFLite's padding


def write(folder: Path) -> None:
    """Write all of them, with calibration samples."""
    samples = digits.held_out()[0][:16]
    np.savez(folder / "samples.npz", image=samples)
    onnx.save(_classifier(1), folder / "model.onnx")
    onnx.save(_classifier("n"), folder / "dynamic.onnx")
    onnx.save(quantize(_classifier(1), {"image": samples}), folder / "model_int8.onnx")
    onnx.save(_encoder(), folder / "encoder.onnx")
    onnx.save(_lstm(), folder / "lstm.onnx")
    onnx.save(_camera_model(), folder / "camera_model.onnx")
    (folder / "model.tflite").write_bytes(_tflite())


def _model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[object]]],
    outputs: dict[str, list[object]],
    **held: np.ndarray,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in held.items()],
    )
    for number, node in enumerate(graph.node):
        node.name = node.name or f"{node.op_type.lower()}{number}"
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32) / 4


def _classifier(samples: object) -> onnx.ModelProto:
    nodes = [
        helper.make_node(
            "Conv", ["image", "kernel", "bias"], ["conv"], "conv1", pads=[1, 1, 1, 1], strides=[2, 2]
        ),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["logits"], "classes"),
    ]
    held = {"kernel": _random(16, 1, 3, 3), "bias": _random(16), "weights": _random(16, 10)}
    return _model(nodes, {"image": (FLOAT, [samples, 1, 8, 8])}, {"logits": [samples, 10]}, **held)


def _encoder() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["rows"]),
        helper.make_node("MatMul", ["rows", "weights"], ["mixed"]),
        helper.make_node("Relu", ["mixed"], ["active"]),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["active", "column"], ["y"]),
    ]
    inputs: dict[str, tuple[int, list[object]]] = {"tokens": (INT64, [1, "n"]), "mask": (FLOAT, [1, "n"])}
    held = {"table": _random(50, 16), "weights": _random(16, 16), "last": np.array([2], np.int64)}
    return _model(nodes, inputs, {"y": [1, "n", 16]}, **held)


def _lstm() -> onnx.ModelProto:
    size = 8
    nodes = [
        helper.make_node(
            "LSTM", ["x", "w", "r", "", "", "h", "c"], ["rows", "h_out", "c_out"], hidden_size=size
        ),
        helper.make_node("Squeeze", ["rows", "axes"], ["y"]),
    ]
    inputs: dict[str, tuple[int, list[object]]] = {
        "x": (FLOAT, [1, 1, size]),
        "h": (FLOAT, [1, 1, size]),
        "c": (FLOAT, [1, 1, size]),
    }
    outputs: dict[str, list[object]] = {"y": [1, 1, size], "h_out": [1, 1, size], "c_out": [1, 1, size]}
    held = {"w": _random(1, 4 * size, size), "r": _random(1, 4 * size, size), "axes": np.array([1], np.int64)}
    return _model(nodes, inputs, outputs, **held)


def _camera_model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["conv"], strides=[2, 2]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["logits"]),
    ]
    held = {"kernel": _random(8, 3, 3, 3), "weights": _random(8, 10)}
    return _model(nodes, {"image": (FLOAT, [1, 3, 24, 24])}, {"logits": [1, 10]}, **held)


def _tflite() -> bytes:
    m = TfliteBuilder()
    x = m.take("int8", 1, 8, 8, 4, scale=0.05, zero=-3)
    y = m.tensor("int8", 1, 8, 8, 8, scale=0.1, zero=5)
    weight, bias = m.weight(8, 3, 3, 4, scale=0.01), m.bias(8, 0.0005)
    m.op("CONV_2D", [x, weight, bias], [y], padding=_SAME, strideH=1, strideW=1)
    return m.build()
