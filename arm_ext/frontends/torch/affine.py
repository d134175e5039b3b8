# SPDX-License-Identifier: Apache-2.0
"""torchao's operators of affine quantisation, which programs call that `torchao.quantization.quantize_` prepared.

    dequantize_affine(q, block, s, z)     (q - z) s
    quantize_affine(x, block, s, z)       clip(round half to even(x * fl(1 / s)) + z, min, max)
    choose_qparams_affine(x, block)       s and z of the range of x, extended to contain 0

Elements of a block have one scale and zero point; a block is [1, 32] for groups of 32 along K, and [1, K] for one scale
per row. torchao need not be installed to compile such a program: without it, the operators are defined here, by
operators of ATen. Constant weights stay integers for the product that reads them.

Source: torchao 0.18, quantization/quant_primitives.py.
"""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from tvm import relax, tirx
from tvm.ir import Expr, GenericConst

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.ops.arithmetic import cast

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

Tensor = torch.Tensor

_SCHEMAS = {
    "choose_qparams_affine": "(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, "
    "Scalar? quant_min=None, Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, "
    "ScalarType? zero_point_dtype=None, bool keepdim=False) -> (Tensor, Tensor)",
    "dequantize_affine": "(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, "
    "ScalarType input_dtype, Scalar? quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=6) -> Tensor",
    "quantize_affine": "(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, "
    "ScalarType output_dtype, Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor",
}

OPERATORS = tuple(_SCHEMAS)
"""Names in the namespace "torchao"."""

_LIBRARY: list[torch.library.Library] = []
"""The library that `define` made; torch forgets its operators when the object is deleted."""


def define() -> None:
    """Define the operators, by torchao if it is installed."""
    if _LIBRARY or hasattr(torch.ops.torchao, OPERATORS[0]):
        return
    if find_spec("torchao") is not None:
        import torchao.quantization.quant_primitives  # noqa: F401 (which registers them)

        return
    library: Any = torch.library.Library("torchao", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, function in zip(OPERATORS, (_choose, _dequantize, _quantize), strict=True):
        library.define(name + _SCHEMAS[name])
        library.impl(name, function, "CompositeImplicitAutograd")
    _LIBRARY.append(library)


def kept(program: torch.export.ExportedProgram) -> list[Any]:
    """Return the operators of a program that `convert_dequantize` converts."""
    calls = [node.target for node in program.graph.nodes if node.op == "call_function"]
    return [target for target in dict.fromkeys(calls) if str(target) == "torchao.dequantize_affine.default"]


def convert_dequantize(importer: "ExportedProgramImporter", _: torch.fx.Node, a: dict[str, Any]) -> Expr:
    """Convert a dequantisation; constant weights become the dequantisation of a matrix with one block per row.

    Raises:
        ModelError: The scales are not float32.
    """
    held, block = importer.weight(a["input"]), [int(size) for size in a["block_size"]]
    scale, zero, graph = a["scale"], a["zero_point"], Graph(importer.block_builder)
    if str(scale.ty.dtype) != "float32":
        raise ModelError(
            f"its scales are of {scale.ty.dtype}: quantise a copy in float32 (model.float() before quantize_)"
        )
    sizes = [int(size) if isinstance(size, tirx.IntImm) else size for size in a["input"].ty.shape]
    parts = [importer.weight(part) for part in (scale, zero) if part is not None]
    if str(held.ty.dtype) == "int8" and all(isinstance(part, GenericConst) for part in (held, *parts)):
        steps, *points = (_by_row(part.value.numpy(), sizes, block) for part in parts)
        rows = held.value.numpy().reshape(-1, block[-1])
        point = relax.const(points[0].astype(rows.dtype) if points else np.zeros((), rows.dtype))
        value = relax.op.dequantize(relax.const(rows), relax.const(steps), point, axis=0)
        return graph.emit(relax.op.reshape(graph.emit(value), a["input"].ty.shape))
    split, once = _split(sizes, block)
    values = cast(graph.hold(graph.emit(relax.op.reshape(a["input"], split))), "float32")
    if zero is not None:
        values = values - cast(_shaped(graph, zero, once), "float32")
    values = values * _shaped(graph, scale, once)
    return graph.emit(relax.op.reshape(values.full, a["input"].ty.shape))


def convert_cast(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> Expr:
    """Convert a change of dtype; int8 weights of a product are dequantised by the scale 1, so that they stay int8."""
    source: Any = node.args[0]
    while source.target is torch.ops.aten.permute.default:
        source = source.args[0]
    value = source.meta.get("val")
    is_weights = source.op == "placeholder" and importer.is_weight(source.name)
    if is_weights and value.dtype == torch.int8 and a["dtype"] == torch.float32 and _are_products(node.users):
        one, zero = relax.const(1.0, "float32"), relax.const(0, "int8")
        return importer.block_builder.emit(relax.op.dequantize(a["self"], one, zero))
    return importer.by_upstream(node)


def _are_products(users: Iterable[torch.fx.Node]) -> bool:
    return all(str(user.target) in ("aten.mm.default", "aten.addmm.default") for user in users)


def convert_product(importer: "ExportedProgramImporter", _: torch.fx.Node, a: dict[str, Any]) -> Expr:
    """Convert a product of int8 matrices with sums in int32."""
    x, w = (cast(Graph(importer.block_builder).hold(a[name]), "int32").full for name in ("self", "mat2"))
    return importer.block_builder.emit(relax.op.matmul(x, w))


def _by_row(part: npt.NDArray[Any], sizes: Sequence[int], block: Sequence[int]) -> npt.NDArray[Any]:
    """Return one scale or zero point per row, for rows as long as the last axis of a block."""
    split, once = _split(sizes, block)
    return np.broadcast_to(part.reshape(once), split).reshape(-1, block[-1])[:, 0].copy()


def _shaped(graph: Graph, value: Expr, shape: Sequence[Any]) -> Value:
    return graph.hold(graph.emit(relax.op.reshape(value, shape)))


def _split(sizes: Sequence[Any], block: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """Return the shape in which each block has axes of its own, and that shape with these axes of size 1."""
    split, once = list[Any](), list[Any]()
    for size, part in zip(sizes, block, strict=True):
        if part in (1, size):
            split.append(size)
            once.append(size if part == 1 else 1)
        else:
            split += [size // part, part]
            once += [size // part, 1]
    return split, once


def _dequantize(
    x: Tensor,
    block: list[int],
    scale: Tensor,
    zero: Tensor | None,
    _: torch.dtype,
    _low: float | None = None,
    _high: float | None = None,
    output_dtype: torch.dtype = torch.float32,
) -> Tensor:
    split, once = _split(x.shape, block)
    values = x.reshape(split).to(output_dtype)
    if zero is not None:
        values = values - zero.reshape(once).to(output_dtype)
    return (values * scale.reshape(once)).reshape(x.shape).to(output_dtype)


def _quantize(
    x: Tensor,
    block: list[int],
    scale: Tensor,
    zero: Tensor | None,
    output_dtype: torch.dtype,
    low: float | None = None,
    high: float | None = None,
) -> Tensor:
    split, once = _split(x.shape, block)
    values = torch.round(x.reshape(split) * (1.0 / scale.reshape(once)))
    if zero is not None and zero.numel():
        values = values + zero.reshape(once)
    return torch.clamp(values, *_limits(output_dtype, low, high)).reshape(x.shape).to(output_dtype)


def _choose(
    x: Tensor,
    mapping: str,
    block: list[int],
    target: torch.dtype,
    low: float | None = None,
    high: float | None = None,
    eps: float | None = None,
    scale_dtype: torch.dtype | None = None,
    zero_dtype: torch.dtype | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    first, last = _limits(target, low, high)
    split, once = _split(x.shape, block)
    axes = [axis for axis, size in enumerate(once) if split[axis] != size]
    parts = x.reshape(split)
    least, most = (reduce(parts, axes, keepdim).clamp(*limits) for reduce, limits in _RANGES)
    smallest = torch.finfo(x.dtype).smallest_normal if eps is None else eps
    if mapping == "ASYMMETRIC":
        scale = ((most - least) / float(last - first)).clamp(min=smallest)
        zero = (first - torch.round(least / scale)).clamp(first, last)
    else:
        if mapping == "SYMMETRIC":
            scale = torch.maximum(-least, most) / (float(last - first) / 2)
        else:
            scale = torch.maximum(least / float(first), most / float(last))
        zero = torch.full_like(scale, int((last + first + 1) / 2))
        scale = scale.clamp(min=smallest)
    if keepdim:
        counts = [size // part for size, part in zip(x.shape, block, strict=True)]
        scale, zero = scale.reshape(counts), zero.reshape(counts)
    known = zero_dtype or (torch.int32 if mapping == "ASYMMETRIC" else zero.dtype)
    return scale.to(scale_dtype or x.dtype), zero.to(known)


_RANGES = ((torch.amin, (None, 0)), (torch.amax, (0, None)))


def _limits(dtype: torch.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    known = torch.iinfo(dtype)
    return known.min if low is None else low, known.max if high is None else high
