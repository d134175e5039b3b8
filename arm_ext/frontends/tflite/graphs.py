# SPDX-License-Identifier: Apache-2.0
"""The graphs of a TFLite model that its operators run, and limits of their number and nesting."""

from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import tflite

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.limits import MOST_CALLS, MOST_NESTED


def called(op: Any, code: str) -> tuple[int, ...]:
    """Return the numbers of the graphs that an operator runs."""
    if code not in _OPTIONS:
        return ()
    table, fields = _OPTIONS[code]
    found = op.BuiltinOptions() if code != COMPOSITE else op.BuiltinOptions2()
    if found is None:
        return ()
    options = table()
    options.Init(found.Bytes, found.Pos)
    return tuple(int(getattr(options, field)()) for field in fields)


def graphs_of(model: Any, name_of: Callable[[Any, Any], str]) -> list[int]:
    """Return the numbers of the graphs that a run may execute, the main graph first.

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
                    raise ValueError(
                        f"an operator runs graph {other}, but the model has {model.SubgraphsLength()} graphs"
                    )
                if other not in found:
                    found.append(other)
    return found


def check_nesting(model: Any, name_of: Callable[[Any, Any], str]) -> None:
    """Refuse recursive graphs, deep nesting, and too large expansions; an unrolled loop counts as one iteration.

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
            f"graph {err.args[1][0]} of the file runs itself, directly or by other graphs: it never ends"
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
            f"{_deepest(model, depths, name_of)} runs graphs that are nested {deepest} deep; at most "
            f"{MOST_NESTED} levels can be compiled"
        )
    check_size(sizes[0])


def _deepest(model: Any, depths: Mapping[int, int], name_of: Callable[[Any, Any], str]) -> str:
    """Return, for messages, the main graph's first operator with the deepest nesting below it."""
    graph = model.Subgraphs(0)
    operators = [graph.Operators(k) for k in range(graph.OperatorsLength())]

    def depth(op: Any) -> int:
        return max((depths[number] for number in called(op, name_of(model, op))), default=-1)

    found = max(operators, key=depth)
    output = graph.Tensors(found.Outputs(0)).Name() if found.OutputsLength() else None
    return f"{name_of(model, found)} node '{(output or b'').decode(errors='replace')}'"


def check_size(count: int) -> None:
    """Refuse more operators than can be compiled, counted with all graphs inlined.

    Raises:
        ModelError: There are more operators than the limit.
    """
    if count > MOST_CALLS:
        raise ModelError(
            f"with its graphs inlined and its loops unrolled it has at least {count} operators; at most "
            f"{MOST_CALLS} can be compiled"
        )


COMPOSITE = "STABLEHLO_COMPOSITE"
_OPTIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "CALL": (tflite.CallOptions, ("Subgraph",)),
    "CALL_ONCE": (tflite.CallOnceOptions, ("InitSubgraphIndex",)),
    "IF": (tflite.IfOptions, ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    COMPOSITE: (tflite.StableHLOCompositeOptions, ("DecompositionSubgraphIndex",)),
    "WHILE": (tflite.WhileOptions, ("CondSubgraphIndex", "BodySubgraphIndex")),
}
