# SPDX-License-Identifier: Apache-2.0
"""ONNX's Loop as a while loop: each iteration computes whether another one follows.

Loop(M, cond, s)    →    n = 0; go = 0 < M and cond; while go: s, cond = body(n, s); n += 1; go = n < M and cond
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from arm_ext.frontends.onnx.control import body_of


@dataclass(frozen=True)
class While:
    """The parts of a Loop that is converted to a while loop.

    Attributes:
        setup: Nodes beside the Loop that compute `go`.
        go: Value that says whether there is a first round, a bool scalar.
        body: A round; it gives whether there is another, its number, the states, and rows of outputs that have one of
            each round.
        number: Name in the body of the round number, an int64 scalar.
        states: Name of a state in the body → the value outside of the Loop that it starts with.
        added: Names of the body's nodes that are not the Loop's.
    """

    setup: list[NodeProto]
    go: str
    body: GraphProto
    number: str
    states: dict[str, str]
    added: list[str]


def while_of(node: NodeProto) -> While:
    """Parse a Loop node, which must have a name."""
    trips, condition, *initial = [*node.input, "", ""][: max(len(node.input), 2)]
    body = GraphProto()
    body.CopyFrom(body_of(node, "body"))
    number, given, *states = (value.name for value in body.input)
    again, *results = (value.name for value in body.output)
    first, each = _Nodes(f"{node.name}/first"), _Nodes(f"{node.name}/next")
    following = each.add("Add", number, each.constant(np.array(1, np.int64)))
    tests = [first.add("Squeeze", condition)] if condition else []
    more = each.add("Squeeze", again)
    if trips:
        zero = first.constant(np.array(0, np.int64))
        tests.append(first.add("Less", zero, first.add("Squeeze", trips)))
        more = each.add("And", more, each.add("Less", following, each.add("Squeeze", trips)))
    go = first.add("And", *tests) if len(tests) > 1 else tests[0] if tests else first.constant(np.array(True))
    # An iteration runs only if the condition holds, so the condition is true inside it.
    begun = helper.make_node("Constant", [], [given], f"{node.name}/begun", value=_tensor(np.array(True)))
    nodes = [begun, *body.node, *each.nodes]
    round_ = helper.make_graph(nodes, body.name or "body", [], [], list(body.initializer))
    round_.input.extend(body.input)
    round_.output.extend(helper.make_empty_tensor_value_info(name) for name in (more, following, *results))
    added = [begun.name, *(new.name for new in each.nodes)]
    return While(first.nodes, go, round_, number, dict(zip(states, initial, strict=True)), added)


class _Nodes:
    """Collects new nodes whose names and values have a common prefix."""

    def __init__(self, name: str) -> None:
        self.nodes: list[NodeProto] = []
        self._name = name

    def add(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"{self._name}/{operator}:{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def constant(self, value: npt.NDArray[Any]) -> str:
        return self.add("Constant", value=_tensor(value))


def _tensor(value: npt.NDArray[Any]) -> TensorProto:
    return numpy_helper.from_array(value)
