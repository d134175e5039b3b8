# SPDX-License-Identifier: Apache-2.0
"""Indexing, scatters, sliding windows and grid sampling of torch, by the operators of `frontends.ops`."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.ops import gather_scatter

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_Arguments = dict[str, Any]
_REDUCTIONS: dict[str, gather_scatter.Reduction] = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
_METHODS, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _indices(graph: Graph, indices: list[Expr | None]) -> list[Value | None]:
    return [None if each is None else graph.hold(each) for each in indices]


def index(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> Expr:
    """Convert index.Tensor: data[i, :, j, …]."""
    graph = Graph(importer.block_builder)
    return gather_scatter.index(graph.hold(a["self"]), _indices(graph, a["indices"])).full


def index_put(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> Expr:
    """Convert index_put: data[i, j, …] = values."""
    graph = Graph(importer.block_builder)
    data, values = graph.hold(a["self"]), graph.hold(a["values"])
    return gather_scatter.index_put(
        data, _indices(graph, a["indices"]), values, accumulate=a["accumulate"]
    ).full


def scatter_add(importer: "ExportedProgramImporter", node: torch.fx.Node, a: _Arguments) -> Expr:
    """Convert scatter_add.default."""
    return scatter_reduce(importer, node, {**a, "reduce": "sum"})


def scatter_reduce(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> Expr:
    """Convert scatter_reduce.two except for means, which `decompositions` replaces by sums."""
    graph = Graph(importer.block_builder)
    x, places, values = (graph.hold(a[name]) for name in ("self", "index", "src"))
    axis = int(a["dim"]) % len(x.shape)
    return gather_scatter.scatter_elements(x, places, values, axis, _REDUCTIONS[a["reduce"]]).full


def select_scatter(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> Expr:
    """Convert select_scatter.default: data[:, index] = src."""
    graph = Graph(importer.block_builder)
    x = graph.hold(a["self"])
    axis = int(a["dim"]) % len(x.shape)
    place = graph.hold(relax.const(np.array([a["index"]], np.int64), "int64"))
    source = graph.hold(R.expand_dims(a["src"], axis))
    return gather_scatter.index_put(x, [*[None] * axis, place], source).full


def unfold(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> Expr:
    """Convert unfold.default: windows along an axis, whose elements become the last axis."""
    x = Graph(importer.block_builder).hold(a["self"])
    axis = int(a["dimension"]) % max(1, len(x.shape))
    return gather_scatter.windows(x, axis, int(a["size"]), int(a["step"])).full


def grid_sample(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> Expr:
    """Convert grid_sampler_2d.default; coordinates are the last axis in torch, and the second in TVM."""
    graph = Graph(importer.block_builder)
    grid = graph.hold(a["grid"]).permute([0, 3, 1, 2])
    method, padding = _METHODS[a["interpolation_mode"]], _PADDINGS[a["padding_mode"]]
    return graph.emit(R.image.grid_sample(a["input"], grid.full, method, "NCHW", padding, a["align_corners"]))
