# SPDX-License-Identifier: Apache-2.0
"""Conversion of torch.cond and while_loop.

Weights that a branch or a round reads become a part of its function: those that are arguments no kernel could pack
before it runs.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from tvm import relax
from tvm.ir import Constant, Expr, TupleGetItem

from arm_ext.frontends.common.control_flow import Program, Region

COND, LOOP = "cond", "while_loop"
DECIDING = (COND, LOOP)
"""Operators that are control flow."""


class Importer(Protocol):
    """The part of the importer's interface that these conversions use.

    Attributes:
        block_builder: Builder of the function that is being converted.
        env: Node → its value, in the graph that is being converted.
        program: The functions so far.
    """

    block_builder: relax.BlockBuilder
    env: dict[torch.fx.Node, Any]
    program: Program

    def retrieve_args(self, node: torch.fx.Node) -> Any:
        """Return a node's arguments, with nodes replaced by their Relax values."""

    def weight(self, value: Expr) -> Expr:
        """Return the constant that a weight's variable stands for; return other values unchanged."""

    def deciding(self, node: torch.fx.Node) -> Any:
        """Open the scope of a branch or loop; yield the name of the node in the main graph that contains it."""

    def _translate_fx_graph(self, graph: torch.fx.GraphModule, nodes: Any, inputs: Any) -> Sequence[Any]: ...


def cond(importer: Importer, node: torch.fx.Node) -> list[Expr]:
    """Convert a cond; return the values of the branch that is taken."""
    condition, yes, no, operands = importer.retrieve_args(node)
    known = _known(condition if isinstance(condition, bool) else importer.weight(condition))
    read = [_tensor(value) for value in operands]
    if known is not None:
        return _inlined(importer, yes if known else no, read)
    emit = importer.block_builder.emit
    chosen = condition if len(condition.ty.shape) == 0 else emit(relax.op.reshape(condition, ()))
    regions = [_region(importer, graph) for graph in (yes, no)]
    with importer.deciding(node) as source:
        result = emit(importer.program.choice(source, [chosen], regions, [*map(importer.weight, read)]))
    if not isinstance(result.ty, relax.TupleType):
        return [result]
    return [emit(TupleGetItem(result, k)) for k in range(len(result.ty.fields))]


def while_loop(importer: Importer, node: torch.fx.Node) -> list[Expr]:
    """Convert a while_loop; return its states after the last iteration."""
    more, body, states, fixed = importer.retrieve_args(node)
    emit = importer.block_builder.emit
    # Carried numbers become tensors.
    states, fixed = ([_tensor(value) for value in values] for values in (states, fixed))
    (go,) = _inlined(importer, more, [*states, *fixed])

    def region(builder: relax.BlockBuilder, given: list[Expr]) -> list[Expr]:
        with _inside(importer, builder):
            nexts = _inlined(importer, body, given)
            (again,) = _inlined(importer, more, [*nexts, *given[len(states) :]])
        return [again, *nexts]

    with importer.deciding(node) as source:
        results = emit(importer.program.loop(source, go, states, region, [*map(importer.weight, fixed)]))
    return [emit(TupleGetItem(results, k)) for k in range(len(states))]


def _known(condition: Any) -> bool | None:
    """Return a condition that is known at compile time; None for others."""
    if isinstance(condition, Constant):
        return bool(condition.value.numpy().all())
    return condition if isinstance(condition, bool) else None


def _tensor(value: Any) -> Expr:
    if isinstance(value, bool | int | float):
        return relax.const(value, {bool: "bool", int: "int64", float: "float32"}[type(value)])
    return value


def _region(importer: Importer, graph: torch.fx.GraphModule) -> Region:
    def region(builder: relax.BlockBuilder, given: list[Expr]) -> list[Expr]:
        with _inside(importer, builder):
            return _inlined(importer, graph, given)

    return region


@contextmanager
def _inside(importer: Importer, builder: relax.BlockBuilder) -> Iterator[None]:
    """Open a scope in which the importer emits in another builder."""
    outer, importer.block_builder = importer.block_builder, builder
    try:
        yield
    finally:
        importer.block_builder = outer


def _inlined(importer: Importer, graph: torch.fx.GraphModule, values: Sequence[Expr]) -> list[Expr]:
    """Inline a subgraph at the current node, and return its results."""
    nodes = list(graph.graph.nodes)
    outer = importer.env
    importer.env = dict(zip((n for n in nodes if n.op == "placeholder"), values, strict=True))
    try:
        return [_tensor(value) for value in importer._translate_fx_graph(graph, nodes, {})]
    finally:
        importer.env = outer
