# SPDX-License-Identifier: Apache-2.0
"""One model with every QDQ operator on a branch of its own, each ending in an int8 output."""

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Scale = tuple[float, int]
"""Scale and zero point of an int8 tensor."""

CHANNELS = 7


@dataclass
class QdqModel:
    """Collects branches; each takes x [1, 7, 9, 8] through quantise, dequantise, one operator, quantise."""

    x: Scale
    out: Scale
    weight_scale: float
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)

    def constant(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def scale(self, name: str, scale: Scale) -> list[str]:
        return [
            self.constant(f"{name}_scale", np.array(scale[0], np.float32)),
            self.constant(f"{name}_zp", np.array(scale[1], np.int8)),
        ]

    def quantized_input(self, name: str) -> str:
        params = self.scale(f"{name}_q", self.x)
        self.nodes.append(
            helper.make_node("QuantizeLinear", ["x", *params], [f"{name}_xq"], name=f"{name}/q")
        )
        self.nodes.append(
            helper.make_node("DequantizeLinear", [f"{name}_xq", *params], [f"{name}_x"], name=f"{name}/dq")
        )
        return f"{name}_x"

    def weight(self, name: str, shape: tuple[int, ...], axis: int) -> str:
        """Add an int8 weight with a scale per channel of `axis`."""
        rng = np.random.default_rng(len(self.nodes))
        scales = (self.weight_scale * (1 + np.arange(shape[axis]) % 3)).astype(np.float32)
        params = [
            self.constant(f"{name}_ws", scales),
            self.constant(f"{name}_wz", np.zeros(shape[axis], np.int8)),
        ]
        data = self.constant(f"{name}_wq", rng.integers(-127, 128, shape).astype(np.int8))
        self.nodes.append(
            helper.make_node("DequantizeLinear", [data, *params], [f"{name}_w"], name=f"{name}/w", axis=axis)
        )
        return f"{name}_w"

    def bias(self, name: str, channels: int) -> str:
        """Add an int32 bias at the accumulator's scale."""
        scales = (self.x[0] * self.weight_scale * (1 + np.arange(channels) % 3)).astype(np.float32)
        values = np.random.default_rng(7).integers(-3000, 3000, channels).astype(np.int32)
        inputs = [self.constant(f"{name}_bq", values), self.constant(f"{name}_bs", scales)]
        inputs.append(self.constant(f"{name}_bz", np.zeros(channels, np.int32)))
        self.nodes.append(
            helper.make_node("DequantizeLinear", inputs, [f"{name}_b"], name=f"{name}/b", axis=0)
        )
        return f"{name}_b"

    def branch(self, name: str, op: str, inputs: list[str], **attributes: object) -> None:
        """Add one operator and quantise its result to the output `name`."""
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_y"], name=name, **attributes))
        params = self.scale(f"{name}_o", self.out)
        self.nodes.append(
            helper.make_node("QuantizeLinear", [f"{name}_y", *params], [name], name=f"{name}/out")
        )
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.INT8, None))

    def build(self) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, CHANNELS, 9, 8])
        graph = helper.make_graph(self.nodes, "qdq", [x], self.outputs, self.weights)
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return onnx.shape_inference.infer_shapes(proto, strict_mode=True)


def every_operator(x: Scale, out: Scale, weight_scale: float) -> onnx.ModelProto:
    """Return a model with a branch an operator; its outputs are named after the operators."""
    m = QdqModel(x, out, weight_scale)
    conv = m.weight("Conv", (9, CHANNELS, 3, 3), 0)
    m.branch(
        "Conv",
        "Conv",
        [m.quantized_input("Conv"), conv, m.bias("Conv", 9)],
        pads=[1, 1, 1, 1],
        strides=[2, 2],
    )
    dw = m.weight("Depthwise", (CHANNELS, 1, 3, 3), 0)
    m.branch("Depthwise", "Conv", [m.quantized_input("Depthwise"), dw], group=CHANNELS, dilations=[2, 2])
    up = m.weight("ConvTranspose", (CHANNELS, 9, 4, 3), 1)
    inputs = [m.quantized_input("ConvTranspose"), up, m.bias("ConvTranspose", 9)]
    m.branch(
        "ConvTranspose", "ConvTranspose", inputs, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[0, 1]
    )
    m.branch("MatMul", "MatMul", [m.quantized_input("MatMul"), m.weight("MatMul", (8, 31), 1)])
    for op in ("Add", "Mul"):
        m.branch(op, op, [m.quantized_input(f"{op}_a"), m.quantized_input(f"{op}_b")])
    m.branch("LeakyRelu", "LeakyRelu", [m.quantized_input("LeakyRelu")], alpha=0.1)
    m.branch("Concat", "Concat", [m.quantized_input("Concat_a"), m.quantized_input("Concat_b")], axis=1)
    for op in ("Relu", "Sigmoid", "GlobalAveragePool"):
        m.branch(op, op, [m.quantized_input(op)])
    m.branch("Softmax", "Softmax", [m.quantized_input("Softmax")], axis=1)
    m.branch(
        "AveragePool", "AveragePool", [m.quantized_input("AveragePool")], kernel_shape=[3, 3], strides=[2, 2]
    )
    return m.build()
