# SPDX-License-Identifier: Apache-2.0
"""Float layers of a QDQ model computed in binary16, in standard ONNX: with Cast nodes and binary16 constants.

    x ─ DQ ─ Conv(w, b) ─ Relu ─ Q    →    x ─ DQ ─ Cast(float16) ─ Conv(f16(w), f16(b)) ─ Relu ─ Cast(float) ─ Q

Values between two such nodes stay in binary16. As in the phase `precision`, products, elementwise operators that follow
them and operators that move data take part; softmax, means, sums and norms keep binary32, since they add up.
"""

from collections.abc import Collection

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError

# fmt: off
IN_HALVES = frozenset({
    "Abs", "Add", "Clip", "Concat", "Conv", "ConvTranspose", "DepthToSpace", "Div", "Flatten", "Gemm", "HardSigmoid",
    "HardSwish", "Identity", "LeakyRelu", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg", "PRelu", "Relu", "Reshape",
    "Sigmoid", "Slice", "SpaceToDepth", "Split", "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze",
})
# fmt: on
"""Operators that can be in binary16: all operands of float, and the result, have one type."""

_LARGEST = float(np.finfo(np.float16).max)


def with_float16_nodes(model: onnx.ModelProto, nodes: Collection[str]) -> onnx.ModelProto:
    """Return a QDQ model in which some float nodes compute in binary16.

    Args:
        model: The QDQ model, in which these nodes are in float.
        nodes: Names of nodes.

    Raises:
        ModelError: onnx cannot infer the types of the model's values.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if not nodes:
        return copy
    halves = _Halves(copy, frozenset(nodes))
    changed = halves.nodes()
    del copy.graph.node[:]
    copy.graph.node.extend(changed)
    copy.graph.initializer.extend(halves.constants.values())
    _drop_unread(copy)
    return copy


class _Halves:
    """Rewrites the nodes of a graph in order, some of them to binary16.

    Attributes:
        constants: Constants in binary16, by name.
    """

    def __init__(self, model: onnx.ModelProto, names: frozenset[str]) -> None:
        self.constants: dict[str, TensorProto] = {}
        self._graph, self._names = model.graph, names
        self._held = {tensor.name: tensor for tensor in model.graph.initializer}
        self._floats = _float_tensors(model)
        self._halved: dict[str, str] = {}
        self._added: list[NodeProto] = []

    def nodes(self) -> list[NodeProto]:
        """Return the graph's nodes, with the named ones in binary16."""
        outputs = {value.name for value in self._graph.output}
        wanted = [node for node in self._graph.node if self._is_half(node)]
        inside = {node.name for node in wanted}
        outside = {
            name for node in self._graph.node if node.name not in inside for name in node.input
        } | outputs
        for node in self._graph.node:
            if node.name not in inside:
                self._added.append(node)
                continue
            made = NodeProto.FromString(node.SerializeToString())
            made.input[:] = [self._half(name) if name in self._floats else name for name in node.input]
            made.output[:] = [f"{name}/float16" for name in node.output]
            self._added.append(made)
            for name in node.output:
                self._halved[name] = f"{name}/float16"
                if name in outside:
                    self._cast(f"{name}/float16", name, TensorProto.FLOAT)
        return self._added

    def _is_half(self, node: NodeProto) -> bool:
        """Whether a node is to be computed in binary16, and all its outputs are floats."""
        return node.name in self._names and node.op_type in IN_HALVES and self._floats.issuperset(node.output)

    def _half(self, name: str) -> str:
        """Return the binary16 tensor of a value; add it if there is none yet."""
        if name not in self._halved:
            self._halved[name] = new = f"{name}/float16"
            if name in self._held:
                value = np.clip(numpy_helper.to_array(self._held[name]), -_LARGEST, _LARGEST)
                self.constants[new] = numpy_helper.from_array(value.astype(np.float16), new)
            else:
                self._cast(name, new, TensorProto.FLOAT16)
        return self._halved[name]

    def _cast(self, source: str, result: str, to: int) -> None:
        self._added.append(helper.make_node("Cast", [source], [result], f"{result}/cast", to=to))


def _float_tensors(model: onnx.ModelProto) -> set[str]:
    """Return the names of all tensors of float32."""
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except onnx.shape_inference.InferenceError as err:
        raise ModelError(f"{model.graph.name}: float16 needs the types of its values ({err})") from err
    values = (*graph.input, *graph.output, *graph.value_info)
    return {
        *(value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT),
        *(tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.FLOAT),
    }


def _drop_unread(model: onnx.ModelProto) -> None:
    """Remove constants that no node reads any more, and outdated types of tensors."""
    graph = model.graph
    read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    del graph.value_info[:]
