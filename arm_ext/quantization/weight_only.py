# SPDX-License-Identifier: Apache-2.0
"""Weights of matrix products in 8 or 4 bits with float activations, quantised without samples.

    MatMul(x, W)    →    MatMul(x, DequantizeLinear(Q, s))        so are the weights of Gemm

    int8: s is one an output channel, max|W| / 127, and Q = rint(W / s)
    int4: s is one a group of weights along the sum; of `_SHARES` that with the least squared error

Both are symmetric. onnxruntime's MatMulNBitsQuantizer takes MatMul alone, which leaves Gemm, a linear layer of PyTorch,
in float; it takes the largest weight of a group to -8, whatever that does to the others. Convolutions stay in float: no
kernel of theirs reads narrow weights beside float data, so that they would take no fewer bytes.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.values import values_read
from arm_ext.package.manifest import WeightType
from arm_ext.quantization.layers import DEQUANTIZE, QdqGraph, attribute

Array = npt.NDArray[Any]

OPSETS: dict[WeightType, int] = {"int8": 13, "int4": 21}
"""Type of weights → the first opset with its scales: one a channel, or one a block with int4."""

# The first IR version with tensors of int4.
_IR_VERSION = 10

_LARGEST = {"int8": 127, "int4": 7}
# Candidates for the integer of a group's largest weight, times the weight's sign: -8, or values beyond the range
# that saturate.
_SHARES = np.linspace(-6.5, -10.5, 17)


@dataclass(frozen=True)
class WeightOnly:
    """Type and group size of quantised weights.

    Attributes:
        type: Type of the quantised weights.
        group: For int4, number of weights along K that share a scale.
    """

    type: WeightType
    group: int

    def quantize(self, weights: Array) -> tuple[Array, Array]:
        """Return integers and their scales: one scale per column, or one per group of a column.

        Args:
            weights: [K, N], which is summed over K.

        Returns:
            int8 [K, N], and float32 [N] or [K / group, N].
        """
        if self.type == "int8":
            scales = _nonzero(np.abs(weights).max(0, initial=0.0) / _LARGEST["int8"])
            return _rounded(weights, scales, self.type), scales
        depth, columns = weights.shape
        padded = np.pad(weights, ((0, -depth % self.group), (0, 0))).reshape(-1, self.group, columns)
        scales = _group_scales(padded)
        integers = _rounded(padded, scales[:, None], self.type)
        return integers.reshape(-1, columns)[:depth], scales


def quantize_weights(
    source: onnx.ModelProto, how: WeightOnly, keep_float: Collection[str] = ()
) -> onnx.ModelProto:
    """Return a float model with the weights of its products quantised.

    Args:
        source: A float model whose nodes have names, of `OPSETS[how.type]` or a later opset.
        how: Type and group of the quantised weights.
        keep_float: Nodes that stay in float.

    Raises:
        ModelError: The model has no such weights, or some are not finite.
    """
    graph = QdqGraph(source)
    found = {node.name: axis for node, axis in products(graph) if node.name not in keep_float}
    if not found:
        raise ModelError(
            f"{source.graph.name}: there are no weights for weight-only quantisation: no MatMul or Gemm"
            f"{' besides those of --keep-float' if keep_float else ''} has a constant matrix of float32 as its second "
            "input; leave --weights out to quantise activations too, by --data"
        )
    for node in source.graph.node:
        if node.name in found and not np.isfinite(graph.constants[node.input[1]]).all():
            raise ModelError(
                f"{source.graph.name}: {node.op_type} node '{node.name}': weights '{node.input[1]}' are not "
                "finite; correct them, or keep the node in float by --keep-float"
            )
    model = onnx.ModelProto()
    model.CopyFrom(source)
    model.ir_version = max(model.ir_version, _IR_VERSION)
    done: dict[tuple[str, int], str] = {}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if node.name in found:
            name, axis = node.input[1], found[node.name]
            # Otherwise another product with the same weights has already added the nodes.
            if (name, axis) not in done:
                nodes.append(_dequantized(model, name, graph.constants[name], axis, how))
                done[name, axis] = nodes[-1].output[0]
            node.input[1] = done[name, axis]
        nodes.append(node)
    copies = onnx.GraphProto(node=nodes)
    model.graph.ClearField("node")
    model.graph.node.extend(copies.node)
    _drop_unread(model.graph, {name for name, _ in done})
    return model


def with_dims_of(model: onnx.ModelProto, source: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose inputs and outputs have the source's declared dimensions, including dynamic ones.

    Args:
        model: `source` with quantised weights, for static shapes.
        source: The model before shapes were fixed. If it has batch norms, which were folded for these shapes,
            dimensions stay static.
    """
    if any(node.op_type == "BatchNormalization" for node in source.graph.node):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    given = {value.name: value for value in (*source.graph.input, *source.graph.output)}
    result.graph.ClearField("value_info")  # of the static shapes
    for value in (*result.graph.input, *result.graph.output):
        if value.name in given:
            value.CopyFrom(given[value.name])
    return result


def int4_tensor(name: str, integers: Array) -> TensorProto:
    """Return integers from -8 to 7 as an int4 tensor, which has two elements per byte."""
    flat = np.pad(integers.ravel().astype(np.uint8) & 15, (0, integers.size % 2))
    held = (flat[::2] | flat[1::2] << 4).astype(np.uint8)
    return helper.make_tensor(name, TensorProto.INT4, integers.shape, held.tobytes(), raw=True)


def products(graph: QdqGraph) -> Iterator[tuple[NodeProto, int]]:
    """Yield each product with constant float32 weights, and the weights' axis that it sums over."""
    for node in graph.proto.graph.node:
        if node.op_type not in ("MatMul", "Gemm") or node.domain not in ("", "ai.onnx"):
            continue
        weights = graph.constants.get(node.input[1])
        if weights is not None and weights.ndim == 2 and weights.size and weights.dtype == np.float32:
            yield node, int(node.op_type == "Gemm" and bool(attribute(node, "transB", 0)))


def _dequantized(model: onnx.ModelProto, name: str, weights: Array, axis: int, how: WeightOnly) -> NodeProto:
    """Add quantised weights to a model; return the node that dequantises them."""
    integers, scales = how.quantize(weights if axis == 0 else weights.T)
    if axis == 1:
        integers, scales = integers.T, scales.T
    names = [f"{name}/{part}{'/transposed' * axis}" for part in (how.type, "scale", "float")]
    if how.type == "int4":
        quantized = int4_tensor(names[0], integers)
        blocks = {"axis": axis, "block_size": how.group}
    else:
        quantized = numpy_helper.from_array(np.ascontiguousarray(integers), names[0])
        blocks = {"axis": 1 - axis}
    scale = numpy_helper.from_array(np.ascontiguousarray(scales), names[1])
    model.graph.initializer.extend((quantized, scale))
    return helper.make_node(DEQUANTIZE, names[:2], names[2:], names[2], **blocks)


def _group_scales(groups: Array) -> Array:
    """Return the scales [G, N] that minimise the squared error of groups [G, B, N]."""
    at = np.abs(groups).argmax(1)[:, None]
    extreme = np.take_along_axis(groups, at, 1)[:, 0]
    best, least = np.ones_like(extreme), np.full(extreme.shape, np.inf)
    for share in _SHARES:
        scales = _nonzero((extreme / share).astype(np.float32))
        error = np.square(groups - _rounded(groups, scales[:, None], "int4") * scales[:, None]).sum(1)
        best, least = np.where(error < least, scales, best), np.minimum(error, least)
    return best


def _rounded(weights: Array, scales: Array, kind: WeightType) -> Array:
    most = _LARGEST[kind]
    rounded: Array = np.clip(np.rint(weights / scales), -most - (kind == "int4"), most).astype(np.int8)
    return rounded


def _nonzero(scales: Array) -> Array:
    """Return the scales with 0 replaced by 1; a scale is 0 if all its weights are zero, so that any scale is right."""
    return np.asarray(np.where(scales == 0, 1, scales), np.float32)


def _drop_unread(graph: onnx.GraphProto, names: set[str]) -> None:
    """Remove those of the named constants that no node reads any more."""
    read = {name for node in graph.node for name in values_read(node)} | {v.name for v in graph.output}
    for tensor in [each for each in graph.initializer if each.name in names - read]:
        graph.initializer.remove(tensor)
    for value in [each for each in graph.input if each.name in names - read]:
        graph.input.remove(value)
    for node in [n for n in graph.node if n.op_type == "Constant" and n.output[0] in names - read]:
        graph.node.remove(node)
