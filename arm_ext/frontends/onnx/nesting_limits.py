# SPDX-License-Identifier: Apache-2.0
"""Checks of nesting depth and of recursive functions, on which onnx would recurse."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.limits import MOST_CALLS, MOST_NESTED
from arm_ext.frontends.onnx.expansion import domain_of
from arm_ext.frontends.onnx.weights import without_weights

_Key = tuple[str, str]


def check_nesting(model: ModelProto) -> None:
    """Raise ModelError for functions that call themselves, for deep nesting, and for too large expansions.

    Raises:
        ModelError: There is one; the message names the function, or how deep or large the model is.
    """
    functions = {(_short(f.domain), f.name): f for f in model.functions}
    sizes: dict[_Key, int] = {}
    depths: dict[_Key, int] = {}
    for key in _callees_first(functions):
        depths[key] = 1 + max((depths[callee] for callee in _callees(functions, key)), default=0)
        if depths[key] > MOST_NESTED:
            raise ModelError(
                f"function '{key[1]}' calls functions nested {depths[key]} deep; at most {MOST_NESTED} levels can be "
                "compiled"
            )
        sizes[key] = _size(functions[key].node, sizes)
        _check_size(f"function '{key[1]}'", sizes[key])
    _check_size("the model", _size(model.graph.node, sizes))


@contextmanager
def refusing_deep_messages(name: str = "the model") -> Iterator[None]:
    """Open a scope in which a DecodeError for messages nested too deep becomes a ModelError.

    Raises:
        ModelError: protobuf refused to read messages nested so deep.
    """
    try:
        yield
    except DecodeError as err:
        if "MaxDepth" not in str(err):
            raise
        raise ModelError(
            f"{name}: its branches and loops, including those of its inlined functions, are nested deeper than "
            "protobuf can read (100 messages, some 30 branches or loops): let a Where choose between the results "
            "of inner "
            "branches, or split the model"
        ) from err


def check_depth(model: ModelProto, name: str) -> None:
    """Refuse a model built in memory that is nested too deep for protobuf to parse.

    Onnx's checker would see it as empty.

    Raises:
        ModelError: The model's messages are nested too deep.
    """
    with refusing_deep_messages(name):
        onnx.load_model_from_string(without_weights(model).SerializeToString())


def _short(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _nodes(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    """Yield all nodes, those of branches and loops included.

    Raises:
        ModelError: The nodes are nested too deep.
    """
    waiting = [(node, 0) for node in nodes]
    while waiting:
        node, depth = waiting.pop()
        yield node
        graphs: list[GraphProto] = []
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                graphs.append(attribute.g)
            graphs.extend(attribute.graphs)
        if graphs and depth >= MOST_NESTED:
            raise ModelError(
                f"{node.op_type} node '{node.name}' is nested in {depth} branches and loops; at most "
                f"{MOST_NESTED} levels can be compiled"
            )
        waiting += [(inner, depth + 1) for graph in graphs for inner in graph.node]


def _callees_first(functions: dict[_Key, FunctionProto]) -> list[_Key]:
    """Return the functions in an order in which each comes after the functions that it calls.

    Raises:
        ModelError: A function calls itself, directly or not.
    """
    try:
        return [*TopologicalSorter({key: _callees(functions, key) for key in functions}).static_order()]
    except CycleError as err:
        raise ModelError(
            f"function '{err.args[1][0][1]}' calls itself, directly or by others: it has no end"
        ) from err


def _callees(functions: dict[_Key, FunctionProto], key: _Key) -> list[_Key]:
    called = {(domain_of(node), node.op_type) for node in _nodes(functions[key].node)}
    return sorted(called & functions.keys())


def _size(nodes: Sequence[NodeProto], sizes: dict[_Key, int]) -> int:
    return sum(sizes.get((domain_of(node), node.op_type), 1) for node in _nodes(nodes))


def _check_size(what: str, size: int) -> None:
    if size > MOST_CALLS:
        raise ModelError(
            f"{what} has {size} nodes with its functions inlined; at most {MOST_CALLS} can be compiled"
        )
