# SPDX-License-Identifier: Apache-2.0
"""Collects the nodes of a random ONNX graph; hypothesis makes every choice, so that a failing graph shrinks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

T = TypeVar("T")

OPSET, IR_VERSION = 17, 9
SEEDS = 1 << 16


class Draw(Protocol):
    """hypothesis' way to choose."""

    def __call__(self, strategy: st.SearchStrategy[T], label: object = None) -> T: ...


@dataclass(frozen=True)
class Value:
    """A float32 tensor of the graph."""

    name: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Unit:
    """Nodes that one step made. A quantiser may treat them as one operator."""

    name: str
    nodes: tuple[str, ...]


@dataclass
class Builder:
    """A float graph as it grows."""

    draw: Draw
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: list[Value] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)

    def pick(self, options: Sequence[T]) -> T:
        """Choose; the first option is the one to shrink to."""
        return self.draw(st.sampled_from(options)) if len(options) > 1 else options[0]

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.draw(st.integers(0, SEEDS - 1)))

    def input(self, shape: Sequence[int]) -> Value:
        value = Value(f"x{len(self.inputs)}", tuple(shape))
        self.inputs.append(value)
        return value

    def constant(self, array: np.ndarray | float) -> Value:
        array = np.asarray(array)
        name = f"c{len(self.weights)}"
        self.weights[name] = array.astype(np.float32) if array.dtype.kind == "f" else array
        return Value(name, array.shape)

    def integers(self, *values: int) -> Value:
        return self.constant(np.array(values, np.int64))

    def uniform(self, shape: Sequence[int], low: float = -1.0, high: float = 1.0) -> Value:
        return self.constant(self.rng().uniform(low, high, shape))

    def node(self, op: str, inputs: Sequence[Value | None], shape: Sequence[int], **attributes: Any) -> Value:
        """Append a node with one output of the given shape."""
        return self.nodes_outputs(op, inputs, [shape], **attributes)[0]

    def nodes_outputs(
        self, op: str, inputs: Sequence[Value | None], shapes: Sequence[Sequence[int]], **attributes: Any
    ) -> list[Value]:
        """Append a node with several outputs."""
        name = f"{op}{len(self.nodes)}"
        outputs = [Value(f"{name}_{index}", tuple(shape)) for index, shape in enumerate(shapes)]
        names = ["" if value is None else value.name for value in inputs]
        self.nodes.append(helper.make_node(op, names, [out.name for out in outputs], name=name, **attributes))
        return outputs

    def model(self, outputs: Sequence[Value]) -> onnx.ModelProto:
        """The float model."""
        return make_model(
            self.nodes,
            [helper.make_tensor_value_info(x.name, TensorProto.FLOAT, x.shape) for x in self.inputs],
            [helper.make_tensor_value_info(y.name, TensorProto.FLOAT, y.shape) for y in outputs],
            self.weights,
        )


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: dict[str, np.ndarray],
) -> onnx.ModelProto:
    """A model that holds those of the weights that its nodes read."""
    read = {name for node in nodes for name in node.input}
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items() if name in read]
    graph = helper.make_graph(nodes, "random", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
