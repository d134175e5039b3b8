# SPDX-License-Identifier: Apache-2.0
"""Torch reductions that TVM's importer lacks, by the operators of `frontends.ops`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tvm.ir import Expr

from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.ops import arithmetic, reduce
from arm_ext.frontends.torch.promote import dtype_name

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_Arguments = dict[str, Any]
_Convert = Callable[["ExportedProgramImporter", torch.fx.Node, _Arguments], Any]


def along(function: Callable[..., Value]) -> _Convert:
    """Return a converter of a reduction along `dim`: a number, a list of numbers, or None for all axes."""

    def convert(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> Expr:
        axes = a.get("dim")
        axes = [axes] if isinstance(axes, int) else list(axes or []) or None
        return function(Graph(importer.block_builder).hold(a["self"]), axes, a.get("keepdim", False)).full

    return convert


def truth(function: Callable[..., Value]) -> _Convert:
    """Return a converter of `any` or `all`, for which numbers are true if they are not 0."""
    return along(lambda x, axes, keepdims: function(arithmetic.cast(x, "bool"), axes, keepdims))


def extremum_and_index(*, greatest: bool) -> _Convert:
    """Return a converter of max.dim or min.dim, which return values and indices."""
    function = reduce.greatest if greatest else reduce.least

    def convert(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> list[Expr]:
        x, axis, keepdims = Graph(importer.block_builder).hold(a["self"]), a["dim"], a["keepdim"]
        return [
            function(x, [axis], keepdims).full,
            reduce.index_of(x, axis, keepdims, greatest=greatest).full,
        ]

    return convert


def vector_norm(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> Expr:
    """Convert linalg_vector_norm."""
    x = Graph(importer.block_builder).hold(a["self"])
    if a["dtype"] is not None:
        x = arithmetic.cast(x, dtype_name(a["dtype"]))
    return reduce.vector_norm(x, float(a["ord"]), a["dim"], a["keepdim"]).full


def variance_and_mean(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> list[Expr]:
    """Convert var_mean.correction."""
    correction = 1 if a["correction"] is None else a["correction"]
    x = Graph(importer.block_builder).hold(a["self"])
    return [y.full for y in reduce.variance(x, list(a["dim"] or []) or None, a["keepdim"], correction)]


def running_sum(importer: "ExportedProgramImporter", node: torch.fx.Node, a: _Arguments) -> Expr:
    """Convert cumsum, in the dtype of its result."""
    x = Graph(importer.block_builder).hold(a["self"])
    dtype = dtype_name(node.meta["val"].dtype)
    return reduce.running_sum(arithmetic.cast(x, dtype), a["dim"] % max(1, len(x.shape))).full
