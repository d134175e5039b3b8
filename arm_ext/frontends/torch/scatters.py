# SPDX-License-Identifier: Apache-2.0
"""Scatters, sliding windows and grid sampling."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tvm import relax
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from arm_ext.frontends.torch.index_put import index_put

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_Arguments = dict[str, Any]
# torch's name for what is done with what stands at a place → TVM's.
_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
_METHODS, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def scatter_add(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert scatter_add.default."""
    return _scattered(importer, a, "sum")


def scatter_reduce(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert scatter_reduce.two except for means, which `decompositions` replaces by sums."""
    return _scattered(importer, a, a["reduce"])


def _scattered(importer: "ExportedProgramImporter", a: _Arguments, reduction: str) -> relax.Expr:
    emit, data = importer.block_builder.emit, a["self"]
    axis = int(a["dim"]) % len(data.ty.shape)
    return emit(R.scatter_elements(data, a["index"], a["src"], axis, _REDUCTIONS[reduction]))


def select_scatter(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert select_scatter.default: data[:, index] = src."""
    emit, data = importer.block_builder.emit, a["self"]
    axis = int(a["dim"]) % len(data.ty.shape)
    place = relax.const(np.array([a["index"]], np.int64), "int64")
    source = emit(R.expand_dims(a["src"], axis))
    return index_put(emit, data, [None] * axis + [place], source, accumulate=False)


def unfold(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert unfold.default: windows along an axis, whose elements become the last axis."""
    emit, data = importer.block_builder.emit, a["self"]
    rank = len(data.ty.shape)
    if not rank:  # one element is one window of 1, of which only the last axis is left
        return emit(R.reshape(data, [1]))
    axis, size, step = int(a["dimension"]) % rank, int(a["size"]), int(a["step"])
    starts = np.arange(0, int(data.ty.shape[axis]) - size + 1, step)
    places = starts[:, None] + np.arange(size)
    windows = emit(R.take(data, relax.const(places.astype(np.int64), "int64"), axis, "clip"))
    order = [k for k in range(rank + 1) if k != axis + 1]
    return emit(R.permute_dims(windows, [*order, axis + 1]))


def grid_sample(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert grid_sampler_2d.default; coordinates are the last axis in torch, and the second in TVM."""
    emit = importer.block_builder.emit
    grid = emit(R.permute_dims(a["grid"], [0, 3, 1, 2]))
    method, padding = _METHODS[a["interpolation_mode"]], _PADDINGS[a["padding_mode"]]
    return emit(R.image.grid_sample(a["input"], grid, method, "NCHW", padding, a["align_corners"]))
