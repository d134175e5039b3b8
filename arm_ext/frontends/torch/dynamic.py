# SPDX-License-Identifier: Apache-2.0
"""PT2E's dynamic quantisation, in which the data's range at run time determines scale and zero point.

A linear layer of such data with quantised weights becomes a product of integers, in the form in which other front ends
give it (`relay_passes.integerize.dynamic_products`); elsewhere data are floats again, cut to 8 bits.

    linear(dequantize(q, s, z), dequantize(w, c), b)    →    astype((q - z) · w^T) · (s · c) + b
"""

from typing import TYPE_CHECKING, Any

import torch

# Registers PT2E's operators, such as quantize_per_tensor, without which no quantised file can be read.
import torch.ao.quantization.fx._decomposed
from torch.export import ExportedProgram
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.ops import reduce
from arm_ext.frontends.ops.arithmetic import cast, clip, maximum, minimum, round_even
from arm_ext.frontends.torch.promote import dtype_name

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

_ops = torch.ops.quantized_decomposed
_WEIGHTS = (_ops.dequantize_per_channel.default, _ops.dequantize_per_tensor.default)


def quantizes_at_run_time(program: ExportedProgram) -> bool:
    """Whether a program quantises data dynamically, by the range that it has at run time."""
    return any(node.target is _ops.choose_qparams.tensor for node in program.graph.nodes)


def choose(importer: "ExportedProgramImporter", _: torch.fx.Node, a: dict[str, Any]) -> list[Expr]:
    """Return scale and zero point as scalars, for the data's range extended to contain 0."""
    x = Graph(importer.block_builder).hold(a["input"])
    low, high = minimum(reduce.least(x), 0), maximum(reduce.greatest(x), 0)
    first, last = a["quant_min"], a["quant_max"]
    scale = maximum((high - low) / float(last - first), a["eps"])
    zero = clip(float(first) - round_even(low / scale), first, last)
    return [scale.full, cast(zero, "int32").full]


def quantize(importer: "ExportedProgramImporter", _: torch.fx.Node, a: dict[str, Any]) -> Expr:
    """Convert a quantisation with run-time scale and zero point."""
    dtype, graph = dtype_name(a["dtype"]), Graph(importer.block_builder)
    zero = cast(graph.hold(a["zero_point"]), dtype)
    return graph.emit(R.quantize(a["input"], a["scale"], zero.full, out_dtype=dtype))


def dequantize(importer: "ExportedProgramImporter", _: torch.fx.Node, a: dict[str, Any]) -> Expr:
    """Convert a dequantisation with run-time scale and zero point."""
    q, zero, scale = (
        Graph(importer.block_builder).hold(a[name]) for name in ("input", "zero_point", "scale")
    )
    return (cast(_centred(q, zero), "float32") * scale).full


def linear(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> Expr:
    """Convert a linear layer; if both operands are quantised, as an integer product."""
    graph = Graph(importer.block_builder)
    data, weight = (arg for arg in node.args[:2] if isinstance(arg, torch.fx.Node))
    if data.target is not _ops.dequantize_per_tensor.tensor or weight.target not in _WEIGHTS:
        return graph.emit(R.linear(a["input"], a["weight"], a["bias"]))
    q, scale, zero = map(graph.hold, importer.retrieve_args(data)[:3])
    w, weight_scale, weight_zero = importer.retrieve_args(weight)[:3]
    if weight.target is _WEIGHTS[0]:
        weight_scale, zeros = graph.hold(weight_scale), graph.hold(weight_zero)
        weight_zero = zeros.reshape((*zeros.shape, 1))
    else:
        weight_scale = graph.hold(relax.const(float(weight_scale), "float32"))
        weight_zero = graph.hold(relax.const(weight_zero, "int32"))
    columns = _centred(graph.hold(w), weight_zero).permute([1, 0])
    product = graph.hold(R.matmul(_centred(q, zero).full, columns.full))
    product = cast(product, "float32") * (scale * weight_scale)
    return (product if a["bias"] is None else product + graph.hold(a["bias"])).full


def _centred(q: Value, zero: Value) -> Value:
    return cast(q, "int32") - cast(zero, "int32")
