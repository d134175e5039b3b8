# SPDX-License-Identifier: Apache-2.0
"""The calls of a program as a graph for viewers: ONNX for Netron, and JSON for Model Explorer.

A node is a kernel call, named by its layer. In ONNX it is a function of the source's operators that it computes, with
cycles, multiply-accumulates, bytes and kernel as attributes; such a model is to be looked at, and cannot be run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from arm_ext.report.calls import CallRow
from arm_ext.report.profile.record import ProfiledCall

DOMAIN, LAYERS = "arm_ext", "arm_ext.layers"
"""Domains of the functions in ONNX, and of the layers in them, which are without their weights and attributes."""

_COLOURS = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e8710a"})
"""Model Explorer's colours of the least and the greatest value."""


@dataclass(frozen=True)
class GraphCall:
    """A kernel call as a node.

    Attributes:
        name: Unique name: the layer's, with a number where a layer has several calls.
        kernel: Name of the kernel.
        operators: Source node → its operator, of those that the call computes.
        output: Shape and type of the result, such as "1x32x32x16 int8".
        reads: Places of the calls whose results it reads.
        figures: What else is told, by name: integers, shares, text.
    """

    name: str
    kernel: str
    operators: Mapping[str, str]
    output: str
    reads: Sequence[int]
    figures: Mapping[str, int | float | str]


def graph_calls(
    calls: Sequence[CallRow] | Sequence[ProfiledCall], operators: Mapping[str, str]
) -> list[GraphCall]:
    """Return the nodes of a report's or a profile's calls, in order of execution.

    Args:
        calls: The calls.
        operators: Source node → operator, as far as they are known.
    """
    known: dict[str, int] = {}
    whole = sum(call.cycles_with_caches for call in calls if isinstance(call, CallRow)) or 1
    found = []
    for call in calls:
        known[call.anchor] = count = known.get(call.anchor, 0) + 1
        figures: dict[str, int | float | str] = {}
        if isinstance(call, CallRow):
            cycles = call.cycles_with_caches
            figures |= {"cycles_with_caches": cycles, "share": round(cycles / whole, 4)}
        else:
            figures["share"] = round(call.share, 4)
            if call.counts is not None:
                counts = call.counts
                figures |= {"cycles_with_caches": counts.cycles_with_caches, "bound": counts.bound}
            if call.times is not None:
                figures["microseconds"] = round(call.times.median_us, 3)
        figures |= {"macs": call.macs, "bytes": call.bytes}
        found.append(
            GraphCall(
                name=call.anchor if count == 1 else f"{call.anchor} #{count}",
                kernel=call.kernel,
                operators={name: operators.get(name, "layer") for name in call.sources},
                output=call.output,
                reads=call.reads,
                figures=figures,
            )
        )
    return found


def onnx_graph(model: str, calls: Sequence[GraphCall]) -> onnx.ModelProto:
    """Return the graph as an ONNX model, whose nodes are calls of one function each."""
    read = {place for call in calls for place in call.reads}
    nodes, functions = [], []
    for place, call in enumerate(calls):
        names = [_value(calls, other) for other in call.reads] or ["inputs"]
        kind = f"{call.kernel} {place}"
        attributes = {"kernel": call.kernel, "output": call.output, **call.figures}
        nodes.append(
            helper.make_node(kind, names, [_value(calls, place)], name=call.name, domain=DOMAIN, **attributes)
        )
        functions.append(_function(kind, len(names), call, list(attributes)))
    outputs = [_typed(calls, place) for place in range(len(calls)) if place not in read]
    # One value stands for all inputs of the program, and its type is a placeholder.
    inputs = [helper.make_tensor_value_info("inputs", onnx.TensorProto.FLOAT, ["n"])]
    values = [_typed(calls, place) for place in read]
    graph = helper.make_graph(nodes, model, inputs, outputs, value_info=values)
    return helper.make_model(
        graph, functions=functions, opset_imports=_opsets(), ir_version=9, producer_name="tvm-arm-ext"
    )


def _opsets() -> list[onnx.OperatorSetIdProto]:
    return [helper.make_opsetid("", 17), *(helper.make_opsetid(name, 1) for name in (DOMAIN, LAYERS))]


def _function(kind: str, inputs: int, call: GraphCall, attributes: Sequence[str]) -> onnx.FunctionProto:
    """Return the function of a call: the source's operators that it computes, one after the other."""
    names = [f"x{number}" for number in range(inputs)]
    nodes, before = [], names
    for name, operator in call.operators.items():
        nodes.append(helper.make_node(operator, before, [name], name=name, domain=LAYERS))
        before = [name]
    last = before[0] if nodes else names[0]
    return helper.make_function(DOMAIN, kind, names, [last], nodes, _opsets(), attributes)


def _value(calls: Sequence[GraphCall], place: int) -> str:
    return f"{calls[place].name}:{calls[place].output}"


def _typed(calls: Sequence[GraphCall], place: int) -> onnx.ValueInfoProto:
    shape, dtype = calls[place].output.split()[:2]
    dims = [int(size) for size in shape.split("x")]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(_value(calls, place), kind, dims)


def model_explorer(model: str, calls: Sequence[GraphCall]) -> str:
    """Return the graph as JSON for Model Explorer; layers are nested by the parts of their names."""
    nodes = []
    for place, call in enumerate(calls):
        namespace, _, label = call.name.strip("/").rpartition("/")
        computed = ", ".join(f"{name} ({operator})" for name, operator in call.operators.items())
        told = {"kernel": call.kernel, "output": call.output, "computes": computed, **call.figures}
        nodes.append(
            {
                "id": str(place),
                "label": label or call.kernel,
                "namespace": namespace,
                "attrs": [{"key": key, "value": str(value)} for key, value in told.items()],
                "incomingEdges": [{"sourceNodeId": str(other)} for other in call.reads],
                "outputsMetadata": [{"id": "0", "attrs": [{"key": "tensor_shape", "value": call.output}]}],
            }
        )
    return json.dumps({"label": model, "graphs": [{"id": model, "nodes": nodes}]}, indent=1)


def node_data(model: str, calls: Sequence[GraphCall], figure: str) -> str:
    """Return the values of a figure by node, as JSON that Model Explorer lays over the graph of `model_explorer`."""
    results = {
        str(place): {"value": call.figures[figure]}
        for place, call in enumerate(calls)
        if isinstance(call.figures.get(figure), int | float)
    }
    return json.dumps({model: {"name": figure, "results": results, "gradient": _COLOURS}}, indent=1)
