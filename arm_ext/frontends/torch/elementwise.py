# SPDX-License-Identifier: Apache-2.0
"""Elementwise torch operators that upstream's importer lacks."""

from typing import TYPE_CHECKING, Any

import torch
from tvm import relax
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_Arguments = dict[str, Any]


def exp2(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert exp2."""
    return importer.block_builder.emit(R.power(_number(2.0, a["self"]), a["self"]))


def erfc(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert erfc: 1 - erf(x)."""
    emit = importer.block_builder.emit
    return emit(R.subtract(_number(1.0, a["self"]), emit(R.erf(a["self"]))))


def hypot(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert hypot: sqrt(x² + y²)."""
    emit = importer.block_builder.emit
    squares = [emit(R.multiply(a[name], a[name])) for name in ("self", "other")]
    return emit(R.sqrt(emit(R.add(*squares))))


def softplus(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert softplus; from torch's threshold on, binary32 rounds it to x anyway."""
    emit, beta = importer.block_builder.emit, float(a["beta"])
    if beta == 1:
        return emit(R.nn.softplus(a["self"]))
    scale = _number(beta, a["self"])
    return emit(R.divide(emit(R.nn.softplus(emit(R.multiply(a["self"], scale)))), scale))


def distances(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert _cdist_forward: distances of all rows [..., m, k] and [..., n, k].

    Raises:
        ValueError: They are no Euclidean ones.
    """
    if a["p"] != 2.0:
        raise ValueError(f"distances with p = {a['p']} are not supported, only with p = 2")
    emit = importer.block_builder.emit
    left, right = emit(R.expand_dims(a["x1"], -2)), emit(R.expand_dims(a["x2"], -3))
    difference = emit(R.subtract(left, right))
    return emit(R.sqrt(emit(R.sum(emit(R.multiply(difference, difference)), -1))))


def shifted_left(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert x << y."""
    return importer.block_builder.emit(R.left_shift(a["self"], _number(a["other"], a["self"])))


def shifted_right(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert x >> y."""
    return importer.block_builder.emit(R.right_shift(a["self"], _number(a["other"], a["self"])))


def _number(value: Any, like: relax.Expr) -> relax.Expr:
    return relax.const(value, str(like.ty.dtype)) if isinstance(value, int | float) else value
