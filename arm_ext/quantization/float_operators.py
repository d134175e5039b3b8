# SPDX-License-Identifier: Apache-2.0
"""Operators of a QDQ model that were left in float, quantised like those around them.

    DQ ─ Softmax ─ Erf ─ Q    →    DQ ─ Softmax ─ Q ─ DQ ─ Erf ─ Q

Ranges are of a few samples; what is quantised already keeps its parameters.
"""

from collections.abc import Collection, Sequence

import onnx

from arm_ext.quantization.float_layers import replace_nodes
from arm_ext.quantization.layers import DEQUANTIZE, QUANTIZE, Graph
from arm_ext.quantization.static import inserted_qdq
from arm_ext.quantization.steps import Feed

_CONVERSIONS = (QUANTIZE, DEQUANTIZE)


def with_quantized_nodes(
    model: onnx.ModelProto, nodes: Collection[str], feeds: Sequence[Feed]
) -> onnx.ModelProto | None:
    """Return a QDQ model in which some nodes read and give int8, too; None if they do so already.

    Args:
        model: A QDQ model whose nodes all have names and whose values have shapes.
        nodes: Names of nodes.
        feeds: Samples that ranges are taken from.

    Raises:
        ModelError: onnxruntime cannot run or quantise the model.
    """
    wanted = [
        node.name for node in model.graph.node if node.name in nodes and node.op_type not in _CONVERSIONS
    ]
    if not wanted:
        return None
    given = _with_names_apart(model)
    others = [node.name for node in given.graph.node if node.name not in wanted]
    made = inserted_qdq(given, feeds, others)
    graph, own = Graph(made), {node.name for node in given.graph.node}
    for node in made.graph.node:
        if node.op_type == QUANTIZE and node.name in own:
            node.input[0] = _before_new(graph, node, own)
    replace_nodes(made, list(made.graph.node), ())
    return made if _conversions(made) > _conversions(model) else None


def _with_names_apart(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with other names for its conversions than the quantiser gives its own."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    outputs = {value.name for value in copy.graph.output}
    conversions = [node for node in copy.graph.node if node.op_type in _CONVERSIONS]
    names = {name: f"{name}/given" for node in conversions for name in node.output if name not in outputs}
    for node in copy.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        if node.op_type in _CONVERSIONS:
            node.name = f"{node.name}/given"
    for value in copy.graph.value_info:
        value.name = names.get(value.name, value.name)
    return copy


def _before_new(graph: Graph, node: onnx.NodeProto, own: Collection[str]) -> str:
    """Return the input of a QuantizeLinear, or of the new pair of conversions in front of it, if there is one."""
    last = graph.producers.get(node.input[0])
    first = graph.producers.get(last.input[0]) if last is not None and last.op_type == DEQUANTIZE else None
    if first is not None and first.op_type == QUANTIZE and first.name not in own:
        return str(first.input[0])
    return str(node.input[0])


def _conversions(model: onnx.ModelProto) -> int:
    return sum(node.op_type == QUANTIZE for node in model.graph.node)
