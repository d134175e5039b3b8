# SPDX-License-Identifier: Apache-2.0
"""A quantiser for PT2E that leaves no operator in float: int8, weights per channel, biases in int32.

The quantisers that torchao ships are for other compilers' backends: they quantise what goes into convolutions and
products alone, and keep biases in float.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver, PlaceholderObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

aten = torch.ops.aten
WEIGHTED = {aten.conv2d.default, aten.linear.default}
# Clamps that the range of a convolution's result covers.
CLAMPS = {aten.relu.default, aten.hardtanh.default}
# Operators that keep the values: their results have the scale of their data.
MOVES = {
    aten.embedding.default,
    aten.flatten.using_ints,
    aten.reshape.default,
    aten.select.int,
    aten.transpose.int,
}
# Operators of which the first argument alone is data.
UNARY = {aten.layer_norm.default, aten.softmax.int}

DATA = QuantizationSpec(torch.int8, MinMaxObserver.with_args(eps=2**-20), -128, 127, torch.per_tensor_affine)
# Of run time: the range of the data at hand.
RANGED = QuantizationSpec(
    torch.int8, PlaceholderObserver.with_args(eps=2**-12), -128, 127, torch.per_tensor_affine, is_dynamic=True
)
WEIGHTS = QuantizationSpec(
    torch.int8, PerChannelMinMaxObserver.with_args(eps=2**-20), -127, 127, torch.per_channel_symmetric, 0
)


class EveryOperator(Quantizer):
    """Quantises everything that computes with floats."""

    def annotate(self, model: GraphModule) -> GraphModule:
        for node in model.graph.nodes:
            if node.op == "call_function" and _is_float(node):
                inputs, output = _specs(node)
                node.meta["quantization_annotation"] = QuantizationAnnotation(inputs, output, _annotated=True)
        return model

    def validate(self, model: GraphModule) -> None:
        """Any model will do."""


class Dynamic(EveryOperator):
    """Quantises what goes into convolutions and linear layers, by its range at run time."""

    def annotate(self, model: GraphModule) -> GraphModule:
        for node in model.graph.nodes:
            if node.target in WEIGHTED:
                inputs = {node.args[0]: RANGED, node.args[1]: WEIGHTS}
                node.meta["quantization_annotation"] = QuantizationAnnotation(inputs, None, _annotated=True)
        return model


def quantized(
    net: nn.Module, samples: Sequence[tuple[Tensor, ...]], quantizer: Quantizer | None = None
) -> ExportedProgram:
    """The network, calibrated by samples."""
    prepared = prepare_pt2e(torch.export.export(net, samples[0]).module(), quantizer or EveryOperator())
    with torch.no_grad():
        for sample in samples:
            prepared(*sample)
    return torch.export.export(convert_pt2e(prepared), samples[0])


def _specs(node: Node) -> tuple[dict[Node, object], object]:
    """How arguments of a node are quantised, and its result."""
    if node.target in MOVES:
        return {node.args[0]: DATA}, SharedQuantizationSpec((node.args[0], node))
    if node.target in WEIGHTED:
        data, weights, *bias = node.args
        specs = {data: DATA, weights: WEIGHTS}
        if bias and bias[0] is not None:
            specs[bias[0]] = DerivedQuantizationSpec(
                [(data, node), (weights, node)],
                _bias,
                torch.int32,
                -(2**31),
                2**31 - 1,
                torch.per_channel_symmetric,
                0,
            )
        return specs, None if _clamped(node) else DATA
    if node.target in CLAMPS and _clamped(node.args[0]):
        return {}, DATA
    arguments = node.args[:1] if node.target in UNARY else node.args
    return {arg: DATA for arg in arguments if isinstance(arg, Node) and _is_float(arg)}, DATA


def _clamped(node: Node) -> bool:
    return node.target in WEIGHTED and [user.target in CLAMPS for user in node.users] == [True]


def _bias(observers: Sequence[MinMaxObserver]) -> tuple[Tensor, Tensor]:
    (data, _), (weights, _) = (observer.calculate_qparams() for observer in observers)
    return data * weights, torch.zeros_like(weights, dtype=torch.int64)


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.is_floating_point()
