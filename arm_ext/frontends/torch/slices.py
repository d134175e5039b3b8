# SPDX-License-Identifier: Apache-2.0
"""Run-time scalars of a torch program (`at.item()`) as the start of a slice: `cache[:, at : at + 1]`.

Upstream makes a size of such a number, and then knows no shape of what follows. Here it stays a tensor: a slice whose
length is known begins at it.
"""

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tvm import relax, tirx
from tvm.ir import Expr
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.ops import arithmetic, gather_scatter, move

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

Arguments = dict[str, Any]

_COMPARISONS = {
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "eq": arithmetic.equal,
    "ne": arithmetic.different,
}


def item(importer: "ExportedProgramImporter", node: torch.fx.Node) -> Expr:
    """Convert `item`: a tensor of one element becomes a scalar tensor."""
    return Graph(importer.block_builder).hold(importer.env[node.args[0]]).reshape(()).full


def compared(importer: "ExportedProgramImporter", node: torch.fx.Node) -> Expr:
    """Convert a comparison of two numbers, either of which may be a run-time scalar."""
    assert callable(node.target)
    name = node.target.__name__
    values = importer.retrieve_args(node)
    if not any(_is_tensor(value) for value in values):
        return importer.by_upstream(node)
    graph = Graph(importer.block_builder)
    left, right = (
        graph.hold(value if _is_tensor(value) else relax.const(int(value), "int64")) for value in values
    )
    result: Value = _COMPARISONS[name](left, right)
    return result.full


def selected(importer: "ExportedProgramImporter", node: torch.fx.Node, a: Arguments) -> Expr:
    """Convert select.int; for index -1 TVM's converter reads the element before the first one."""
    x = Graph(importer.block_builder).hold(a["self"])
    axis = int(a["dim"]) % len(x.shape)
    if _is_tensor(a["index"]):
        return gather_scatter.take(x, x.graph.hold(a["index"]), axis).full
    if not isinstance(a["index"], int) or a["index"] >= 0:
        return importer.by_upstream(node)
    return gather_scatter.in_bounds(x, a["index"], axis).full


def sliced(importer: "ExportedProgramImporter", node: torch.fx.Node, a: Arguments) -> Expr:
    """Convert slice.Tensor."""
    if not _is_tensor(a["start"]) and not _is_tensor(a["end"]):
        return importer.by_upstream(node)
    x = Graph(importer.block_builder).hold(a["self"])
    axis = int(a["dim"]) % len(x.shape)
    return gather_scatter.take(x, _places(x.graph, node.meta["val"].shape[axis], a), axis).full


def slice_scattered(importer: "ExportedProgramImporter", node: torch.fx.Node, a: Arguments) -> Expr:
    """Convert slice_scatter.default; TVM's loops for this operator read out of the source's bounds at both ends."""
    graph = Graph(importer.block_builder)
    x, source = graph.hold(a["self"]), graph.hold(a["src"])
    axis = int(a["dim"]) % len(x.shape)
    if _is_tensor(a["start"]) or _is_tensor(a["end"]):
        places = _places(graph, source.shape[axis], a)
    elif not isinstance(x.shape[axis], int):
        return importer.by_upstream(node)
    else:
        start, end, step = slice(a["start"], a["end"], a["step"]).indices(x.shape[axis])
        if step == 1:
            return _replaced(x, arithmetic.cast(source, x.dtype), axis, start, max(start, end)).full
        places = graph.hold(relax.const(np.arange(start, end, step, dtype=np.int64), "int64"))
    return gather_scatter.index_put(x, [*[None] * axis, places], source).full


def _replaced(x: Value, source: Value, axis: int, start: int, end: int) -> Value:
    """Return data with the elements from `start` to `end` replaced: a concatenation of head, source and tail."""
    parts = [
        x.graph.hold(R.strided_slice(x.full, [axis], [first], [last]))
        for first, last in ((0, start), (end, x.shape[axis]))
        if first < last
    ]
    return move.concatenate([*parts[: bool(start)], source, *parts[bool(start) :]], axis)


def _places(graph: Graph, length: Any, a: Arguments) -> Value:
    """Return the run-time indices of a slice of constant length."""
    if not isinstance(length, int | tirx.IntImm) or not _is_tensor(a["start"]):
        raise ValueError(
            "the length of a slice depends on data; only slices of constant length, with any start, are supported"
        )
    return gather_scatter.steps(graph.hold(a["start"]), int(length), a["step"])


def _is_tensor(value: Any) -> bool:
    return isinstance(value, relax.Expr) and isinstance(value.ty, relax.TensorType)
