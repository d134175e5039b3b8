# SPDX-License-Identifier: Apache-2.0
"""Number of iterations of a Loop that its condition ends, if constants alone determine it.

i = 0; while i < 9: i = i + 1, x = f(x)    →    9 rounds
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import GraphProto, NodeProto, helper, numpy_helper

from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.partition import captures, subgraphs

Array = npt.NDArray[Any]

_MOST = 10_000
"""Most rounds that are simulated: onnx's reference takes some 0.1 ms for each."""


def rounds_of(e: Expansion, body: GraphProto, limit: int | None) -> int | None:
    """Return the number of iterations of a Loop whose first condition is true.

    None if it depends on the model's inputs.

    Args:
        e: Emitter at the Loop.
        body: Its body: number, condition and states → condition, states and rows.
        limit: The most rounds that the Loop runs; None without a limit.
    """
    step = _deciding(e, body)
    if step is None:
        return None
    # Not imported above: the import takes long, and few models have such loops.
    from onnx.reference import ReferenceEvaluator

    model, states = step
    try:
        evaluator = ReferenceEvaluator(model)
        for number in range(min(_MOST, _MOST if limit is None else limit)):
            feeds = {body.input[0].name: np.array(number, np.int64), body.input[1].name: np.array(True)}
            feeds |= {body.input[2 + index].name: value for index, value in states.items()}
            names = {each.name for each in model.graph.input}
            goes_on, *values = evaluator.run(
                None, {key: value for key, value in feeds.items() if key in names}
            )
            states = dict(zip(states, values, strict=True))
            if not np.all(goes_on):
                return number + 1
    except Exception:  # the reference and numpy raise many types; the loop is not unrolled
        return None
    return limit if limit is not None and limit <= _MOST else None


def _deciding(e: Expansion, body: GraphProto) -> tuple[onnx.ModelProto, dict[int, Array]] | None:
    """Return a model of the part of a body that computes the condition, and the initial values of the states it reads.

    The model's outputs are the condition and the next values of these states; None if inputs of the model decide.
    """
    initial = list(e.node.input[2:])
    makers = {name: node for node in body.node for name in node.output}
    places = {value.name: index for index, value in enumerate(body.input[2:])}
    constants = {tensor.name: tensor for tensor in body.initializer}
    constants |= {
        name: numpy_helper.from_array(value, name)
        for name in captures(body)
        if (value := e.value(name)) is not None
    }
    states: dict[int, Array] = {}
    nodes: list[NodeProto] = []
    wanted, seen = [body.output[0].name], set[str]()
    while wanted:
        name = wanted.pop()
        if not name or name in seen or name in constants or name in {body.input[0].name, body.input[1].name}:
            continue
        seen.add(name)
        if name in places:
            value = e.value(initial[places[name]])
            if value is None:
                return None
            states[places[name]] = value
            wanted.append(body.output[1 + places[name]].name)
        elif name in makers and not makers[name].domain and not any(subgraphs(makers[name])):
            if makers[name] not in nodes:
                nodes.append(makers[name])
            wanted += makers[name].input
        else:
            return None
    ordered = [node for node in body.node if node in nodes]
    read = {name for node in ordered for name in node.input} | {body.output[0].name}
    read |= {body.input[2 + index].name for index in states}
    inputs = [value for value in body.input if value.name in read]
    outputs = [body.output[0], *(body.output[1 + index] for index in states)]
    held = [tensor for name, tensor in constants.items() if name in read]
    graph = helper.make_graph(ordered, "condition", inputs, outputs, held)
    opsets = [helper.make_opsetid("", e.opset())]
    return helper.make_model(graph, opset_imports=opsets), states
