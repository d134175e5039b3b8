# SPDX-License-Identifier: Apache-2.0
"""Torch reductions that upstream's importer lacks."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tvm import relax
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_Arguments = dict[str, Any]
_Convert = Callable[["ExportedProgramImporter", torch.fx.Node, _Arguments], Any]


def extremum(reduce: Callable[..., relax.Expr]) -> _Convert:
    """Return a converter of amax or amin."""

    def convert(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
        axes = list(a["dim"]) or None
        return importer.block_builder.emit(reduce(a["self"], axes, a["keepdim"]))

    return convert


def extremum_and_place(reduce: Callable[..., relax.Expr], place: Callable[..., relax.Expr]) -> _Convert:
    """Return a converter of max.dim or min.dim, which return values and indices."""

    def convert(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> list[relax.Expr]:
        emit = importer.block_builder.emit
        return [emit(operator(a["self"], a["dim"], keepdims=a["keepdim"])) for operator in (reduce, place)]

    return convert


def any_of_all(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert any.default of booleans."""
    emit = importer.block_builder.emit
    return emit(R.astype(emit(R.max(emit(R.astype(a["self"], "int8")))), "bool"))
