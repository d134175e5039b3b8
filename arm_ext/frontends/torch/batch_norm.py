# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation that trains, and any momentum: upstream returns wrong running statistics, and takes 0 to 1."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tvm import relax
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_MOMENTUM = 5  # its place among the arguments of the operator that does not train


def with_known_statistics(
    importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]
) -> relax.Expr:
    """Convert _native_batch_norm_legit_no_training, which does not read its momentum."""
    node.update_arg(_MOMENTUM, 0.0)
    return importer._batch_norm_legit_no_training(node)


def training(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> list[relax.Expr]:
    """Convert _native_batch_norm_legit_functional: outputs, statistics of this batch, and new running ones."""
    emit, x = importer.block_builder.emit, a["input"]
    sizes = list(map(int, x.ty.shape))
    axes, along = [axis for axis in range(len(sizes)) if axis != 1], [1, sizes[1], *[1] * (len(sizes) - 2)]
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
    inverse = emit(R.rsqrt(emit(R.add(variance, number(a["eps"])))))
    centred = emit(R.subtract(x, emit(R.reshape(mean, along))))
    result = emit(R.multiply(centred, emit(R.reshape(inverse, along))))
    for operator, operand in ((R.multiply, a["weight"]), (R.add, a["bias"])):
        if operand is not None:
            result = emit(operator(result, emit(R.reshape(operand, along))))
    saved = [mean, inverse]
    if not a["training"]:  # torch returns none
        saved = [relax.const(np.zeros(known.shape), dtype) for known in node.meta["val"][1:3]]
    return [result, *saved, *running]
