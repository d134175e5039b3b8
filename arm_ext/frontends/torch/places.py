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
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from arm_ext.frontends.torch.index_put import dims, index_put, positive

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

Arguments = dict[str, Any]

_COMPARISONS = {
    "ge": R.greater_equal,
    "gt": R.greater,
    "le": R.less_equal,
    "lt": R.less,
    "eq": R.equal,
    "ne": R.not_equal,
}


def item(importer: "ExportedProgramImporter", node: torch.fx.Node) -> relax.Expr:
    """Convert `item`: a tensor with one element becomes a scalar tensor."""
    x = importer.env[node.args[0]]
    return x if len(x.ty.shape) == 0 else importer.block_builder.emit(R.reshape(x, []))


def compared(importer: "ExportedProgramImporter", node: torch.fx.Node) -> relax.Expr:
    """Convert a comparison of two numbers, either of which may be a run-time scalar."""
    assert callable(node.target)
    name = node.target.__name__
    values = importer.retrieve_args(node)
    if not any(_is_tensor(value) for value in values):
        return importer._symbolic_comparison(getattr(operator, name))(node)
    left, right = (value if _is_tensor(value) else relax.const(int(value), "int64") for value in values)
    return importer.block_builder.emit(_COMPARISONS[name](left, right))


def selected(importer: "ExportedProgramImporter", node: torch.fx.Node, a: Arguments) -> relax.Expr:
    """Convert select.int; upstream takes the index -1 for the place before the first."""
    if _is_tensor(a["index"]):
        return _taken(importer, a, a["index"])
    emit, x, place = importer.block_builder.emit, a["self"], a["index"]
    axis = int(a["dim"]) % len(x.ty.shape)
    size = x.ty.shape[axis]
    if not isinstance(place, int) or place >= 0:
        return importer._select(node)
    if isinstance(size, tirx.IntImm):
        return emit(R.take(x, relax.const(int(size) + place, "int64"), axis, "clip"))
    part = emit(R.strided_slice(x, [axis], [size + place], [size + place + 1]))
    return emit(R.squeeze(part, [axis]))


def sliced(importer: "ExportedProgramImporter", node: torch.fx.Node, a: Arguments) -> relax.Expr:
    """Convert slice.Tensor."""
    if not _is_tensor(a["start"]) and not _is_tensor(a["end"]):
        return importer._slice(node)
    return _taken(importer, a, _places(importer, node.meta["val"].shape[a["dim"]], a))


def slice_scattered(importer: "ExportedProgramImporter", node: torch.fx.Node, a: Arguments) -> relax.Expr:
    """Convert slice_scatter.default; TVM's loops of it read elements before and behind the source."""
    axis = int(a["dim"]) % len(a["self"].ty.shape)
    if not _is_tensor(a["start"]) and not _is_tensor(a["end"]):
        size = a["self"].ty.shape[axis]
        if not isinstance(size, tirx.IntImm):
            return importer._slice_scatter(node)
        start, end, step = slice(a["start"], a["end"], a["step"]).indices(int(size))
        if step == 1:
            return _replaced(importer, a, axis, start, max(start, end))
        places = relax.const(np.arange(start, end, step, dtype=np.int64), "int64")
    else:
        places = _places(importer, a["src"].ty.shape[axis], a)
    return index_put(
        importer.block_builder.emit, a["self"], [None] * axis + [places], a["src"], accumulate=False
    )


def _replaced(
    importer: "ExportedProgramImporter", a: Arguments, axis: int, start: int, end: int
) -> relax.Expr:
    """Return data with the elements from `start` to `end` replaced: those before, the source, and those behind."""
    emit, data = importer.block_builder.emit, a["self"]
    size = int(data.ty.shape[axis])
    source = emit(R.astype(a["src"], str(data.ty.dtype)))
    before = [emit(R.strided_slice(data, [axis], [0], [start]))] if start else []
    behind = [emit(R.strided_slice(data, [axis], [end], [size]))] if end < size else []
    return emit(R.concat([*before, source, *behind], axis)) if before or behind else source


def _places(importer: "ExportedProgramImporter", length: Any, a: Arguments) -> relax.Expr:
    """Return the indices of a slice."""
    if not isinstance(length, int | tirx.IntImm) or not _is_tensor(a["start"]):
        raise ValueError(
            "the length of a slice follows from the data; a slice of a fixed length may begin at any place"
        )
    steps = np.arange(int(length), dtype=np.int64) * a["step"]
    return importer.block_builder.emit(R.add(a["start"], relax.const(steps, "int64")))


def _taken(importer: "ExportedProgramImporter", a: Arguments, places: relax.Expr) -> relax.Expr:
    emit, axis = importer.block_builder.emit, int(a["dim"])
    inside = positive(emit, places, dims(a["self"])[axis])
    return emit(R.take(a["self"], inside, axis, "fast"))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, relax.Expr) and isinstance(value.ty, relax.TensorType)
