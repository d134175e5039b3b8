# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation that trains, and any momentum: upstream returns wrong running statistics, and takes 0 to 1."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

Emit = Callable[[Expr], Expr]

_MOMENTUM = 5  # its place among the arguments of the operator that does not train


def with_known_statistics(
    importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]
) -> relax.Expr:
    """Convert _native_batch_norm_legit_no_training, which does not read its momentum.

    That of halves is computed in float32, as in torch; TVM's loops of it have results of float32.
    """
    x = a["input"]
    if str(x.ty.dtype) in ("bfloat16", "float16"):
        emit = importer.block_builder.emit
        wide = {name: _wide(emit, value) for name, value in a.items()}
        return _normalized(emit, wide["input"], wide["running_mean"], _inverse(emit, wide), wide)
    node.update_arg(_MOMENTUM, 0.0)
    return importer._batch_norm_legit_no_training(node)


def _wide(emit: Emit, value: Any) -> Any:
    return emit(R.astype(value, "float32")) if isinstance(value, Expr) else value


def _inverse(emit: Emit, a: dict[str, Any]) -> relax.Expr:
    """Return 1 / sqrt(running variance + eps)."""
    variance = a["running_var"]
    return emit(R.rsqrt(emit(R.add(variance, relax.const(a["eps"], str(variance.ty.dtype))))))


def _normalized(
    emit: Emit, x: relax.Expr, mean: relax.Expr, inverse: relax.Expr, a: dict[str, Any]
) -> relax.Expr:
    """Return (x - mean) * inverse * weight + bias, each but x with a number for each channel."""
    rank = len(x.ty.shape)
    along = [1, int(x.ty.shape[1]), *[1] * (rank - 2)]
    centred = emit(R.subtract(x, emit(R.reshape(mean, along))))
    result = emit(R.multiply(centred, emit(R.reshape(inverse, along))))
    for operator, operand in ((R.multiply, a["weight"]), (R.add, a["bias"])):
        if operand is not None:
            result = emit(operator(result, emit(R.reshape(operand, along))))
    return result


def training(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> list[relax.Expr]:
    """Convert _native_batch_norm_legit_functional: outputs, statistics of this batch, and new running ones."""
    emit, x = importer.block_builder.emit, a["input"]
    sizes = list(map(int, x.ty.shape))
    axes = [axis for axis in range(len(sizes)) if axis != 1]
    dtype = str(x.ty.dtype)

    def number(value: float) -> relax.Expr:
        return relax.const(value, dtype)

    def updated(known: relax.Expr, new: relax.Expr) -> relax.Expr:
        kept = emit(R.multiply(known, number(1 - a["momentum"])))
        return emit(R.add(kept, emit(R.multiply(new, number(a["momentum"])))))

    running = [a["running_mean"], a["running_var"]]
    if a["training"]:
        mean, variance = (emit(reduce(x, axes)) for reduce in (R.mean, R.variance))
        count = math.prod(sizes) // sizes[1]
        # torch refuses a single value a channel.
        unbiased = emit(R.multiply(variance, number(count / (count - 1))))
        running = [updated(*pair) for pair in zip(running, (mean, unbiased), strict=True)]
    else:
        mean, variance = running
    inverse = _inverse(emit, {**a, "running_var": variance})
    result = _normalized(emit, x, mean, inverse, a)
    saved = [mean, inverse]
    if not a["training"]:  # torch returns none
        saved = [relax.const(np.zeros(known.shape), dtype) for known in node.meta["val"][1:3]]
    return [result, *saved, *running]
