# SPDX-License-Identifier: Apache-2.0
"""torch operators for which upstream's importer has nothing, or more than is needed."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tvm import relax

from arm_ext.frontends.torch import dynamic
from arm_ext.frontends.torch.index_put import index_put
from arm_ext.frontends.torch.places import compared, item, selected, slice_scattered, sliced

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

Convert = Callable[["ExportedProgramImporter", torch.fx.Node], relax.Expr]


def _arguments(importer: "ExportedProgramImporter", node: torch.fx.Node) -> dict[str, Any]:
    """The node's arguments by the names that its operator has for them; values are those of the graph."""
    assert isinstance(node.target, torch._ops.OpOverload)  # CONVERTERS has no others
    schema = node.target._schema
    given = dict(zip((a.name for a in schema.arguments), importer.retrieve_args(node), strict=False))
    given.update(importer._retrieve_args(node.kwargs))
    return {a.name: given.get(a.name, a.default_value) for a in schema.arguments}


def _attention(importer: "ExportedProgramImporter", node: torch.fx.Node) -> relax.Expr:
    """softmax(q k^T scale + mask) v over [..., length, width]."""
    a = _arguments(importer, node)
    emit = importer.block_builder.emit
    q, k, v, mask = a["query"], a["key"], a["value"], a["attn_mask"]
    if a["enable_gqa"]:
        groups = int(q.ty.shape[-3]) // int(k.ty.shape[-3])
        k, v = (emit(relax.op.repeat(x, groups, axis=-3)) for x in (k, v))
    rank, dtype = len(q.ty.shape), str(q.ty.dtype)
    axes = [*range(rank - 2), rank - 1, rank - 2]
    scale = a["scale"] or 1 / math.sqrt(int(q.ty.shape[-1]))
    scores = emit(relax.op.matmul(q, emit(relax.op.permute_dims(k, axes))))
    scores = emit(relax.op.multiply(scores, relax.const(scale, dtype)))
    if a["is_causal"]:
        queries, keys = int(q.ty.shape[-2]), int(k.ty.shape[-2])
        causal = np.where(np.tril(np.ones((queries, keys), bool)), 0, -math.inf)
        scores = emit(relax.op.add(scores, relax.const(causal, dtype)))
    if mask is not None:
        if str(mask.ty.dtype) == "bool":
            zero, low = (relax.const(value, dtype) for value in (0.0, -math.inf))
            mask = emit(relax.op.where(mask, zero, low))
        scores = emit(relax.op.add(scores, mask))
    return emit(relax.op.matmul(emit(relax.op.nn.softmax(scores, axis=-1)), v))


def _quantize(importer: "ExportedProgramImporter", node: torch.fx.Node) -> relax.Expr:
    a = _arguments(importer, node)
    dtype = _dtype(a["dtype"])
    scale, zero = _parameters(importer, a, dtype)
    return importer.block_builder.emit(
        relax.op.quantize(a["input"], scale, zero, axis=a.get("axis", -1), out_dtype=dtype)
    )


def _dequantize(importer: "ExportedProgramImporter", node: torch.fx.Node) -> relax.Expr:
    a = _arguments(importer, node)
    scale, zero = _parameters(importer, a, str(a["input"].ty.dtype))
    return importer.block_builder.emit(
        relax.op.dequantize(a["input"], scale, zero, axis=a.get("axis", -1), out_dtype="float32")
    )


def _parameters(
    importer: "ExportedProgramImporter", a: dict[str, Any], dtype: str
) -> tuple[relax.Expr, relax.Expr]:
    """Scale and zero point: numbers, or vectors along an axis."""
    if "scales" not in a:
        return relax.const(a["scale"], "float32"), relax.const(a["zero_point"], dtype)
    return a["scales"], importer.block_builder.emit(relax.op.astype(a["zero_points"], dtype))


def _index_put(importer: "ExportedProgramImporter", node: torch.fx.Node) -> relax.Expr:
    a = _arguments(importer, node)
    return index_put(importer.block_builder.emit, a["self"], a["indices"], a["values"], a["accumulate"])


def _with_arguments(convert: Callable[..., relax.Expr]) -> Convert:
    return lambda importer, node: convert(importer, node, _arguments(importer, node))


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# Operator → what converts it.
CONVERTERS: dict[str, Convert] = {
    "scaled_dot_product_attention.default": _attention,
    "quantize_per_tensor.default": _quantize,
    "quantize_per_channel.default": _quantize,
    "dequantize_per_tensor.default": _dequantize,
    "dequantize_per_channel.default": _dequantize,
    "choose_qparams.tensor": _with_arguments(dynamic.choose),
    "quantize_per_tensor.tensor": _with_arguments(dynamic.quantize),
    "dequantize_per_tensor.tensor": _with_arguments(dynamic.dequantize),
    "linear.default": _with_arguments(dynamic.linear),
    "index_put.default": _index_put,
    "_local_scalar_dense.default": item,
    "item.default": item,
    "select.int": _with_arguments(selected),
    "slice.Tensor": _with_arguments(sliced),
    "slice_scatter.default": _with_arguments(slice_scattered),
    **dict.fromkeys(("ge", "gt", "le", "lt", "eq", "ne"), compared),
}
