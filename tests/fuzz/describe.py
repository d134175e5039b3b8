# SPDX-License-Identifier: Apache-2.0
"""A graph in words: for a failure to read, and for a histogram of what was drawn."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper

INDICES = {"ArgMax", "ArgMin"}
"""Operators whose results are int64."""

MAX_PRINTED = 8
"""Elements of a constant beyond which only its shape is printed."""


def listing(model: onnx.ModelProto) -> str:
    """One line a node: results = Operator(operands) {attributes}; small constants by value."""
    constants = {tensor.name: _constant(numpy_helper.to_array(tensor)) for tensor in model.graph.initializer}
    lines = [
        *(f"input {_typed(value)}" for value in model.graph.input),
        *(_node(node, constants) for node in model.graph.node),
        *(f"output {_typed(value)}" for value in model.graph.output),
    ]
    return "\n".join(lines)


def features(model: onnx.ModelProto) -> Iterator[str]:
    """What the histogram counts: each node's operator, with each of its attributes."""
    for node in model.graph.node:
        yield node.op_type
        yield from (f"{node.op_type}.{a.name}={_value(a)}" for a in node.attribute)


def _node(node: onnx.NodeProto, constants: dict[str, str]) -> str:
    operands = ", ".join(constants.get(name, name) or "-" for name in node.input)
    attributes = " ".join(f"{a.name}={_value(a)}" for a in node.attribute)
    return f"{', '.join(node.output)} = {node.op_type}({operands}) {attributes}".rstrip()


def _value(attribute: onnx.AttributeProto) -> str:
    value = helper.get_attribute_value(attribute)
    match value:
        case bytes():
            return value.decode()
        case float():
            return f"{value:.4g}"
    return str(value).replace(" ", "")


def _constant(array: np.ndarray) -> str:
    values = np.array2string(array, separator=",", max_line_width=1000).replace("\n", "").replace(" ", "")
    return f"{array.dtype}{list(array.shape)}" + (f" {values}" if array.size <= MAX_PRINTED else "")


def _typed(value: onnx.ValueInfoProto) -> str:
    kind = value.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type).name if kind.elem_type else "any"
    shape = [dim.dim_value for dim in kind.shape.dim] if kind.HasField("shape") else ""
    return f"{value.name}: {dtype}{shape}"
