# SPDX-License-Identifier: Apache-2.0
"""Limits of control flow in a PyTorch program: its nesting depth, and loops that never end.

They are checked before anything else, since the steps of an import follow nested graphs by recursion, and the self-test
runs each loop to its end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.limits import MOST_ROUNDS
from arm_ext.frontends.torch.control import LOOP
from arm_ext.frontends.torch.translator import operator_of

MOST_NESTED = 32
"""Most branches and loops inside each other: torch traces those inside again for each around them, so that its
decompositions take 10 s for 16, and minutes for 32."""

_ORDERS = {"lt", "le", "gt", "ge"}
_BOTH = {"logical_and", "bitwise_and", "__and__"}

_Known = Mapping[int, torch.Tensor]
"""Index of a state → its value."""


def check_control_flow(program: ExportedProgram, names: Mapping[str, str]) -> None:
    """Refuse control flow beyond the limits.

    Args:
        program: The program.
        names: Node of its own graph → name for messages.

    Raises:
        ModelError: Branches and loops are nested more than MOST_NESTED deep, or a loop has no end or more than
            MOST_ROUNDS rounds; the message names the node.
    """
    for name, graph in program.graph_module.named_modules():
        depth = name.count(".") + 1
        if isinstance(graph, fx.GraphModule) and name and depth > MOST_NESTED:
            raise ModelError(
                f"{_outermost(program.graph_module, name, names)} has branches and loops nested at least {depth} "
                f"deep; at most {MOST_NESTED} levels can be compiled"
            )
    constants = _constants(program)
    for graph in program.graph_module.modules():
        if isinstance(graph, fx.GraphModule):
            for node in graph.graph.nodes:
                if node.op == "call_function" and operator_of(node) == LOOP:
                    own = names if graph is program.graph_module else {}
                    _check_rounds(graph, node, own.get(node.name, node.name), constants)


def _outermost(program: fx.GraphModule, name: str, names: Mapping[str, str]) -> str:
    """Return type and name of the main graph's branch or loop that contains the graph `name`."""
    own = name.split(".")[0]
    for node in program.graph.nodes:
        if node.op == "get_attr" and node.target == own:
            for user in node.users:
                return f"{operator_of(user)} node '{names.get(user.name, user.name)}'"
    return "the program"


def _constants(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Return the values of the placeholders that are constant tensors."""
    lifted = program.graph_signature.inputs_to_lifted_tensor_constants
    values = {name: program.constants.get(key) for name, key in lifted.items()}
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}


def _check_rounds(
    graph: fx.GraphModule, node: fx.Node, name: str, constants: Mapping[str, torch.Tensor]
) -> None:
    test, body, carried, fixed = node.args
    assert isinstance(test, fx.Node)
    assert isinstance(body, fx.Node)
    outside = {
        n: constants[n.name] for n in graph.graph.nodes if n.op == "placeholder" and n.name in constants
    }
    loop = _Loop(
        getattr(graph, str(test.target)).graph,
        getattr(graph, str(body.target)).graph,
        [_number(graph.graph, value, outside) for value in (*carried, *fixed)],  # type: ignore[misc]
    )
    wanted = loop.deciding()
    if not wanted and loop.goes_on({}):
        raise ModelError(f"{LOOP} node '{name}': its condition is always true: it never ends")
    if loop.outlasts(wanted, MOST_ROUNDS):
        raise ModelError(
            f"{LOOP} node '{name}': it has more than {MOST_ROUNDS} iterations, the maximum that can be compiled"
        )


def _number(graph: fx.Graph, value: Any, outside: Mapping[fx.Node, torch.Tensor]) -> torch.Tensor | None:
    """Return a known value of one element; None if the value is unknown or has more elements."""
    if not isinstance(value, fx.Node):
        return torch.tensor(value) if isinstance(value, bool | int | float) else None
    found = _evaluate(graph, outside, [value])
    return found[0] if found is not None and found[0].numel() == 1 else None


@dataclass(frozen=True)
class _Loop:
    """The parts of a loop that determine its number of iterations.

    Attributes:
        test: Graph that gives whether there is another round.
        body: Graph of a round, with the same placeholders as `test`.
        states: Values before the first round, of the placeholders: None for those that are not known.
    """

    test: fx.Graph
    body: fx.Graph
    states: Sequence[torch.Tensor | None]

    def deciding(self) -> set[int]:
        """Return the indices of the states that the number of iterations depends on."""
        found = _read(self.test, _results(self.test))
        while True:
            more = found | _read(self.body, [self._ends()[k] for k in found])
            if more == found:
                return found
            found = more

    def goes_on(self, known: _Known) -> bool | None:
        """Whether another iteration follows; None if that is unknown."""
        found = _evaluate(self.test, _placed(self.test, known), _results(self.test))
        return None if found is None else bool(found[0].all())

    def outlasts(self, wanted: set[int], most: int) -> bool:
        """Whether the loop has more than `most` iterations.

        Found only for loops that count to a bound by constant steps.

        Such a condition that holds before two rounds holds before all that are between them.
        """
        first = {k: value for k in wanted if (value := self.states[k]) is not None}
        if len(first) < len(wanted) or not self._compares():
            return False
        second = self._after(first) if self.goes_on(first) else None
        third = self._after(second) if second and self.goes_on(second) else None
        if second is None or third is None:
            return False
        last = {}
        for k in wanted:
            a, b, c = first[k], second[k], third[k]
            if a.dtype.is_floating_point or a.dtype.is_complex or a.dtype == torch.bool or a.dtype != c.dtype:
                return False
            step, limits = int(b) - int(a), torch.iinfo(a.dtype)
            reached = int(a) + most * step
            if step != int(c) - int(b) or not limits.min <= reached <= limits.max:
                return False
            last[k] = torch.full_like(a, reached)
        return bool(self.goes_on(last))

    def _after(self, known: _Known) -> dict[int, torch.Tensor] | None:
        found = _evaluate(self.body, _placed(self.body, known), [self._ends()[k] for k in known])
        return None if found is None else dict(zip(known, found, strict=True))

    def _ends(self) -> list[Any]:
        """Return the graph's results that are the states after an iteration.

        States that an iteration only reads stay.
        """
        ends, placeholders = _results(self.body), _placeholders(self.body)
        return [*ends, *placeholders[len(ends) :]]

    def _compares(self) -> bool:
        """Whether the condition is a conjunction of <, ≤, > and ≥ comparisons."""
        calls = [node for node in self.test.nodes if node.op == "call_function"]
        names = [operator_of(node).removeprefix("aten.").split(".")[0] for node in calls]
        return all(name in _ORDERS | _BOTH for name in names)


def _placeholders(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _placed(graph: fx.Graph, known: _Known) -> dict[fx.Node, torch.Tensor]:
    placeholders = _placeholders(graph)
    return {placeholders[k]: value for k, value in known.items()}


def _results(graph: fx.Graph) -> list[Any]:
    (given,) = graph.output_node().args
    return list(given) if isinstance(given, list | tuple) else [given]


def _ancestors(results: Sequence[Any]) -> set[fx.Node]:
    found: set[fx.Node] = set()
    waiting = [value for value in results if isinstance(value, fx.Node)]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _read(graph: fx.Graph, results: Sequence[Any]) -> set[int]:
    """Return the indices of the placeholders that the given results depend on."""
    needed = _ancestors(results)
    return {k for k, node in enumerate(_placeholders(graph)) if node in needed}


def _evaluate(
    graph: fx.Graph, given: Mapping[fx.Node, torch.Tensor], results: Sequence[Any]
) -> list[torch.Tensor] | None:
    """Return a graph's results, given the values of some nodes; None if an operator is not on single numbers."""
    needed = _ancestors(results)
    values: dict[fx.Node, Any] = dict(given)
    for node in graph.nodes:
        if node in needed and node not in values:
            if not _is_plain(node):
                return None
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
    return [values[value] if isinstance(value, fx.Node) else torch.tensor(value) for value in results]


def _is_plain(node: fx.Node) -> bool:
    """Whether a node computes a single number, deterministically and without side effects."""
    target, value = node.target, node.meta.get("val")
    return (
        node.op == "call_function"
        and isinstance(target, torch._ops.OpOverload)
        and target.namespace == "aten"
        and not target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
        and isinstance(value, torch.Tensor)
        and value.numel() == 1
    )
