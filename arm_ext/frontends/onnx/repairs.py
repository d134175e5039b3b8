# SPDX-License-Identifier: Apache-2.0
"""Repair of models that onnxruntime runs although onnx's checker rejects them.

    b = Relu(a); a = Conv(x)           →    a = Conv(x); b = Relu(a)
    ir_version 3                       →    ir_version 4
    graph ""                           →    graph "model"
    "" : 7, ai.onnx : 12               →    "" : 12
    com.microsoft : 1                  →    com.microsoft : 1, "" : 17
    x: float[-1, 3]                    →    x: float[?, 3]
    y = Clip(x, low, "")               →    y = Clip(x, low)
    a sparse initialiser               →    a dense one

Files like these come from tools that change graphs, and from old exporters.
"""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from arm_ext.common.errors import UsageError
from arm_ext.frontends.onnx.labels import number_labels
from arm_ext.frontends.onnx.partition import reads, subgraphs
from arm_ext.frontends.onnx.sparse import make_dense

# From this IR version on, initialisers need not be inputs; the import adds initialisers that are no inputs.
_FREE_INITIALISERS = 4

# Opset for a model that has only custom operators, which are replaced by standard operators of this opset.
_OPSET = 17


def make_valid(model: ModelProto) -> None:
    """Repair, in place, faults that onnx's checker rejects and onnxruntime tolerates.

    Raises:
        UsageError: The model says nothing about what its operators mean, or has a sparse initialiser that contradicts
            itself.
        ModelError: A sparse initialiser is larger than memory.
    """
    graph = model.graph
    graph.name = graph.name or "model"
    model.ir_version = max(model.ir_version, _FREE_INITIALISERS)
    _name_standard_domain(model)
    for value in _values(graph):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")
    number_labels(graph)
    _drop_empty_inputs(model)
    make_dense(model)
    sort_nodes(graph)


def _drop_empty_inputs(model: ModelProto) -> None:
    """Remove trailing empty names from a standard node's inputs: TVM's importer aborts the process at some of them."""
    for graph in (model.graph, *model.functions):
        for node in _nodes(graph):
            while not node.domain and node.input and not node.input[-1]:
                node.input.pop()


def _name_standard_domain(model: ModelProto) -> None:
    """Leave one entry per operator set, name the standard one "", and add it if it is missing."""
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        domain = _short(entry.domain)
        versions[domain] = max(versions.get(domain, 0), entry.version)
    if "" not in versions and any(not _short(node.domain) for node in _nodes(model.graph)):
        raise UsageError(
            f"not a valid ONNX model: it declares no opset of the standard operators that it has (opset_import); "
            f"{model.producer_name or 'the tool that wrote it'} should"
        )
    versions.setdefault("", _OPSET)
    model.ClearField("opset_import")
    for domain, version in versions.items():
        model.opset_import.add(domain=domain, version=version)
    for node in _nodes(model.graph):
        node.domain = _short(node.domain)


def _short(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _nodes(graph: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from _nodes(inner)


def _values(graph: GraphProto) -> Iterator[ValueInfoProto]:
    yield from (*graph.input, *graph.output, *graph.value_info)
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _values(inner)


def sort_nodes(graph: GraphProto) -> None:
    """Sort nodes topologically, in subgraphs, too; leave a graph with a cycle unchanged."""
    for node in graph.node:
        for inner in subgraphs(node):
            sort_nodes(inner)
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needed = {
        index: [makers[name] for name in reads([node]) if name in makers]
        for index, node in enumerate(graph.node)
    }
    if all(other < index for index, others in needed.items() for other in others):
        return
    try:
        order = list(TopologicalSorter(needed).static_order())
    except CycleError:
        return
    # The new list refers to nodes of the graph, which clearing the graph's list would empty.
    kept = GraphProto(node=[graph.node[index] for index in order])
    graph.ClearField("node")
    graph.node.extend(kept.node)
