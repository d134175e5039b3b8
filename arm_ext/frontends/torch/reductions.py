# SPDX-License-Identifier: Apache-2.0
"""Torch reductions that upstream's importer lacks."""

import math
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


def product(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert a product along one axis, `prod.dim_int`."""
    return importer.block_builder.emit(R.prod(a["self"], [a["dim"]], a["keepdim"]))


def vector_norm(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert linalg_vector_norm; the norm of order 0 counts what is not 0. Squares of halves have room in float32."""
    emit, x, axes, order = importer.block_builder.emit, a["self"], a["dim"], float(a["ord"])
    if a["dtype"] is not None:
        x = emit(R.astype(x, importer._convert_data_type(a["dtype"])))
    if str(x.ty.dtype) in ("float16", "bfloat16"):
        x = emit(R.astype(x, "float32"))
    dtype = str(x.ty.dtype)
    if order == 0:
        counted = emit(R.astype(emit(R.not_equal(x, relax.const(0, dtype))), dtype))
        return emit(R.sum(counted, axes, a["keepdim"]))
    size = emit(R.abs(x))
    if math.isinf(order):
        return emit((R.max if order > 0 else R.min)(size, axes, a["keepdim"]))
    if order == 1:
        return emit(R.sum(size, axes, a["keepdim"]))
    if order == 2:
        return emit(R.sqrt(emit(R.sum(emit(R.multiply(x, x)), axes, a["keepdim"]))))
    total = emit(R.sum(emit(R.power(size, relax.const(order, dtype))), axes, a["keepdim"]))
    return emit(R.power(total, relax.const(1 / order, dtype)))


def variance_and_mean(
    importer: "ExportedProgramImporter", node: torch.fx.Node, a: _Arguments
) -> list[relax.Expr]:
    """Convert var_mean.correction."""
    emit, x, axes = importer.block_builder.emit, a["self"], list(a["dim"] or []) or None
    mean = emit(R.mean(x, axes, keepdims=True))
    difference = emit(R.subtract(x, mean))
    total = emit(R.sum(emit(R.multiply(difference, difference)), axes, a["keepdim"]))
    correction = 1 if a["correction"] is None else a["correction"]
    variance, known = node.meta["val"]
    count = math.prod(map(int, x.ty.shape)) // max(1, variance.numel())
    # A quotient by the constant 0 cannot be lowered.
    scale = relax.const(1 / (count - correction) if count > correction else math.inf, str(x.ty.dtype))
    if not a["keepdim"]:
        mean = emit(R.reshape(mean, list(known.shape)))
    return [emit(R.multiply(total, scale)), mean]


def any_of_all(importer: "ExportedProgramImporter", _: torch.fx.Node, a: _Arguments) -> relax.Expr:
    """Convert any.default of booleans."""
    emit = importer.block_builder.emit
    return emit(R.astype(emit(R.max(emit(R.astype(a["self"], "int8")))), "bool"))
