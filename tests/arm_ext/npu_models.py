# SPDX-License-Identifier: Apache-2.0
"""QDQ models that an NPU takes whole, or in parts."""

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ACTIVATION = (1 / 32, 3)  # scale and zero point
WEIGHT_SCALE = 1 / 64
SIDE, WIDE, CHANNELS, VALUES, CLASSES = 6, 64, 16, 31, 5


@dataclass
class Chain:
    """Operators one after the other; each but the float ones ends in quantise and dequantise."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def quantized(self, name: str, x: str, scale: tuple[float, int] = ACTIVATION) -> str:
        self.weights[f"{name}_s"], self.weights[f"{name}_z"] = np.float32(scale[0]), np.int8(scale[1])
        for op, read, made in (
            ("QuantizeLinear", x, f"{name}_q"),
            ("DequantizeLinear", f"{name}_q", f"{name}_d"),
        ):
            self.nodes.append(helper.make_node(op, [read, f"{name}_s", f"{name}_z"], [made], name=made))
        return f"{name}_d"

    def weight(self, name: str, *shape: int) -> str:
        rng = np.random.default_rng(len(self.nodes))
        self.weights[f"{name}_w8"] = rng.integers(-127, 128, shape).astype(np.int8)
        self.weights[f"{name}_ws"], self.weights[f"{name}_wz"] = np.float32(WEIGHT_SCALE), np.int8(0)
        inputs = [f"{name}_w8", f"{name}_ws", f"{name}_wz"]
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}_w"], name=f"{name}_w"))
        return f"{name}_w"

    def op(self, name: str, op: str, *inputs: str, quantize: bool = True, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return self.quantized(name, name) if quantize else name

    def model(self, outputs: dict[str, int]) -> onnx.ModelProto:
        """The model, with its outputs' types."""
        graph = helper.make_graph(
            self.nodes,
            "npu",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
            [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in self.weights.items()],
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return onnx.shape_inference.infer_shapes(proto, strict_mode=True)


def convolutions(chain: Chain) -> str:
    x = chain.quantized("image", "x")
    y = chain.op("conv", "Conv", x, chain.weight("conv", WIDE, 3, 3, 3), pads=[1, 1, 1, 1], quantize=False)
    y = chain.op("relu", "Relu", y)
    return chain.op("narrow", "Conv", y, chain.weight("narrow", CHANNELS, WIDE, 3, 3), pads=[1, 1, 1, 1])


def whole() -> onnx.ModelProto:
    """Return three convolutions, one of them depthwise, all int8."""
    chain = Chain()
    y = convolutions(chain)
    chain.op("depthwise", "Conv", y, chain.weight("depthwise", CHANNELS, 1, 3, 3), group=CHANNELS)
    return chain.model({"depthwise_q": TensorProto.INT8})


def normalized() -> onnx.ModelProto:
    """Return `whole` with a layer norm over the rows of an image, which no NPU has, before the last convolution."""
    chain = Chain()
    y = convolutions(chain)
    chain.weights["gain"] = np.linspace(0.5, 2, SIDE, dtype=np.float32)
    y = chain.op("norm", "LayerNormalization", y, "gain", axis=-1)
    chain.op("depthwise", "Conv", y, chain.weight("depthwise", CHANNELS, 1, 3, 3), group=CHANNELS)
    return chain.model({"depthwise_q": TensorProto.INT8})


def mixed() -> onnx.ModelProto:
    """Return convolutions, layer norm, attention, and a head in float."""
    chain = Chain()
    y = convolutions(chain)
    chain.weights["flat"] = np.array([1, CHANNELS, SIDE * SIDE], np.int64)
    y = chain.op("tokens", "Transpose", chain.op("flatten", "Reshape", y, "flat"), perm=[0, 2, 1])
    chain.weights["gain"] = np.linspace(0.5, 2, CHANNELS, dtype=np.float32)
    y = chain.op("norm", "LayerNormalization", y, "gain", axis=-1)
    query, key, value = (
        chain.op(name, "MatMul", y, chain.weight(name, CHANNELS, columns))
        for name, columns in (("query", CHANNELS), ("key", CHANNELS), ("value", VALUES))
    )
    scores = chain.op("scores", "MatMul", query, chain.op("turned", "Transpose", key, perm=[0, 2, 1]))
    y = chain.op("softmax", "Softmax", scores, axis=-1, quantize=False)
    y = chain.op("mixture", "MatMul", chain.quantized("softmax", y, (1 / 256, -128)), value)
    chain.weights["head_w"] = np.random.default_rng(5).standard_normal((VALUES, CLASSES), np.float32)
    chain.op("head", "MatMul", y, "head_w", quantize=False)
    return chain.model({"head": TensorProto.FLOAT})
