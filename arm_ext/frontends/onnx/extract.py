# SPDX-License-Identifier: Apache-2.0
"""Extraction of one ONNX node with its surroundings as a small model for a bug report.

    … → DequantizeLinear → Conv → Relu → QuantizeLinear → …    →    these four, the weights, and an input of x's shape

What surrounds a quantised node says how it is computed, and stays with it. What follows from constants is kept;
weights are the model's own. Nothing is compiled, so models that cannot be imported can be taken apart, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from arm_ext.common.errors import ArmExtError, ModelError, UsageError
from arm_ext.common.names import near, node_of
from arm_ext.common.outputs import checked_file, refuse_inputs, write_file
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.load import is_onnx
from arm_ext.frontends.onnx.check import set_input_shapes
from arm_ext.frontends.onnx.external_files import with_external_files
from arm_ext.frontends.onnx.functions import inline_model_functions
from arm_ext.frontends.onnx.importer import input_specs, read_onnx
from arm_ext.frontends.onnx.program import name_nodes
from arm_ext.frontends.onnx.shapes import fold_shapes
from arm_ext.frontends.onnx.values import is_static, value_types, values_read
from arm_ext.frontends.onnx.weights import weight_bytes, without_weights

# Activations that a quantiser fuses into the preceding operator.
_ACTIVATIONS = ("Clip", "LeakyRelu", "Relu")


# Key of the model's metadata that names the extracted node. A file with this key may be overwritten.
_MARK = "arm_ext.saved_node"


@dataclass(frozen=True)
class SavedNode:
    """Where `save_node` wrote the extracted model, and what the model contains.

    Attributes:
        path: The file.
        nodes: Name → operator: the node, and what surrounds it.
        inputs: The model's inputs, described.
        weight_bytes: Bytes of the source's weights that are in it.
    """

    path: Path
    nodes: dict[str, str]
    inputs: list[str]
    weight_bytes: int

    def document(self) -> dict[str, object]:
        """Return the fields as a JSON object."""
        return {**asdict(self), "path": str(self.path)}


def save_node(model: str | Path | onnx.ModelProto, node: str, output: Path, shapes: Shapes) -> SavedNode:
    """Write a model around a node of an ONNX model.

    Args:
        model: A path, or a loaded model.
        node: Name of the node, as messages and reports give it.
        output: The file.
        shapes: Input name → static shape, for the model's inputs with dynamic dimensions.

    Raises:
        UsageError: There is no such node; the file is no ONNX model; a shape is missing; there is another file at
            `output`, or it cannot be written.
        EnvError: The disk is full.
        ModelError: The type of one of its inputs cannot be found out.
    """
    checked_file(output, "-o")
    refuse_inputs(
        output, "-o", with_external_files([] if isinstance(model, onnx.ModelProto) else [Path(model)])
    )
    if output.exists() and not _is_ours(output):
        raise UsageError(
            f"{output}: --save-node did not write it; move it away, or name another file with -o"
        )
    if not isinstance(model, onnx.ModelProto) and Path(model).is_file() and not is_onnx(Path(model)):
        raise UsageError(f"{model}: --save-node takes ONNX models; of others, attach the model itself")
    proto, name, _ = read_onnx(model)
    set_input_shapes(proto, shapes)
    inline_model_functions(proto)
    name_nodes(proto.graph)
    small = _around(proto, node, name)
    onnx.helper.set_model_props(small, {_MARK: node})
    write_file(output, small.SerializeToString(), "-o")
    return SavedNode(
        output,
        {node.name: node.op_type for node in small.graph.node},
        [spec.describe() for spec in input_specs(small.graph)],
        weight_bytes(small),
    )


def _is_ours(path: Path) -> bool:
    try:
        found = onnx.load(path, load_external_data=False)
    except (DecodeError, OSError):
        return False
    return any(prop.key == _MARK for prop in found.metadata_props)


class _Graph:
    """A graph's weights, and the producer and consumers of each of its values."""

    def __init__(self, proto: onnx.ModelProto, name: str) -> None:
        self.weights = {tensor.name: tensor for tensor in proto.graph.initializer} | _folded(proto, name)
        self.producers: dict[str, NodeProto] = {}
        self.consumers: dict[str, list[NodeProto]] = {}
        self._constants = set(self.weights)
        for node in proto.graph.node:
            read = set(values_read(node))
            for value in read:
                self.consumers.setdefault(value, []).append(node)
            self.producers.update((value, node) for value in node.output if value)
            if read <= self._constants:
                self._constants.update(node.output)

    def before(self, value: str) -> NodeProto | None:
        """Return the node that computes a value, if the value is constant or the node a DequantizeLinear; else None."""
        node = self.producers.get(value)
        if node is None or (node.op_type != "DequantizeLinear" and value not in self._constants):
            return None
        return node

    def after(self, node: NodeProto) -> list[NodeProto]:
        """Return the activations after a node up to its QuantizeLinear.

        [] if it has none or if a value has two consumers.
        """
        chain: list[NodeProto] = []
        while len(node.output) == 1 and len(users := self.consumers.get(node.output[0], [])) == 1:
            (node,) = users
            chain.append(node)
            if node.op_type == "QuantizeLinear":
                return chain
            if node.op_type not in _ACTIVATIONS:
                break
        return []


def _around(proto: onnx.ModelProto, name: str, model: str) -> onnx.ModelProto:
    nodes = {node.name: node for node in proto.graph.node}
    found = node_of(name, nodes)
    if found is None:
        raise UsageError(f"{model} has no node '{name}'; {near(name, nodes)}")
    name = found
    graph = _Graph(proto, model)
    chosen = [nodes[name], *(graph.after(nodes[name]) if nodes[name].op_type != "DequantizeLinear" else [])]
    inside = {value for node in chosen for value in node.output}
    wanted = {node.name for node in chosen}
    inputs, weights = dict[str, None](), dict[str, TensorProto]()
    pending = [value for node in chosen for value in values_read(node) if value not in inside]
    while pending:
        value = pending.pop()
        if value in graph.weights:
            weights[value] = graph.weights[value]
        elif (source := graph.before(value)) is not None:
            wanted.add(source.name)
            pending += values_read(source)
        else:
            inputs[value] = None
    kept = [node for node in proto.graph.node if node.name in wanted]
    outputs = [value for value in chosen[-1].output if value]
    types = value_types(proto, [*inputs, *outputs])
    return _assembled(proto, kept, (sorted(inputs), outputs), weights, types)


def _folded(proto: onnx.ModelProto, name: str) -> dict[str, TensorProto]:
    """Return values that follow from shapes, as constants."""
    light = without_weights(proto)
    try:
        fold_shapes(light, name)
    except ArmExtError:  # the model's shapes contradict each other; nothing is folded
        return {}
    values = {
        n.output[0]: helper.get_attribute_value(n.attribute[0])
        for n in light.graph.node
        if n.op_type == "Constant"
    }
    for output, tensor in values.items():
        tensor.name = output
    return values


def _assembled(
    proto: onnx.ModelProto,
    nodes: Iterable[NodeProto],
    ends: tuple[Iterable[str], Iterable[str]],
    weights: Mapping[str, TensorProto],
    types: Mapping[str, onnx.TypeProto],
) -> onnx.ModelProto:
    inputs, outputs = ends
    if unknown := [value for value in inputs if value not in types or not is_static(types[value])]:
        raise ModelError(
            f"the type of {', '.join(unknown)} is not known: neither onnx infers it, nor can onnxruntime run the model "
            "up to it. Write it into the model's value_info"
        )
    # The output type of an unknown domain's node may be anything.
    anything = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    graph = helper.make_graph(
        list(nodes),
        proto.graph.name or "graph",
        [ValueInfoProto(name=value, type=types[value]) for value in inputs],
        [ValueInfoProto(name=value, type=types.get(value, anything)) for value in outputs],
        list(weights.values()),
    )
    return helper.make_model(
        graph,
        opset_imports=proto.opset_import,
        ir_version=proto.ir_version,
        producer_name=proto.producer_name,
    )
