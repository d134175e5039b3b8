# SPDX-License-Identifier: Apache-2.0
"""ONNX models of integer products, as written by onnxruntime's dynamic quantisation, and by hand."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Arrays = list[np.ndarray]


class Model:
    """Builder of a model, node by node."""

    def __init__(self, seed: int = 7) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.values: Arrays = []

    def take(self, value: np.ndarray) -> str:
        """Add an input with its value."""
        name = f"x{len(self.inputs)}"
        elem = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, elem, value.shape))
        self.values.append(value)
        return name

    def hold(self, value: object, dtype: str = "float32") -> str:
        """Add a constant."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def emit(self, op: str, *inputs: str, outputs: int = 1, **attributes: object) -> list[str]:
        """Add a node; the first one of an operator is named after it."""
        name = op if all(node.op_type != op for node in self.nodes) else f"{op}{len(self.nodes)}"
        names = [f"{name}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=name, **attributes))
        return names

    def build(self, result: str, dtype: int, shape: Sequence[int]) -> onnx.ModelProto:
        ends = [helper.make_tensor_value_info(result, dtype, shape)]
        graph = helper.make_graph(self.nodes, "g", self.inputs, ends, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def random(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Return random integers over the whole range of a dtype, including its ends."""
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
    values.flat[:1], values.flat[-1:] = info.min, info.max
    return values


def product(
    op: str,
    data: Sequence[int],
    weights: Sequence[int],
    result: Sequence[int],
    *,
    dtype: str = "uint8",
    x_zero: str = "dynamic",
    w_zero: object = None,
    to_float: bool = True,
    **attributes: object,
) -> tuple[onnx.ModelProto, Arrays]:
    """Return a model of one ConvInteger or MatMulInteger, and its inputs.

    Args:
        op: "ConvInteger" or "MatMulInteger".
        data: Shape of the data.
        weights: Shape of the weights.
        result: Shape of the result.
        dtype: Dtype of the weights.
        x_zero: Zero point of the data: "dynamic" by DynamicQuantizeLinear, "input", "constant" or "none".
        w_zero: Zero point of the weights: a constant, None for none, or "input".
        to_float: Whether the sums are scaled and a bias is added.
        attributes: Attributes of the product.
    """
    m = Model()
    scale, zero = m.hold(0.03), ""
    if x_zero == "dynamic":
        x = m.take((m.rng.standard_normal(data) + 0.3).astype(np.float32))
        x, scale, zero = m.emit("DynamicQuantizeLinear", x, outputs=3)
    else:
        x = m.take(random(m.rng, "uint8", *data))
        if x_zero != "none":
            zero = m.take(np.array(77, np.uint8)) if x_zero == "input" else m.hold(99, "uint8")
    w = m.hold(random(m.rng, dtype, *weights), dtype)
    zeros = []
    if isinstance(w_zero, str):
        zeros = [m.take(np.array(113, dtype))]
    elif w_zero is not None:
        zeros = [m.hold(w_zero, dtype)]
    (y,) = m.emit(op, x, w, *([zero, *zeros] if zeros or zero else []), **attributes)
    if not to_float:
        return m.build(y, TensorProto.INT32, result), m.values
    (y,) = m.emit("Cast", y, to=TensorProto.FLOAT)
    (both,) = m.emit("Mul", scale, m.hold(0.011))
    (y,) = m.emit("Mul", y, both)
    channels = [result[1], *[1] * (len(result) - 2)] if op == "ConvInteger" else [result[-1]]
    (y,) = m.emit("Add", y, m.hold(m.rng.standard_normal(channels)))
    return m.build(y, TensorProto.FLOAT, result), m.values
