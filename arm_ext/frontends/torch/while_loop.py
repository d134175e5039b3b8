# SPDX-License-Identifier: Apache-2.0
"""torch.while_loop as a function that ends by calling itself, which `loops` turns into a while loop.

y = while_loop(more, body, (x,), (w,))    →    y = loop(more(x, w), x, w)
round(x, w): x = body(x, w); return x, more(x, w)
loop(go, x, w): if go: loop(*round(x, w), w)  else: x
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import tvm
from tvm import relax
from tvm.ir import Call, GlobalVar, Var
from tvm_ffi import structural_equal

from arm_ext.frontends.common.block import Block, call

NAME = "while_loop"
_GO = relax.TensorType((), "bool")


class Importer(Protocol):
    """The importer's interface that the conversion of a loop uses; `loops` counts the loops so far."""

    block_builder: relax.BlockBuilder
    env: dict[torch.fx.Node, relax.Expr]
    loops: int

    def retrieve_args(self, node: torch.fx.Node) -> Any:
        """Return a node's arguments, with nodes replaced by their values."""

    def has_loop(self, graph: torch.fx.GraphModule) -> bool:
        """Whether a graph contains a loop."""

    def _translate_fx_graph(
        self, graph: torch.fx.GraphModule, nodes: Any, inputs: Any
    ) -> tuple[relax.Expr, ...]: ...


def while_loop(importer: Importer, node: torch.fx.Node) -> list[relax.Expr]:
    """Convert a while_loop; return its states after the last iteration."""
    more, body, states, fixed = importer.retrieve_args(node)
    emit = importer.block_builder.emit
    # Carried numbers become tensors.
    states, fixed = ([_tensor(value) for value in values] for values in (states, fixed))
    (go,) = _inlined(importer, more, [*states, *fixed])
    importer.loops += 1
    symbol = f"{NAME}_{importer.loops}"
    step = _round(importer, more, body, states, fixed, f"{symbol}_round")
    types = [value.ty for value in states]
    loop = importer.block_builder.add_func(_loop(symbol, step, types, [value.ty for value in fixed]), symbol)
    results = emit(Call(loop, [go, *states, *fixed], ret_ty=relax.TupleType(types)))
    return [emit(relax.TupleGetItem(results, k)) for k in range(len(states))]


def _tensor(value: Any) -> relax.Expr:
    if isinstance(value, bool | int | float):
        return relax.const(value, {bool: "bool", int: "int64", float: "float32"}[type(value)])
    return value


def _inlined(
    importer: Importer, graph: torch.fx.GraphModule, values: Sequence[relax.Expr]
) -> tuple[relax.Expr, ...]:
    """Inline a subgraph at the importer's position, and return its results."""
    nodes = list(graph.graph.nodes)
    outer = importer.env
    importer.env = dict(zip((n for n in nodes if n.op == "placeholder"), values, strict=True))
    try:
        results: tuple[relax.Expr, ...] = importer._translate_fx_graph(graph, nodes, {})
    finally:
        importer.env = outer
    return results


def _round(
    importer: Importer,
    more: torch.fx.GraphModule,
    body: torch.fx.GraphModule,
    states: Sequence[relax.Expr],
    fixed: Sequence[relax.Expr],
    symbol: str,
) -> GlobalVar:
    """Return a function from states and outside values to the next states, and whether there is another round.

    Raises:
        ValueError: A state gets another type.
    """
    builder = importer.block_builder
    params = [Var(f"x{k}", value.ty) for k, value in enumerate([*states, *fixed])]
    own, beside = params[: len(states)], params[len(states) :]
    with builder.function(name=symbol, params=params, pure=not importer.has_loop(body)):
        nexts = [_tensor(value) for value in _inlined(importer, body, params)]
        for before, after in zip(own, nexts, strict=True):
            if not structural_equal(before.ty, after.ty):
                raise ValueError(f"a state is {before.ty} before a round and {after.ty} after it")
        (go,) = _inlined(importer, more, [*nexts, *beside])
        builder.emit_func_output(relax.Tuple([builder.emit(value) for value in (*nexts, go)]))
    return builder.get().get_global_var(symbol)


def _loop(
    symbol: str, step: GlobalVar, states: Sequence[tvm.ir.Type], fixed: Sequence[tvm.ir.Type]
) -> relax.Function:
    """Return the function that calls itself by its name."""
    go = Var("go", _GO)
    own, beside = ([Var("x", ty) for ty in types] for types in (states, fixed))
    again, block, outer = Block(), Block(), Block()
    *nexts, more = again.fields(
        "results", Call(step, [*own, *beside], ret_ty=relax.TupleType([*states, _GO]))
    )
    done = block.bind("done", relax.Tuple(own))
    repeat = again.bind("repeated", call(symbol, [more, *nexts, *beside], done.ty, []))
    choice = relax.If(go, again.end(repeat), block.end(done))
    relax.expr._update_type(choice, done.ty)
    result = outer.bind("results", choice)
    # Not in a dataflow block: functions called there would be compiled as a part of their caller.
    return relax.Function([go, *own, *beside], outer.end(result), result.ty, is_pure=False)
