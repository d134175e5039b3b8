# SPDX-License-Identifier: Apache-2.0
"""Conversion of a QDQ model's layers back to float.

    x ─ Q ─ DQ ─ Conv(DQ(w), DQ(b)) ─ Q ─ DQ ─ …    →    x ─ Q ─ DQ ─ Conv(w, b) ─ Relu ─ …

Their weights are the source's again. A tensor stays quantised while anything in integers computes or reads it; where
nothing does, an activation that its quantiser had covered is computed again.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import onnx
from onnx import NodeProto, numpy_helper

from arm_ext.quantization.layers import DEQUANTIZE, QUANTIZE, Matching, QdqLayer


@dataclass(frozen=True)
class IntegerLayer:
    """A quantised layer that can be put back to float.

    Attributes:
        name: Name of the layer.
        nodes: Source nodes of the layer, and those that only move its values.
    """

    name: str
    nodes: tuple[str, ...]


def units_of(matching: Matching) -> list[IntegerLayer]:
    """Return the layers that can be put back to float, in execution order."""
    twins = {node.name for node in matching.quantized.proto.graph.node}
    found: dict[str, tuple[str, ...]] = {}
    owners: dict[str, str] = {}
    for layer in matching.layers:
        if not layer.nodes or layer.integers is None or layer.name not in twins:
            continue
        before = matching.source.producers.get(_first(matching, layer))
        owner = owners.get(before.name, layer.name) if layer.moved and before is not None else layer.name
        nodes = (*found.get(owner, ()), *layer.nodes)
        found[owner] = tuple(dict.fromkeys(nodes))
        owners.update(dict.fromkeys(layer.nodes, owner))
    return [IntegerLayer(name, nodes) for name, nodes in found.items()]


def with_float_nodes(matching: Matching, kept: Collection[str]) -> onnx.ModelProto:
    """Return the QDQ model with the given source nodes, which form complete layers, in float."""
    copy = onnx.ModelProto()
    copy.CopyFrom(matching.quantized.proto)
    sources = {node.name: node for node in matching.source.proto.graph.node}
    added: dict[str, onnx.TensorProto] = {}

    def constant(name: str) -> str:
        new = f"{name}/float"
        added[new] = numpy_helper.from_array(matching.source.constants[name], new)
        return new

    for node in copy.graph.node:
        source = sources.get(node.name)
        if node.name not in kept or source is None:
            continue
        for place, (name, exact) in enumerate(zip(node.input, source.input, strict=False)):
            before = matching.quantized.producers.get(name)
            held = before is not None and before.op_type == DEQUANTIZE and exact in matching.source.constants
            if held:
                node.input[place] = constant(exact)
    open_values = {layer.value: layer for layer in matching.layers if _is_open(matching, layer, kept)}
    nodes: list[NodeProto] = []
    for node in copy.graph.node:
        if node.op_type != DEQUANTIZE or node.output[0] not in open_values:
            nodes.append(node)
            continue
        layer = open_values[node.output[0]]
        again = with_activations(matching, layer, (layer.root, layer.value), constant)
        copied = onnx.helper.make_node("Identity", [layer.root], [layer.value], f"{layer.value}/float")
        nodes += again or [copied]
    replace_nodes(copy, nodes, added.values())
    return copy


def with_activations(
    matching: Matching, layer: QdqLayer, ends: tuple[str, str], constant: Callable[[str], str]
) -> list[NodeProto]:
    """Return the activations that the quantiser had fused into a layer.

    Args:
        matching: The matching that the layer is of.
        layer: A layer in integers.
        ends: The tensors that the first one reads, and that the last one computes.
        constant: Adds a constant of the source to the model, and returns its name.
    """
    twins = {node.name for node in matching.quantized.proto.graph.node}
    sources = {node.name: node for node in matching.source.proto.graph.node}
    nodes = [
        NodeProto.FromString(sources[name].SerializeToString())
        for name in layer.nodes
        if name in sources and name not in twins
    ]
    tensor, last = ends
    for node in nodes:
        node.input[:] = [tensor, *(name and constant(name) for name in node.input[1:])]
        tensor = node.output[0] = last if node is nodes[-1] else f"{last}/{node.name}"
    return nodes


def _first(matching: Matching, layer: QdqLayer) -> str:
    """Return the source's tensor that is read by a layer that only moves elements."""
    node = matching.source.producers.get(layer.source)
    return node.input[0] if node is not None else ""


def _is_open(matching: Matching, layer: QdqLayer, kept: Collection[str]) -> bool:
    """Whether all nodes that compute or read a layer's value are in float."""
    readers = {node.name for node in matching.quantized.readers.get(layer.value, [])}
    return layer.integers is not None and {*layer.nodes, *readers}.issubset(kept)


def _read(nodes: list[NodeProto], outputs: set[str]) -> list[NodeProto]:
    """Return the nodes without quantise and dequantise nodes whose results are unused."""
    used = outputs | {name for node in nodes for name in node.input}
    kept = [n for n in nodes if n.op_type not in (QUANTIZE, DEQUANTIZE) or used & set(n.output)]
    return kept if len(kept) == len(nodes) else _read(kept, outputs)


def replace_nodes(
    model: onnx.ModelProto, nodes: list[NodeProto], constants: Iterable[onnx.TensorProto]
) -> None:
    """Replace a model's nodes and add constants; quantise and dequantise nodes with unused results are left out."""
    used = _read(nodes, {value.name for value in model.graph.output})
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in used]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    model.graph.initializer.extend(constants)
