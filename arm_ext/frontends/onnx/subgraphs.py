# SPDX-License-Identifier: Apache-2.0
"""Inlining of a subgraph's nodes into the graph, with unused names."""

from collections.abc import Sequence

from onnx import AttributeProto, GraphProto, NodeProto, numpy_helper

from arm_ext.frontends.onnx.expansion import Expansion


def adopt_graph(e: Expansion, graph: GraphProto, inputs: Sequence[str]) -> list[str]:
    """Add a subgraph's nodes, with its inputs bound to values of the graph; return the names of its outputs."""
    names = {value.name: given for value, given in zip(graph.input, inputs, strict=True)}
    for tensor in graph.initializer:
        names[tensor.name] = e.constant(numpy_helper.to_array(tensor))
    for node in graph.node:
        e.adopt(renamed(node, e, names))
    return [names.get(value.name, value.name) for value in graph.output]


def renamed(node: NodeProto, e: Expansion, names: dict[str, str]) -> NodeProto:
    """Return a copy of a node with its values renamed by `names`, to which new names of outputs are added."""
    new = NodeProto()
    new.CopyFrom(node)
    del new.input[:], new.output[:]
    new.input.extend(names.get(name, name) for name in node.input)
    for name in node.output:
        if name and name not in names:
            names[name] = e.fresh(name)
        new.output.append(names.get(name, ""))
    for attribute in new.attribute:
        if attribute.type == AttributeProto.GRAPH:
            _rename_within(attribute.g, e, dict(names))
    return new


def _rename_within(graph: GraphProto, e: Expansion, names: dict[str, str]) -> None:
    for value in (*graph.input, *graph.initializer):
        names[value.name] = value.name = e.fresh(value.name)
    nodes = [renamed(node, e, names) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    for value in graph.output:
        value.name = names.get(value.name, value.name)
