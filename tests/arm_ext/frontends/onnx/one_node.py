# SPDX-License-Identifier: Apache-2.0
"""ONNX models of one quantised node."""

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

MS = "com.microsoft"


@dataclass
class OneNode:
    """A model of one node, "q"; its inputs are added in their order. `gaps` are the outputs that it does not have."""

    op: str
    domain: str = MS
    opset: int = 17
    outputs: tuple[str, ...] = ("uint8",)
    attributes: dict[str, object] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    gaps: tuple[int, ...] = ()
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def take(self, dtype: str, *shape: int) -> "OneNode":
        """Add a run-time input."""
        name = f"x{len(self.names)}"
        self.inputs.append(helper.make_tensor_value_info(name, _elem(dtype), shape))
        self.names.append(name)
        return self

    def hold(self, value: object, dtype: str = "float32") -> "OneNode":
        """Add a constant."""
        name = f"c{len(self.names)}"
        self.weights.append(numpy_helper.from_array(np.array(value, dtype), name))
        self.names.append(name)
        return self

    def weight(self, dtype: str, *shape: int) -> "OneNode":
        return self.hold(self._draw(dtype, shape), dtype)

    def params(self, scale: object, zero_point: object, dtype: str) -> "OneNode":
        return self.hold(scale).hold(zero_point, dtype)

    def skip(self) -> "OneNode":
        """Leave an optional input out."""
        self.names.append("")
        return self

    def build(self) -> onnx.ModelProto:
        """Return the model; its outputs have no shapes yet."""
        named = ["" if k in self.gaps else f"y{k}" for k in range(len(self.outputs))]
        node = helper.make_node(self.op, self.names, named, name="q", domain=self.domain, **self.attributes)
        ends = [
            helper.make_tensor_value_info(y, _elem(dtype), None)
            for y, dtype in zip(named, self.outputs, strict=True)
            if y
        ]
        graph = helper.make_graph([node], "g", self.inputs, ends, self.weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def values(self) -> list[np.ndarray]:
        """Return run-time inputs, integers over the whole range of their dtypes."""
        types = [value.type.tensor_type for value in self.inputs]
        return [
            self._draw(
                np.dtype(helper.tensor_dtype_to_np_dtype(ty.elem_type)).name,
                tuple(d.dim_value for d in ty.shape.dim),
            )
            for ty in types
        ]

    def _draw(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        if dtype == "float32":
            return self.rng.standard_normal(shape).astype(dtype)
        low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return self.rng.integers(low, high, shape, endpoint=True).astype(dtype)


def _elem(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def set_output_shapes(proto: onnx.ModelProto, outputs: list[np.ndarray]) -> None:
    """Declare the outputs' shapes, as every exporter does."""
    for value, output in zip(proto.graph.output, outputs, strict=True):
        elem = value.type.tensor_type.elem_type
        value.type.CopyFrom(helper.make_tensor_type_proto(elem, output.shape))
