# SPDX-License-Identifier: Apache-2.0
"""0-d tensors that torch reduces or indexes along axis 0 or -1 become tensors of one element.

cumsum(x: [], 0)    →    view(cumsum(view(x, [1]), 0), [])
"""

import operator
from typing import Any

import torch

_VIEW = torch.ops.aten.view.default
# Operators whose `dim` is an axis of the result instead of the operand.
_ADDS_AN_AXIS = (torch.ops.aten.unsqueeze.default,)


def give_axes(program: torch.fx.GraphModule) -> None:
    """Insert the views into a graph and its subgraphs."""
    for module in program.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in list(module.graph.nodes):
                if _takes_an_axis(node):
                    _give_axis(module.graph, node)


def _takes_an_axis(node: torch.fx.Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload) or node.target in _ADDS_AN_AXIS:
        return False
    arguments = node.target._schema.arguments
    return (
        node.target.namespace == "aten"
        and _is_scalar(next(iter(node.args), None))
        and any(a.name == "dim" for a in arguments)
    )


def _is_scalar(arg: Any) -> bool:
    value = arg.meta.get("val") if isinstance(arg, torch.fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dim() == 0


def _give_axis(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    shapes = {result: list(result.meta["val"].shape) for result in _results(node)}
    with graph.inserting_before(node):
        operands: list[Any] = list(node.args)
        for k, arg in enumerate(operands):
            if _is_scalar(arg):
                node.update_arg(k, _view(graph, arg, [1], node.meta))
    assert isinstance(node.target, torch._ops.OpOverload)
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda arg: arg.meta["val"])
    node.meta["val"] = node.target(*args, **kwargs)
    for result, shape in shapes.items():
        if result is not node:
            result.meta["val"] = node.meta["val"][result.args[1]]
        users = list(result.users)
        with graph.inserting_after(result):
            back = _view(graph, result, shape, result.meta)
        for user in users:
            user.replace_input_with(result, back)


def _results(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return the nodes that hold a node's results: the node, or its getitem nodes if it returns several."""
    is_one = isinstance(node.meta["val"], torch.Tensor)
    return [node] if is_one else [user for user in node.users if user.target is operator.getitem]


def _view(graph: torch.fx.Graph, x: torch.fx.Node, shape: list[int], meta: dict[str, Any]) -> torch.fx.Node:
    view = graph.call_function(_VIEW, (x, shape))
    view.meta = {**meta, "val": x.meta["val"].reshape(shape)}
    return view
