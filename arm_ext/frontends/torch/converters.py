# SPDX-License-Identifier: Apache-2.0
"""The table of converters for torch operators that TVM's importer lacks or converts inefficiently."""

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tvm import relax

from arm_ext.frontends.graph import Graph
from arm_ext.frontends.ops import arithmetic, attention, move, reduce
from arm_ext.frontends.torch import (
    affine,
    control,
    dynamic,
    elementwise,
    norm,
    pool,
    random,
    reductions,
    resample,
    scatters,
)
from arm_ext.frontends.torch.promote import dtype_name
from arm_ext.frontends.torch.recurrent import NAMES, recurrent
from arm_ext.frontends.torch.slices import compared, item, selected, slice_scattered, sliced

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

Convert = Callable[["ExportedProgramImporter", torch.fx.Node], relax.Expr]


def arguments_of(importer: "ExportedProgramImporter", node: torch.fx.Node) -> dict[str, Any]:
    """Return the node's arguments by their names in the operator's schema, as Relax values."""
    assert isinstance(node.target, torch._ops.OpOverload)  # CONVERTERS has entries for overloads only
    schema = node.target._schema
    given = dict(zip((a.name for a in schema.arguments), importer.retrieve_args(node), strict=False))
    given.update(torch.fx.map_arg(node.kwargs, importer.env.__getitem__))
    return {a.name: given.get(a.name, a.default_value) for a in schema.arguments}


def _attention(importer: "ExportedProgramImporter", _: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert scaled_dot_product_attention, with an explicit mask, a causal mask, or the sum of both."""
    graph = Graph(importer.block_builder)
    q, k, v = (graph.hold(a[name]) for name in ("query", "key", "value"))
    if a["enable_gqa"]:
        groups = q.shape[-3] // k.shape[-3]
        k, v = (graph.hold(relax.op.repeat(x.full, groups, axis=-3)) for x in (k, v))
    mask = None if a["attn_mask"] is None else graph.hold(a["attn_mask"])
    return attention.attend(q, k, v, mask, a["scale"], causal=a["is_causal"]).full


def _quantize(importer: "ExportedProgramImporter", node: torch.fx.Node) -> relax.Expr:
    a = arguments_of(importer, node)
    dtype = dtype_name(a["dtype"])
    scale, zero = _parameters(importer, a, dtype)
    return importer.block_builder.emit(
        relax.op.quantize(a["input"], scale, zero, axis=a.get("axis", -1), out_dtype=dtype)
    )


def _dequantize(importer: "ExportedProgramImporter", node: torch.fx.Node) -> relax.Expr:
    a = arguments_of(importer, node)
    scale, zero = _parameters(importer, a, str(a["input"].ty.dtype))
    return importer.block_builder.emit(
        relax.op.dequantize(a["input"], scale, zero, axis=a.get("axis", -1), out_dtype="float32")
    )


def _parameters(
    importer: "ExportedProgramImporter", a: dict[str, Any], dtype: str
) -> tuple[relax.Expr, relax.Expr]:
    """Return scale and zero point: scalars, or vectors with one number per channel."""
    if "scales" not in a:
        return relax.const(a["scale"], "float32"), relax.const(a["zero_point"], dtype)
    return a["scales"], importer.block_builder.emit(relax.op.astype(a["zero_points"], dtype))


def _divide(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert a division, whose operands have one dtype or are numbers."""
    emit, dtype = importer.block_builder.emit, str(a["self"].ty.dtype)
    left, right = a["self"], a["other"]
    if isinstance(right, bool | int | float):
        right = relax.const(right, dtype)
    if a.get("rounding_mode") == "floor":
        return emit(relax.op.floor_divide(left, right))
    quotient = emit(relax.op.divide(left, right))
    # A quotient of integers is already truncated.
    is_cut = a.get("rounding_mode") == "trunc" and "float" in dtype
    return emit(relax.op.trunc(quotient)) if is_cut else quotient


def _clamp(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert clamp, whose bounds are numbers or tensors.

    TVM's importer uses infinity for a missing bound of integers.
    """
    emit, dtype = importer.block_builder.emit, dtype_name(node.meta["val"].dtype)
    x = emit(relax.op.astype(a["self"], dtype))
    for bound, limited in ((a["min"], relax.op.maximum), (a["max"], relax.op.minimum)):
        if isinstance(bound, relax.Expr):
            x = emit(limited(x, emit(relax.op.astype(bound, dtype))))
        elif bound is not None:
            x = emit(limited(x, relax.const(bound, dtype)))
    return x


def _clamp_by_numbers(
    importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]
) -> relax.Expr:
    if "float" not in str(a["self"].ty.dtype):
        return _clamp(importer, node, a)
    low, high = (sign * math.inf if a[name] is None else a[name] for name, sign in (("min", -1), ("max", 1)))
    return arithmetic.clip(Graph(importer.block_builder).hold(a["self"]), low, high).full


def _concatenate(importer: "ExportedProgramImporter", _: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    graph = Graph(importer.block_builder)
    return move.concatenate([graph.hold(x) for x in a["tensors"]], a["dim"]).full


def _cast(importer: "ExportedProgramImporter", _: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    return arithmetic.cast(Graph(importer.block_builder).hold(a["a"]), dtype_name(a["dtype"])).full


def _product(importer: "ExportedProgramImporter", _: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert a matrix product; TVM's importer accumulates all dtypes in float32, even float64 and integers."""
    x, y = (value for value in a.values() if isinstance(value, relax.Expr))
    dtype = str(x.ty.dtype)
    is_exact = dtype == "float64" or "int" in dtype
    return importer.block_builder.emit(relax.op.matmul(x, y, out_dtype=dtype if is_exact else "float32"))


def _convolution(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert a convolution; TVM's importer accumulates all dtypes in float32, even float64.

    `decompositions` has made a step of its own of the bias.
    """
    x, rank = a["input"], len(a["input"].ty.shape) - 2
    if str(x.ty.dtype) != "float64" or a["transposed"]:
        return importer.by_upstream(node)
    convolve = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)[rank - 1]
    window = {"strides": a["stride"], "padding": a["padding"], "dilation": a["dilation"]}
    sizes = {name: [*values] * (rank if len(values) == 1 else 1) for name, values in window.items()}
    return importer.block_builder.emit(convolve(x, a["weight"], **sizes, groups=a["groups"]))


def _range(importer: "ExportedProgramImporter", node: torch.fx.Node) -> relax.Expr:
    if any(isinstance(arg, torch.fx.Node) for arg in node.args):
        return importer.by_upstream(node)
    assert isinstance(node.target, torch._ops.OpOverload)
    dtype = node.meta["val"].dtype
    return relax.const(node.target(*node.args, dtype=dtype).numpy(), dtype_name(dtype))


def _without_statistics(importer: "ExportedProgramImporter", node: torch.fx.Node) -> relax.Expr:
    """Convert a normalisation by TVM's converter, which returns only the normalised data."""
    if any(user.target is operator.getitem and user.args[1] != 0 for user in node.users):
        raise ValueError("its mean and deviation, which only training needs, are not supported")
    return importer.by_upstream(node)


def _with_arguments(convert: Callable[..., relax.Expr]) -> Convert:
    return lambda importer, node: convert(importer, node, arguments_of(importer, node))


# Operator → its converter.
CONVERTERS: dict[str, Convert] = {
    "scaled_dot_product_attention.default": _with_arguments(_attention),
    "quantize_per_tensor.default": _quantize,
    "quantize_per_channel.default": _quantize,
    "dequantize_per_tensor.default": _dequantize,
    "dequantize_per_channel.default": _dequantize,
    "choose_qparams.tensor": _with_arguments(dynamic.choose),
    "quantize_per_tensor.tensor": _with_arguments(dynamic.quantize),
    "dequantize_per_tensor.tensor": _with_arguments(dynamic.dequantize),
    "convolution.default": _with_arguments(_convolution),
    "convert_element_type.default": _with_arguments(_cast),
    **dict.fromkeys(("mm.default", "bmm.default", "matmul.default"), _with_arguments(_product)),
    "linear.default": _with_arguments(dynamic.linear),
    "dequantize_affine.default": _with_arguments(affine.convert_dequantize),
    "_int_mm.default": _with_arguments(affine.convert_product),
    "_to_copy.default": _with_arguments(affine.convert_cast),
    "index.Tensor": _with_arguments(scatters.index),
    "index_put.default": _with_arguments(scatters.index_put),
    **dict.fromkeys(("div.Tensor", "div.Tensor_mode", "div.Scalar"), _with_arguments(_divide)),
    "_local_scalar_dense.default": item,
    "item.default": item,
    "select.int": _with_arguments(selected),
    "slice.Tensor": _with_arguments(sliced),
    "slice_scatter.default": _with_arguments(slice_scattered),
    control.COND: control.cond,
    control.LOOP: control.while_loop,
    **dict.fromkeys(NAMES, recurrent),
    "clamp.default": _with_arguments(_clamp_by_numbers),
    "clamp.Tensor": _with_arguments(_clamp),
    "cat.default": _with_arguments(_concatenate),
    **dict.fromkeys(("arange.default", "arange.start", "arange.start_step"), _range),
    **{name: _with_arguments(convert) for name, convert in elementwise.FUNCTIONS.items()},
    "native_layer_norm.default": _without_statistics,
    **dict.fromkeys(resample.ANTIALIASED, _with_arguments(resample.resampled)),
    "upsample_bilinear2d.vec": _with_arguments(resample.bilinear),
    "upsample_nearest2d.vec": _with_arguments(resample.nearest),
    **dict.fromkeys(
        (f"max_pool{rank}d_with_indices.default" for rank in (2, 3)), _with_arguments(pool.maxima)
    ),
    **dict.fromkeys((f"avg_pool{rank}d.default" for rank in (2, 3)), _with_arguments(pool.averages)),
    **{
        name: _with_arguments(reductions.along(function))
        for name, function in (
            ("amax.default", reduce.greatest),
            ("amin.default", reduce.least),
            ("prod.dim_int", reduce.product),
        )
    },
    **{
        f"{name}.{overload}": _with_arguments(reductions.truth(function))
        for name, function in (("all", reduce.least), ("any", reduce.greatest))
        for overload in ("default", "dim", "dims")
    },
    "max.dim": _with_arguments(reductions.extremum_and_index(greatest=True)),
    "min.dim": _with_arguments(reductions.extremum_and_index(greatest=False)),
    "cumsum.default": _with_arguments(reductions.running_sum),
    "var_mean.correction": _with_arguments(reductions.variance_and_mean),
    "linalg_vector_norm.default": _with_arguments(reductions.vector_norm),
    "native_group_norm.default": _with_arguments(norm.by_groups),
    "_native_batch_norm_legit_functional.default": _with_arguments(norm.training),
    "_native_batch_norm_legit_no_training.default": _with_arguments(norm.with_known_statistics),
    **dict.fromkeys(random.NAMES, _with_arguments(random.refuse_random)),
    **dict.fromkeys(random.DROPOUTS, _with_arguments(random.dropout)),
    "scatter_add.default": _with_arguments(scatters.scatter_add),
    "scatter_reduce.two": _with_arguments(scatters.scatter_reduce),
    "select_scatter.default": _with_arguments(scatters.select_scatter),
    "unfold.default": _with_arguments(scatters.unfold),
    "grid_sampler_2d.default": _with_arguments(scatters.grid_sample),
    **dict.fromkeys(("ge", "gt", "le", "lt", "eq", "ne"), compared),
}
