# SPDX-License-Identifier: Apache-2.0
"""Layers of a QDQ model with 16-bit activations; their weights stay 8-bit.

    x ─ Q8 ─ DQ8 ─ Conv ─ Q8 ─ DQ8 ─ …    →    x ─ Q16 ─ DQ16 ─ Conv ─ Relu ─ Q16 ─ DQ16 ─ …

A layer in int16 reads 16 bits, and so do others that read the same tensors. What it computes has 16 bits where a layer
in int16 reads it, or nothing does: an output of the model. The range is symmetric: the end of the 8-bit range that is
further from 0 becomes 32767, and the zero point is 0. An activation that the zero point of 8 bits had covered is
computed again. Constants such as biases are the source's, but for weights.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

from arm_ext.quantization.float16_layers import with_float16_nodes
from arm_ext.quantization.float_layers import replace_nodes, units_of, with_activations, with_float_nodes
from arm_ext.quantization.layers import ANCHORS, DEQUANTIZE, QUANTIZE, Array, Matching, QdqLayer
from arm_ext.quantization.opset import at_least_opset

_OPSET = 21
"""The first opset whose QuantizeLinear has int16."""

_IR_VERSION = 10
_LARGEST = 32767
_WEIGHTS = (0, 1)
"""Places of weights among the inputs of a product."""


def with_int16_nodes(matching: Matching, nodes: Collection[str]) -> onnx.ModelProto:
    """Return the QDQ model with int16 for the quantised tensors that the given source nodes read.

    Raises:
        ModelError: onnx cannot convert the model to an opset with int16.
    """
    wide = _wide(matching, nodes)
    quantized = matching.quantized.proto
    copy = onnx.ModelProto()
    if not wide:
        copy.CopyFrom(quantized)
        return copy
    copy.CopyFrom(at_least_opset(quantized, quantized.graph.name, _OPSET))
    copy.ir_version = max(copy.ir_version, _IR_VERSION)
    del copy.graph.value_info[:]  # they may say int8
    sources = {node.name: node for node in matching.source.proto.graph.node}
    added: dict[str, onnx.TensorProto] = {}

    def constant(name: str, value: Array) -> str:
        added[name] = numpy_helper.from_array(value, name)
        return name

    def exact(name: str) -> str:
        return constant(f"{name}/float", matching.source.constants[name])

    changed: list[NodeProto] = []
    for node in copy.graph.node:
        changed.append(node)
        root = matching.roots.get(node.output[0], "")
        if node.op_type in (QUANTIZE, DEQUANTIZE):
            if root in wide:
                scale = max(abs(end) for layer in wide[root] for end in _limits(layer)) / _LARGEST
                node.input[1:] = [
                    constant(f"{root}/int16/scale", np.array(scale, np.float32)),
                    constant(f"{root}/int16/zero_point", np.array(0, np.int16)),
                ]
                del node.attribute[:]
            continue
        if node.name in sources and any(matching.roots.get(name) in wide for name in node.input):
            _take_constants(matching, node, sources[node.name], exact)
        if root in wide and (
            again := with_activations(matching, wide[root][0], (f"{root}/linear", root), exact)
        ):
            node.output[0] = f"{root}/linear"
            changed += again
    replace_nodes(copy, changed, added.values())
    return copy


def _take_constants(
    matching: Matching, node: NodeProto, source: NodeProto, exact: Callable[[str], str]
) -> None:
    """Replace a node's quantised constants, except weights, by the float constants of its source node."""
    for place, (name, original) in enumerate(zip(node.input, source.input, strict=False)):
        before = matching.quantized.producers.get(name)
        is_quantized = before is not None and before.op_type == DEQUANTIZE
        is_weight = node.op_type in ANCHORS and place in _WEIGHTS
        if is_quantized and original in matching.source.constants and not is_weight:
            node.input[place] = exact(original)


def with_nodes(
    matching: Matching, *, keep_float: Collection[str], int16: Collection[str], float16: Collection[str]
) -> onnx.ModelProto:
    """Return the QDQ model with some layers in float32 or binary16, and others with int16 activations.

    Args:
        matching: The QDQ model, matched with its source.
        keep_float: Source nodes in float32.
        int16: Source nodes that read int16.
        float16: Source nodes in binary16.

    Raises:
        ModelError: As `with_int16_nodes` and `with_float16_nodes`.
    """
    model = with_float_nodes(matching, {*keep_float, *float16})
    if int16:
        model = with_int16_nodes(Matching(matching.source.proto, model), int16)
    return with_float16_nodes(model, float16)


def without_effect(matching: Matching, nodes: Collection[str]) -> list[str]:
    """Return the nodes for which int16 has no effect: no node of their layer reads integers.

    A dropped activation belongs to a layer whose product reads integers.
    """
    uses = _TensorUses.of(matching)
    changed = set().union(*uses.nodes.values()) & set(nodes)
    owners = {node: unit.nodes for unit in units_of(matching) for node in unit.nodes}
    return [node for node in nodes if changed.isdisjoint(owners.get(node, (node,)))]


def _limits(layer: QdqLayer) -> tuple[float, float]:
    quantizer = layer.quantizer or layer.dequantizer
    assert quantizer is not None
    return quantizer.limits


@dataclass(frozen=True)
class _TensorUses:
    """Uses of quantised tensors.

    Operators that only move integers do not count: their dtype follows from what they read.

    Attributes:
        layers: Layers of each quantised tensor, by the tensor's root.
        origins: Root → the root that its integers were computed as.
        nodes: Origin → the nodes that read it; if none does, those that compute it: an output of the model.
    """

    layers: Mapping[str, list[QdqLayer]]
    origins: Mapping[str, str]
    nodes: Mapping[str, Collection[str]]

    @classmethod
    def of(cls, matching: Matching) -> "_TensorUses":
        """Return the uses in a QDQ model."""
        quantized = matching.quantized
        layers = defaultdict[str, list[QdqLayer]](list)
        for layer in matching.layers:
            if layer.quantizer is not None and layer.dequantizer is not None:
                layers[layer.root].append(layer)
        moves = {root: quantized.producers[root] for root, own in layers.items() if own[0].moved}

        def origin(root: str) -> str:
            return origin(matching.roots[moves[root].input[0]]) if root in moves else root

        moving = {node.name for node in moves.values()}
        readers, computed = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for root, own in layers.items():
            computed[origin(root)].update(name for layer in own for name in layer.nodes)
        for node in quantized.proto.graph.node:
            if node.op_type not in (QUANTIZE, DEQUANTIZE) and node.name not in moving:
                for name in node.input:
                    readers[origin(matching.roots.get(name, ""))].add(node.name)
        nodes = {root: readers[root] or computed[root] for root in computed}
        return cls(layers, {root: origin(root) for root in layers}, nodes)


def _wide(matching: Matching, nodes: Collection[str]) -> Mapping[str, list[QdqLayer]]:
    """Return, for each tensor that becomes int16, the layers with its root: root → layers."""
    uses = _TensorUses.of(matching)
    found = {root for root, using in uses.nodes.items() if not set(using).isdisjoint(nodes)}
    return {root: own for root, own in uses.layers.items() if uses.origins[root] in found}
