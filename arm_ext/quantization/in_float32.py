# SPDX-License-Identifier: Apache-2.0
"""Conversion of float16 models, as some exporters write them, to float32, which computes the same more precisely.

Quantisation starts from float32: every float16 value is one of float32, too, and onnxruntime computes QDQ form in it.
"""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import GraphProto, TensorProto, numpy_helper

# Attributes that name the dtype of a result: of Cast, and of operators that create tensors.
_TYPES = ("to", "dtype")


def in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with float16 inputs, outputs, constants and casts in float32.

    The model itself if it has no float16.
    """
    if not any(_has_halves(graph) for graph in _graphs(model.graph)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for graph in _graphs(copy.graph):
        for tensor in _tensors(graph):
            if tensor.data_type == TensorProto.FLOAT16:
                wide = numpy_helper.to_array(tensor).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name in _TYPES and attribute.i == TensorProto.FLOAT16:
                    attribute.i = TensorProto.FLOAT
        del graph.value_info[:]  # inferred again
    return copy


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and the subgraphs of its control flow."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from _graphs(inner)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def _has_halves(graph: GraphProto) -> bool:
    kinds = [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]
    return TensorProto.FLOAT16 in (*kinds, *(tensor.data_type for tensor in _tensors(graph)))
