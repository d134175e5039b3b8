# SPDX-License-Identifier: Apache-2.0
"""Import of an ONNX model as Relax functions, one per straight-line part of its control flow.

    y = Conv(x); z = If(Less(y, 1)) {Relu(y)} {Exp(y)}
        →    main(x): y, c = main_before(x); z = z_then(y) if c else z_else(y)

Shapes are inferred, operators expanded and nodes converted part by part, since the shapes of what follows a decision
are known only once its branches are converted. A straight-line model is one part, and stays as it is.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress

import onnx
import tvm
from onnx import ModelProto

from arm_ext.frontends.common.control_flow import Callee, Program
from arm_ext.frontends.onnx.check import check_supported, name_contrib, runtime_inputs, unsupported_within
from arm_ext.frontends.onnx.compose import Composition
from arm_ext.frontends.onnx.convert import convert
from arm_ext.frontends.onnx.expansions import expand_operators
from arm_ext.frontends.onnx.int4 import widen_int4
from arm_ext.frontends.onnx.open_sizes import SourceGraph, refuse_data_sizes
from arm_ext.frontends.onnx.partition import cut
from arm_ext.frontends.onnx.subgraph_nodes import name_of, nodes_inside
from relay_passes.programs.merge_modules import MAIN


@dataclass(frozen=True)
class OnnxProgram:
    """An imported module with the names of the model's nodes.

    Attributes:
        mod: Functions of the program; `main` is the one to call.
        nodes: Source node → operator, those of subgraphs that are functions, too.
        quantized: Whether the model quantises.
    """

    mod: tvm.IRModule
    nodes: dict[str, str]
    quantized: bool


def import_program(model: ModelProto, name: str, source: SourceGraph) -> OnnxProgram:
    """Import a model.

    Args:
        model: Valid, its inputs of static shape, its nodes with unique names.
        name: Name of the model, for messages.
        source: Its graph as its file has it, for messages.

    Raises:
        ModelError: The shapes of its nodes contradict each other.
        ModelError: The program holds something that cannot be compiled, such as a size that the data decides.
    """
    functions = _Functions(name, model.graph, source)
    functions.add_model(MAIN, model, {})
    return OnnxProgram(functions.module(), functions.nodes, functions.quantized)


def name_nodes(graph: onnx.GraphProto, taken: Counter[str] | None = None) -> None:
    """Give every node a unique name: its own, its first output's, or its operator's.

    Args:
        graph: Graph to change; its subgraphs are left as they are.
        taken: How often each name has been given already.
    """
    taken = Counter() if taken is None else taken
    for node in graph.node:
        base = name_of(node)
        taken[base] += 1
        node.name = base if taken[base] == 1 else f"{base}:{taken[base]}"


class _Functions(Program):
    """Collects the Relax functions of an ONNX model during its import."""

    def __init__(self, model: str, graph: onnx.GraphProto, source: SourceGraph) -> None:
        super().__init__()
        self._source = source
        self.nodes = {node.name: node.op_type for node in graph.node}
        self.quantized = False
        self._model = model
        self._unsupported = unsupported_within(graph)
        self._given = Counter(self.nodes.keys())
        inner = [node for outer in graph.node for node in nodes_inside(outer) if node.name]
        counts = Counter([*self.nodes, *(node.name for node in inner)])
        # Nodes in branches and loops by their names, where these are unique: name → operator.
        self._inner = {node.name: node.op_type for node in inner if counts[node.name] == 1}

    def name(self, graph: onnx.GraphProto, source: str | None) -> dict[str, str]:
        """Name a subgraph's nodes; return new name → source name for nodes that an expansion of `source` added."""
        own = [source is None or node.name in self._inner for node in graph.node]
        name_nodes(graph, self._given)
        self.nodes.update((node.name, node.op_type) for node in compress(graph.node, own))
        return {
            node.name: source
            for node, is_own in zip(graph.node, own, strict=True)
            if not is_own and source is not None
        }

    def add_model(self, symbol: str, model: ModelProto, sources: Mapping[str, str]) -> Callee:
        """Import a model as a function.

        Args:
            symbol: Name of the function.
            model: A model whose inputs have static shapes and whose nodes have names.
            sources: Name of a node that came of an expansion → the expanded node's name.
        """
        name_contrib(model)
        widen_int4(model)
        check_supported(model, sources=sources, whole=self._unsupported)
        new, refused = expand_operators(model, self._model, self._inner)
        sources = {**sources, **{node: sources.get(old, old) for node, old in new.items()}}
        for name in {*new.values()} & self._inner.keys():
            self.nodes.setdefault(name, self._inner[name])
        parts = cut(model.graph)
        # Nodes after the decisions are expanded later, when more of their shapes is known.
        ready = [*parts.before, *parts.decisions]
        refuse_data_sizes(self._source, model.graph, ready, self._model)
        early = {node.name for node in ready}
        check_supported(model, {node: why for node, why in refused.items() if node in early}, sources)
        if parts.decisions:
            func = Composition(self, symbol, model, sources).function(parts)
            self.put(symbol, func)
        else:
            self.straight[symbol] = convert(model, sources, self.nodes)
            func = self.straight[symbol][MAIN]
            self.quantized |= any(node.op_type == "QuantizeLinear" for node in model.graph.node)
        return Callee(symbol, tuple(v.name for v in runtime_inputs(model.graph)), func.ret_ty)
