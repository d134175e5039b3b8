# SPDX-License-Identifier: Apache-2.0
"""Division of ONNX graphs at run-time control flow into separate models.

    a, If(a), b(If)    →    before: a;  decisions: If;  after: b

A value that a part reads from outside becomes an input of its model. Constants are copied, and so is the
DequantizeLinear of a value, without which integers would not stay integers across a cut.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from arm_ext.frontends.onnx.expansion import domain_of

_DECISIONS = ("If", "Loop")


@dataclass(frozen=True)
class GraphCut:
    """A graph in three parts: nodes before any control flow, the first control-flow nodes, and all later nodes."""

    before: list[NodeProto]
    decisions: list[NodeProto]
    after: list[NodeProto]


def cut(graph: GraphProto) -> GraphCut:
    """Divide a graph, whose nodes are in topological order, at its first control-flow nodes."""
    parts = GraphCut([], [], [])
    late: set[str] = set()
    for node in graph.node:
        is_late = not late.isdisjoint(reads([node]))
        decides = not domain_of(node) and node.op_type in _DECISIONS
        if is_late or decides:
            late.update(node.output)
        (parts.after if is_late else parts.decisions if decides else parts.before).append(node)
    return parts


def reads(nodes: Iterable[NodeProto]) -> list[str]:
    """Return, each once, the values that nodes or their subgraphs read and none of the nodes computes."""
    found: dict[str, None] = {}
    own: set[str] = set()
    for node in nodes:
        for name in (*node.input, *(name for graph in subgraphs(node) for name in captures(graph))):
            if name and name not in own:
                found[name] = None
        own.update(node.output)
    return list(found)


def captures(graph: GraphProto) -> list[str]:
    """Return the values of the enclosing graph that a subgraph reads or returns."""
    own = {value.name for value in (*graph.input, *graph.initializer)}
    computed = {name for node in graph.node for name in node.output}
    given = [value.name for value in graph.output if value.name not in computed]
    return [name for name in dict.fromkeys((*reads(graph.node), *given)) if name not in own]


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs among a node's attributes."""
    return (a.g for a in node.attribute if a.type == AttributeProto.GRAPH)


class Surroundings:
    """A graph's constants and DequantizeLinear nodes with constant scales, copied into each part that reads them."""

    def __init__(self, model: ModelProto) -> None:
        """Record the constants of a model that is to be cut into parts."""
        self._model = model
        graph = model.graph
        self.constants: dict[str, TensorProto] = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
        self._dequantized = {node.output[0]: node for node in graph.node if self._is_dequantized(node)}

    def _is_dequantized(self, node: NodeProto) -> bool:
        """Whether a node dequantises integers by a constant scale and zero point."""
        return node.op_type == "DequantizeLinear" and all(
            name in self.constants for name in node.input[1:] if name
        )

    def needed(self, names: Iterable[str]) -> list[str]:
        """Return the non-constant values that a part needs as inputs; for a dequantised value, its integers."""
        values = (self._dequantized[n].input[0] if n in self._dequantized else n for n in names)
        return [name for name in dict.fromkeys(values) if name not in self.constants]

    def model(
        self,
        nodes: Iterable[NodeProto],
        outputs: Iterable[str],
        types: Mapping[str, onnx.TypeProto],
        own: GraphProto | None = None,
    ) -> ModelProto:
        """Return nodes as a model with the given outputs.

        Args:
            nodes: Nodes of the part.
            outputs: Values that the part computes.
            types: Types of its inputs: at least those that it reads, but for constants.
            own: The graph that holds its initialisers, if the part is in a subgraph.
        """
        nodes, outputs = list(nodes), list(outputs)
        held = {tensor.name: tensor for tensor in (own.initializer if own else ())}
        computed = {name for node in nodes for name in node.output}
        read = [n for n in (*reads(nodes), *(o for o in outputs if o not in computed)) if n not in held]
        known = [name for name in dict.fromkeys(read) if name in self._dequantized and name not in types]
        along = [self._dequantized[name] for name in known]
        every = dict.fromkeys(
            (*(n for n in read if n not in known), *(n for d in along for n in d.input if n))
        )
        part = ModelProto(ir_version=self._model.ir_version, opset_import=self._model.opset_import)
        part.graph.name = self._model.graph.name
        part.graph.node.extend([*along, *nodes])
        part.graph.initializer.extend(held.values())
        for name in every:
            if name in types:
                part.graph.input.append(onnx.ValueInfoProto(name=name, type=types[name]))
            elif name in self.constants:
                tensor = part.graph.initializer.add()
                tensor.CopyFrom(self.constants[name])
                tensor.name = name
        part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        return part
