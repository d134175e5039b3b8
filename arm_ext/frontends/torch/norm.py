# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation with any momentum (TVM's importer returns wrong running statistics), and group normalisation."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.ops import norm
from arm_ext.frontends.ops.arithmetic import cast

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_MOMENTUM = 5  # index of this argument in the operator for inference


def with_known_statistics(
    importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]
) -> Expr:
    """Convert _native_batch_norm_legit_no_training, which ignores its momentum.

    That of halves is computed in float32, as in torch; TVM's loops of it have results of float32.
    """
    if str(a["input"].ty.dtype) not in ("bfloat16", "float16"):
        node.update_arg(_MOMENTUM, 0.0)
        return importer.by_upstream(node)
    graph = Graph(importer.block_builder)
    x, mean, variance, weight, bias = (
        None if a[name] is None else cast(graph.hold(a[name]), "float32")
        for name in ("input", "running_mean", "running_var", "weight", "bias")
    )
    assert x is not None  # in torch's operator, data and statistics are mandatory
    assert mean is not None
    assert variance is not None
    return norm.normalize(x, mean, norm.inverse_deviation(variance, a["eps"]), weight, bias).full


def training(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> list[Expr]:
    """Convert _native_batch_norm_legit_functional: return data, the batch's statistics and new running statistics."""
    graph = Graph(importer.block_builder)
    x, *running = (graph.hold(a[name]) for name in ("input", "running_mean", "running_var"))
    weight, bias = (None if a[name] is None else graph.hold(a[name]) for name in ("weight", "bias"))

    def updated(known: Value, new: Value) -> Value:
        momentum: float = a["momentum"]
        return known * (1 - momentum) + new * momentum

    mean, variance = running
    if a["training"]:
        axes = [axis for axis in range(len(x.shape)) if axis != 1]
        mean, variance = (graph.hold(function(x.full, axes)) for function in (R.mean, R.variance))
        count = math.prod(x.shape) // x.shape[1]
        # `count` is above 1, since torch refuses a batch with one value per channel.
        new = (mean, variance * (count / (count - 1)))
        running = [updated(*pair) for pair in zip(running, new, strict=True)]
    inverse = norm.inverse_deviation(variance, a["eps"])
    result = norm.normalize(x, mean, inverse, weight, bias)
    saved = [mean.full, inverse.full]
    if not a["training"]:  # torch returns none
        saved = [relax.const(np.zeros(known.shape), x.dtype) for known in node.meta["val"][1:3]]
    return [result.full, *saved, *(each.full for each in running)]


def by_groups(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> Expr:
    """Convert native_group_norm; TVM's converter requires both weight and bias."""
    x = a["input"]
    channels = int(x.ty.shape[1])
    weight, bias = (
        relax.const(np.full(channels, neutral), str(x.ty.dtype)) if a[name] is None else a[name]
        for name, neutral in (("weight", 1), ("bias", 0))
    )
    axes = list(range(2, len(x.ty.shape)))
    return importer.block_builder.emit(R.nn.group_norm(x, weight, bias, a["group"], 1, axes, a["eps"]))
