# SPDX-License-Identifier: Apache-2.0
"""Traversal of a graph's nodes, including those of its branches and loops."""

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, NodeProto

from arm_ext.common.text import shown


def nodes_within(graph: GraphProto) -> Iterator[NodeProto]:
    """Yield the nodes of a graph, each followed by the nodes of its subgraphs."""
    for node in graph.node:
        yield node
        yield from nodes_inside(node)


def nodes_inside(node: NodeProto) -> Iterator[NodeProto]:
    """Yield the nodes of a node's subgraphs, each followed by the nodes of its own subgraphs."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield from nodes_within(attribute.g)


def name_of(node: NodeProto) -> str:
    """Return the name by which messages show a node: its own, else its first output's, else its operator's."""
    return shown(node.name or next((output for output in node.output if output), node.op_type))
