# SPDX-License-Identifier: Apache-2.0
"""PT2E's dynamic quantisation: scale and zero point from the data's range at run time.

A linear layer of such data with quantised weights becomes a product of integers, in the form in which other front ends
give it (`relay_passes.integerize.dynamic_products`); elsewhere data are floats again, cut to 8 bits.

    linear(dequantize(q, s, z), dequantize(w, c), b)    →    astype((q - z) · w^T) · (s · c) + b
"""

from typing import TYPE_CHECKING, Any

import torch

# Registers PT2E's operators, such as quantize_per_tensor; without them no quantised file can be read.
import torch.ao.quantization.fx._decomposed
from torch.export import ExportedProgram
from tvm import relax
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_ops = torch.ops.quantized_decomposed
_WEIGHTS = (_ops.dequantize_per_channel.default, _ops.dequantize_per_tensor.default)


def quantizes_at_run_time(program: ExportedProgram) -> bool:
    """Whether a program quantises data by their own range."""
    return any(node.target is _ops.choose_qparams.tensor for node in program.graph.nodes)


def choose(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> list[relax.Expr]:
    """Return scale and zero point, scalars, for the data's range widened to contain 0."""
    emit = importer.block_builder.emit
    low, high = (
        emit(widened(emit(extremum(a["input"])), _float(0)))
        for extremum, widened in ((R.min, R.minimum), (R.max, R.maximum))
    )
    first, last = a["quant_min"], a["quant_max"]
    scale = emit(R.divide(emit(R.subtract(high, low)), _float(last - first)))
    scale = emit(R.maximum(scale, _float(a["eps"])))
    steps = emit(R.round(emit(R.divide(low, scale))))
    zero = emit(R.clip(emit(R.subtract(_float(first), steps)), first, last))
    return [scale, emit(R.astype(zero, "int32"))]


def quantize(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert a quantisation with run-time scale and zero point."""
    dtype = str(a["dtype"]).removeprefix("torch.")
    zero = importer.block_builder.emit(R.astype(a["zero_point"], dtype))
    return importer.block_builder.emit(R.quantize(a["input"], a["scale"], zero, out_dtype=dtype))


def dequantize(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert a dequantisation with run-time scale and zero point."""
    emit = importer.block_builder.emit
    centred = _centred(emit, a["input"], a["zero_point"])
    return emit(R.multiply(emit(R.astype(centred, "float32")), a["scale"]))


def linear(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> relax.Expr:
    """Convert a linear layer; with both operands quantised, as an integer product."""
    emit = importer.block_builder.emit
    data, weight = (arg for arg in node.args[:2] if isinstance(arg, torch.fx.Node))
    if data.target is not _ops.dequantize_per_tensor.tensor or weight.target not in _WEIGHTS:
        return emit(R.linear(a["input"], a["weight"], a["bias"]))
    q, scale, zero = importer.retrieve_args(data)[:3]
    w, weight_scale, weight_zero = importer.retrieve_args(weight)[:3]
    if weight.target is _WEIGHTS[0]:
        weight_zero = emit(R.reshape(weight_zero, (-1, 1)))
    else:
        weight_scale, weight_zero = _float(weight_scale), relax.const(weight_zero, "int32")
    w = _centred(emit, w, weight_zero)
    product = emit(R.matmul(_centred(emit, q, zero), emit(R.permute_dims(w, [1, 0]))))
    scales = emit(R.multiply(scale, weight_scale))
    product = emit(R.multiply(emit(R.astype(product, "float32")), scales))
    return product if a["bias"] is None else emit(R.add(product, a["bias"]))


def _centred(emit: Any, q: relax.Expr, zero: relax.Expr) -> relax.Expr:
    return emit(R.subtract(emit(R.astype(q, "int32")), emit(R.astype(zero, "int32"))))


def _float(value: float) -> relax.Expr:
    return relax.const(float(value), "float32")
