# SPDX-License-Identifier: Apache-2.0
"""Bias correction: biases are changed to cancel the shift of each channel's mean that quantisation causes.

    y = Conv(x, W, b)    →    y = Conv(x, W, b - mean(Conv'(x) - Conv(x)))

Conv' is the layer with its quantised weights and bias, fed with exact values; the mean is over samples, channel by
channel (Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, with samples).
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

from arm_ext.quantization.layers import (
    Array,
    Matching,
    QdqGraph,
    attribute,
    with_exact_inputs,
)
from arm_ext.quantization.session import TensorSession, leave_unlike_out
from arm_ext.quantization.steps import Feed

_CHANNELS = {"Conv": 1, "ConvTranspose": 1, "Gemm": -1}
"""Operators with a bias → the axis of channels in their results."""


def mean_shifts(
    source: onnx.ModelProto, quantized: onnx.ModelProto, feeds: Iterable[Feed]
) -> dict[str, Array]:
    """Return the shift of each channel's mean: name of the node that computes the channels → shifts.

    Args:
        source: The float model, whose nodes have names.
        quantized: The quantised model, in QDQ form.
        feeds: Calibration samples.
    """
    name, samples = source.graph.name, iter(feeds)
    first = next(samples)
    matching = Matching(source, quantized)
    leave_unlike_out(matching, first, name, name)
    alone, fed = with_exact_inputs(matching)
    twins = {node.name: node for node in quantized.graph.node}
    pairs = {
        node.name: (node.output[0], twins[node.name].output[0], _CHANNELS[node.op_type])
        for node in source.graph.node
        if node.op_type in _CHANNELS
        and node.name in twins
        and node.output[0] in matching.source.tensors
        and _takes_bias(matching.source, node)
    }
    exact = TensorSession(source, name, [*(pair[0] for pair in pairs.values()), *fed.values()])
    rounded = TensorSession(alone, name, [pair[1] for pair in pairs.values()])
    sums: dict[str, Array] = {}
    count = 0
    for feed in chain((first,), samples):
        count += 1
        right = feed | exact(feed)
        ours = rounded(feed | {given: right[tensor] for given, tensor in fed.items()})
        for node, (one, other, axis) in pairs.items():
            difference = ours[other].astype(np.float64) - right[one]
            rest = tuple(i for i in range(difference.ndim) if i != axis % difference.ndim)
            sums[node] = sums.get(node, 0.0) + difference.mean(rest)
    return {node: total / count for node, total in sums.items()}


def correct_biases(
    source: onnx.ModelProto, shifts: Mapping[str, Array], without: Collection[str]
) -> onnx.ModelProto:
    """Return a float model whose biases cancel the shifts; a node without a bias gets one.

    Args:
        source: The float model.
        shifts: Name of a node → shift of the mean of each of its channels.
        without: Nodes whose biases stay.
    """
    result = onnx.ModelProto()
    result.CopyFrom(source)
    held = {tensor.name: tensor for tensor in result.graph.initializer}
    for node in result.graph.node:
        if node.name not in shifts or node.name in without:
            continue
        after = -shifts[node.name]
        if _has_bias(node):
            after = numpy_helper.to_array(held[node.input[2]]) + after
        else:
            node.input[2:] = [f"{node.name}/bias_correction"]
            held[node.input[2]] = result.graph.initializer.add()
        held[node.input[2]].CopyFrom(numpy_helper.from_array(after.astype(np.float32), node.input[2]))
    return result


def _has_bias(node: NodeProto) -> bool:
    return len(node.input) > 2 and bool(node.input[2])


def _takes_bias(graph: QdqGraph, node: NodeProto) -> bool:
    """Whether a node has constant weights, and either no bias or a bias per channel that no other node reads."""
    if node.input[1] not in graph.constants or attribute(node, "beta", 1.0) != 1.0:
        return False
    if not _has_bias(node):
        return True
    bias = graph.constants.get(node.input[2])
    if bias is None or node.input[2] in graph.producers or len(graph.readers[node.input[2]]) > 1:
        return False
    weights = graph.constants[node.input[1]]
    if node.op_type == "Gemm":
        return bool(bias.shape == (weights.shape[0 if attribute(node, "transB", 0) else 1],))
    return bool(bias.ndim == 1)
