# SPDX-License-Identifier: Apache-2.0
"""Operators that run other graphs of the model, which are inlined.

WHILE(x)                 a loop whose end is known is unrolled
IF(c, x)                 both branches are computed, of which c chooses: they have no effects
STABLEHLO_COMPOSITE(x)   the graph that it is made of
"""

from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import tflite
from tvm import relax
from tvm.ir import Constant

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.limits import MOST_CALLS, MOST_NESTED
from arm_ext.frontends.tflite.forms import Convert

MOST_TURNS = 4096
"""Most turns of a loop that is unrolled."""


def called(op: Any, code: str) -> tuple[int, ...]:
    """Return the numbers of the graphs that an operator runs."""
    if code not in _OPTIONS:
        return ()
    table, fields = _OPTIONS[code]
    found = op.BuiltinOptions() if code != _COMPOSITE else op.BuiltinOptions2()
    if found is None:
        return ()
    options = table()
    options.Init(found.Bytes, found.Pos)
    return tuple(int(getattr(options, field)()) for field in fields)


def graphs_of(model: Any, name_of: Callable[[Any, Any], str]) -> list[int]:
    """Return the numbers of the graphs that a run may reach, the main graph first.

    Args:
        model: The parsed file.
        name_of: Given the model and an operator, returns the operator's name.

    Raises:
        ValueError: An operator runs a graph that is not there.
    """
    found = [0]
    for number in found:
        graph = model.Subgraphs(number)
        for op in (graph.Operators(k) for k in range(graph.OperatorsLength())):
            for other in called(op, name_of(model, op)):
                if not 0 <= other < model.SubgraphsLength():
                    raise ValueError(f"an operator runs graph {other} of {model.SubgraphsLength()}")
                if other not in found:
                    found.append(other)
    return found


def check_nesting(model: Any, name_of: Callable[[Any, Any], str]) -> None:
    """Refuse graphs that run themselves, deep nesting, and too large expansions; unrolled loops count as one round.

    Args:
        model: The parsed file.
        name_of: Given the model and an operator, returns the operator's name.

    Raises:
        ModelError: There is one; the message names the graph, or how deep or large the model is.
    """
    runs: dict[int, list[int]] = {}
    for number in graphs_of(model, name_of):
        graph = model.Subgraphs(number)
        operators = [graph.Operators(k) for k in range(graph.OperatorsLength())]
        runs[number] = [other for op in operators for other in called(op, name_of(model, op))]
    try:
        order = [*TopologicalSorter(runs).static_order()]
    except CycleError as err:
        raise ModelError(
            f"graph {err.args[1][0]} of the file runs itself, directly or by others: it has no end"
        ) from err
    depths: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for number in order:
        depths[number] = 1 + max((depths[other] for other in runs[number]), default=-1)
        own = model.Subgraphs(number).OperatorsLength()
        sizes[number] = own + sum(sizes[other] for other in runs[number])
    deepest = max(depths.values())
    if deepest > MOST_NESTED:
        raise ModelError(
            f"{_deepest(model, depths, name_of)} runs graphs that run others inside each other, {deepest} of them, and "
            f"{MOST_NESTED} can be compiled"
        )
    check_size(sizes[0])


def _deepest(model: Any, depths: Mapping[int, int], name_of: Callable[[Any, Any], str]) -> str:
    """Return the first graph's operator below which graphs are nested deepest, as messages name it."""
    graph = model.Subgraphs(0)
    operators = [graph.Operators(k) for k in range(graph.OperatorsLength())]

    def depth(op: Any) -> int:
        return max((depths[number] for number in called(op, name_of(model, op))), default=-1)

    found = max(operators, key=depth)
    output = graph.Tensors(found.Outputs(0)).Name() if found.OutputsLength() else None
    return f"{name_of(model, found)} node '{(output or b'').decode(errors='replace')}'"


def check_size(count: int) -> None:
    """Refuse more operators than can be compiled, with the graphs that they run written out.

    Raises:
        ModelError: There are more operators than the limit.
    """
    if count > MOST_CALLS:
        raise ModelError(
            f"it has {count} operators or more with its graphs and loops written out, and {MOST_CALLS} can be compiled"
        )


def _inputs(c: Any, op: Any) -> list[relax.Expr]:
    return [c.value(int(number)) for number in c._indices_or_empty(op.InputsAsNumpy())]


def _result(values: list[relax.Expr]) -> Any:
    return values[0] if len(values) == 1 else values


def _while(c: Any, op: Any) -> Any:
    condition, body = called(op, "WHILE")
    state = _inputs(c, op)
    for _ in range(MOST_TURNS):
        (goes_on,) = c.run(condition, state)
        if not isinstance(goes_on, Constant):
            raise ModelError(
                "values that are computed at run time decide when it ends; only loops with a known number of turns are "
                "supported"
            )
        if not goes_on.value.numpy().all():
            return _result(state)
        state = c.run(body, state)
    raise ModelError(f"it has more than {MOST_TURNS} turns, and would be unrolled")


def _if(c: Any, op: Any) -> Any:
    graphs = called(op, "IF")
    condition, *inputs = _inputs(c, op)
    if isinstance(condition, Constant):
        return _result(c.run(graphs[0 if condition.value.numpy().all() else 1], inputs))
    chosen = relax.op.reshape(condition, ())
    branches = [c.run(number, inputs) for number in graphs]
    return _result([c.bb.emit(relax.op.where(chosen, a, b)) for a, b in zip(*branches, strict=True)])


def _call(c: Any, op: Any) -> Any:
    (number,) = called(op, c.get_op_code_str(op))
    return _result(c.run(number, _inputs(c, op)))


_COMPOSITE = "STABLEHLO_COMPOSITE"
_OPTIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "CALL": (tflite.CallOptions, ("Subgraph",)),
    "CALL_ONCE": (tflite.CallOnceOptions, ("InitSubgraphIndex",)),
    "IF": (tflite.IfOptions, ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    _COMPOSITE: (tflite.StableHLOCompositeOptions, ("DecompositionSubgraphIndex",)),
    "WHILE": (tflite.WhileOptions, ("CondSubgraphIndex", "BodySubgraphIndex")),
}

GRAPHS: dict[str, Convert] = {"CALL": _call, "IF": _if, _COMPOSITE: _call, "WHILE": _while}
"""TFLite's operator name → its converter."""
