# SPDX-License-Identifier: Apache-2.0
"""Rescaling of activation channels to similar ranges (equalisation, SmoothQuant), so that one int8 scale suits all.

    t = Conv(x, W1, b1);  y = Conv(Relu(t), W2)    →    t/s = Conv(x, W1/s, b1/s);  y = Conv(Relu(t/s), W2*s)

s is positive, one factor a channel, and Relu(t/s) = Relu(t)/s, so that the model computes what it did before.

equalize: what computes the channels is a product (cross-layer equalisation; Nagel et al., "Data-Free Quantization
    Through Weight Equalization and Bias Correction", 2019).
smooth: it is a LayerNormalization or an affine step of one (Xiao et al., "SmoothQuant", 2022).

Both take s = sqrt(range of the activation / range of the weights that read it), the ranges of activations from samples:
the weights that compute a channel have a scale of their own here, and need none of the room. Nor do a depthwise
convolution's weights that read it: there s is the activation's range, and all channels become alike.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, numpy_helper

from arm_ext.package.manifest import Correction
from arm_ext.quantization.layers import QdqGraph, attribute
from arm_ext.quantization.session import TensorSession
from arm_ext.quantization.steps import Feed

Array = npt.NDArray[Any]
# Operators that commute with multiplication by a positive factor.
_HOMOGENEOUS = ("AveragePool", "GlobalAveragePool", "Identity", "LeakyRelu", "MaxPool", "Relu")
# Minimum range of a channel, as a share of the largest range: a channel that is nearly zero needs no finer scale.
_LEAST_SHARE = 1e-3


@dataclass(frozen=True)
class _Edit:
    """A constant to rescale, and its axis that corresponds to the channels."""

    constant: str
    axis: int


@dataclass(frozen=True)
class _RescalableChannels:
    """Channels of activations that can be rescaled, and the constants that change with them.

    Attributes:
        kind: The correction that rescales these channels.
        tensors: Tensors with these channels, each a homogeneous function of the one before.
        axis: Axis of the channels in the tensors.
        divided: Constants of the node that computes the channels; they are divided by the factors.
        multiplied: Constants of the nodes that read the channels; they are multiplied by the factors.
        depthwise: Whether the nodes that read the channels have a scale for each of them.
    """

    kind: Correction
    tensors: tuple[str, ...]
    axis: int
    divided: tuple[_Edit, ...]
    multiplied: tuple[_Edit, ...]
    depthwise: bool


def rescale(
    model: onnx.ModelProto, kinds: Collection[Correction], feeds: Iterable[Feed]
) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return an equivalent model with rescaled channels, and the names of the tensors with these channels.

    Args:
        model: A float model whose nodes have names.
        kinds: Corrections to make; all but "equalize" and "smooth" are ignored.
        feeds: Samples, for the ranges of activations.
    """
    places = [place for place in _places(QdqGraph(model)) if place.kind in kinds]
    if not places:
        return model, ()
    ranges: dict[str, Array] = {}
    axes = {place.tensors[-1]: place.axis for place in places}
    session = TensorSession(model, model.graph.name, list(axes))
    for feed in feeds:
        for name, value in session(feed).items():
            axis = axes[name] % value.ndim
            most = np.abs(value).max(axis=tuple(i for i in range(value.ndim) if i != axis), initial=0.0)
            ranges[name] = np.maximum(ranges.get(name, most), most)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    held = {tensor.name: tensor for tensor in result.graph.initializer}
    # In execution order, because rescaling one pair of layers changes weights that the next pair reads.
    for place in places:
        _apply(place, ranges[place.tensors[-1]], held)
    return result, tuple(tensor for place in places for tensor in place.tensors)


def _apply(place: _RescalableChannels, activations: Array, held: Mapping[str, onnx.TensorProto]) -> None:
    readers = [
        np.abs(weights).max(axis=tuple(i for i in range(weights.ndim) if i != edit.axis))
        for edit in place.multiplied
        for weights in [numpy_helper.to_array(held[edit.constant])]
    ]
    factors = _floored(activations)
    if not place.depthwise:
        factors = np.sqrt(factors / _floored(np.max(readers, axis=0)))
    for edits, values in ((place.divided, 1 / factors), (place.multiplied, factors)):
        for edit in edits:
            before = numpy_helper.to_array(held[edit.constant])
            shape = [-1 if i == edit.axis else 1 for i in range(before.ndim)]
            after = (before * values.reshape(shape)).astype(before.dtype)
            held[edit.constant].CopyFrom(numpy_helper.from_array(after, edit.constant))


def _floored(ranges: Array) -> Array:
    wide = ranges.astype(np.float64)
    return np.maximum(wide, _LEAST_SHARE * wide.max()) if wide.max() > 0 else np.ones_like(wide)


def _places(graph: QdqGraph) -> Iterator[_RescalableChannels]:
    outputs = {value.name for value in graph.proto.graph.output}
    seen: set[str] = set()
    for node in graph.proto.graph.node:
        found = None if not node.output or node.output[0] in seen else _divided(graph, node)
        if found is None:
            continue
        kind, axis, divided, tensors = found
        while True:
            seen.add(tensors[-1])
            readers = graph.readers.get(tensors[-1], [])
            if len(readers) != 1 or readers[0].op_type not in _HOMOGENEOUS or tensors[-1] in outputs:
                break
            tensors = (*tensors, readers[0].output[0])
        multiplied = [_multiplied(graph, reader, tensors[-1], axis) for reader in readers]
        edits = tuple(edit for edit in multiplied if edit is not None)
        constants = [edit.constant for edit in (*divided, *edits)]
        if (
            not edits
            or len(edits) < len(multiplied)
            or outputs.intersection(tensors)
            or len(set(constants)) < len(constants)
            or any(len(graph.readers[name]) > 1 for name in constants)
            or len({graph.constants[each.constant].shape[each.axis] for each in (*divided, *edits)}) > 1
        ):
            continue
        yield _RescalableChannels(
            kind, tensors, axis, divided, edits, all(_is_depthwise(graph, r) for r in readers)
        )


def _divided(
    graph: QdqGraph, node: NodeProto
) -> tuple[Correction, int, tuple[_Edit, ...], tuple[str, ...]] | None:
    """Return kind, channel axis, constants and tensors of a node whose constants can be divided.

    None for other nodes.
    """
    after = graph.readers.get(node.output[0], [])
    if node.op_type == "Conv":
        return _with_bias(graph, "equalize", 1, node, 0)
    if node.op_type == "Gemm":
        return _with_bias(graph, "equalize", -1, node, 0 if attribute(node, "transB", 0) else 1)
    if node.op_type == "LayerNormalization" and attribute(node, "axis", -1) == -1:
        return _with_bias(graph, "smooth", -1, node, 0)
    kind: Correction = "equalize" if node.op_type == "MatMul" else "smooth"
    weights = None
    if node.op_type == "MatMul":
        weights, axis = _constant(graph, node, (1,), 2), 1
    elif node.op_type == "Mul":
        weights, axis = _constant(graph, node, (0, 1), 1), 0
    if weights is None:
        return None
    first = _Edit(weights, axis)
    if len(after) == 1 and after[0].op_type == "Add" and (bias := _constant(graph, after[0], (0, 1), 1)):
        return kind, -1, (first, _Edit(bias, 0)), (node.output[0], after[0].output[0])
    return kind, -1, (first,), (node.output[0],)


def _with_bias(
    graph: QdqGraph, kind: Correction, axis: int, node: NodeProto, along: int
) -> tuple[Correction, int, tuple[_Edit, ...], tuple[str, ...]] | None:
    weights = _constant(graph, node, (1,), 0)
    bias = _constant(graph, node, (2,), 1) if len(node.input) > 2 and node.input[2] else ""
    if weights is None or bias is None:
        return None
    edits = (_Edit(weights, along), *((_Edit(bias, 0),) if bias else ()))
    return kind, axis, edits, (node.output[0],)


def _multiplied(graph: QdqGraph, node: NodeProto, tensor: str, axis: int) -> _Edit | None:
    """Return a reader's constant that can be multiplied along its input channels; None if there is none."""
    if node.input[0] != tensor or list(node.input).count(tensor) > 1:
        return None
    weights = _constant(graph, node, (1,), 0)
    if weights is None:
        return None
    if node.op_type == "Conv" and axis == 1:
        if attribute(node, "group", 1) == 1:
            return _Edit(weights, 1)
        return _Edit(weights, 0) if _is_depthwise(graph, node) else None
    if node.op_type == "Gemm" and axis == -1 and not attribute(node, "transA", 0):
        return _Edit(weights, 1 if attribute(node, "transB", 0) else 0)
    if node.op_type == "MatMul" and axis == -1 and graph.constants[weights].ndim == 2:
        return _Edit(weights, 0)
    return None


def _is_depthwise(graph: QdqGraph, node: NodeProto) -> bool:
    group = int(attribute(node, "group", 1))
    return node.op_type == "Conv" and group > 1 and graph.constants[node.input[1]].shape[:2] == (group, 1)


def _constant(graph: QdqGraph, node: NodeProto, places: Iterable[int], rank: int) -> str | None:
    """Return the first initialiser among the inputs at `places` with the given rank (0: any rank).

    None if there is none.
    """
    initialisers = {tensor.name for tensor in graph.proto.graph.initializer}
    found = [node.input[k] for k in places if k < len(node.input) and node.input[k] in initialisers]
    fitting = [name for name in found if not rank or graph.constants[name].ndim == rank]
    return fitting[0] if fitting else None
