# SPDX-License-Identifier: Apache-2.0
"""QDQ models of one operator, with int8 inputs and outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

SCALE, ZERO = 0.07, -5  # quantisation of activations: no power of two, and a zero point other than 0


@dataclass
class OneOperator:
    """Builder of a model: collects the inputs of one operator; `model` completes it."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    opset: int = 17

    def constant(self, value: object, dtype: str = "float32") -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def dequantized(self, name: str, scale: object, zero: object, dtype: str) -> str:
        """Add DequantizeLinear of a tensor that is quantised per tensor, or along axis 0."""
        params = [self.constant(scale), self.constant(zero, dtype)]
        axis = {"axis": 0} if np.ndim(scale) else {}
        self.nodes.append(helper.make_node("DequantizeLinear", [name, *params], [f"{name}_d"], **axis))
        return f"{name}_d"

    def data(self, *shape: int, scale: float = SCALE, zero: int = ZERO, dtype: str = "int8") -> str:
        return self.dequantized(self.integers(dtype, *shape), scale, zero, dtype)

    def integers(self, dtype: str, *shape: int) -> str:
        """Add an input of integers or bools without dequantisation."""
        name = f"x{len(self.inputs)}"
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, values: np.ndarray, scale: object = 0.01, zero: int = 0) -> str:
        name = self.constant(values, str(values.dtype))
        return self.dequantized(name, scale, np.full(np.shape(scale), zero), str(values.dtype))

    def node(self, op: str, *reads: str, **attributes: object) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(reads), [name], name=name, **attributes))
        return name

    def quantized(self, real: str, scale: float = SCALE, zero: int = ZERO, dtype: str = "int8") -> str:
        params = [self.constant(scale), self.constant(zero, dtype)]
        self.nodes.append(
            helper.make_node("QuantizeLinear", [real, *params], [f"{real}_q"], name=f"{real}_q")
        )
        return f"{real}_q"

    def model(self, *outputs: str, dtype: str = "int8") -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        made = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
        held = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "one", self.inputs, made, held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def weights(shape: Sequence[int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-127, 128, tuple(shape)).astype(np.int8)


def random_inputs(model: onnx.ModelProto, seed: int = 0) -> list[np.ndarray]:
    """Return random inputs over the whole range of their dtypes."""
    rng, arrays = np.random.default_rng(seed), []
    for value in model.graph.input:
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if dtype == np.bool_:
            arrays.append(rng.random(shape) < 0.5)
            continue
        info = np.iinfo(dtype)
        arrays.append(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
    return arrays
