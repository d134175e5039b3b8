# SPDX-License-Identifier: Apache-2.0
"""A QDQ model with int8 activations as one with uint8 ones, which computes the same integers, less by 128.

Q(zero point z, int8) ─ n    →    Q(zero point z + 128, uint8) ─ n + 128
"""

import numpy as np
import onnx
from onnx import GraphProto, TensorProto, helper, numpy_helper

_OFFSET = 128
_LINEAR = ("QuantizeLinear", "DequantizeLinear")


def with_unsigned_activations(model: bytes) -> bytes | None:
    """Return the model with the same outputs, or None where its form is another one.

    That is where an input has int8, or the zero point of an activation is no initialiser.
    """
    proto = onnx.load_from_string(model)
    graph = proto.graph
    held = {tensor.name: tensor for tensor in graph.initializer}
    if any(value.type.tensor_type.elem_type == TensorProto.INT8 for value in graph.input):
        return None
    shifted: dict[str, str] = {}
    for node in graph.node:
        if node.op_type not in _LINEAR or node.input[0] in held:
            continue
        zero = held.get(node.input[2]) if len(node.input) > 2 else None
        if zero is None or zero.data_location == TensorProto.EXTERNAL:
            return None
        if zero.data_type == TensorProto.INT8:
            if zero.name not in shifted:
                shifted[zero.name] = f"{zero.name}/unsigned"
                wide = numpy_helper.to_array(zero).astype(np.int16) + _OFFSET
                graph.initializer.append(numpy_helper.from_array(wide.astype(np.uint8), shifted[zero.name]))
            node.input[2] = shifted[zero.name]
    for value in graph.output:
        if value.type.tensor_type.elem_type == TensorProto.INT8:
            _shift_back(graph, value.name)
    kept = [value for value in graph.value_info if value.type.tensor_type.elem_type != TensorProto.INT8]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    return bytes(proto.SerializeToString())


def _shift_back(graph: GraphProto, output: str) -> None:
    """Let an output have the integers of before, computed from those that are read inside."""
    inner = f"{output}/unsigned"
    for node in graph.node:
        node.input[:] = [inner if name == output else name for name in node.input]
        node.output[:] = [inner if name == output else name for name in node.output]
    offset = f"{output}/offset"
    graph.initializer.append(numpy_helper.from_array(np.array(_OFFSET, np.int32), offset))
    graph.node.extend(
        [
            helper.make_node("Cast", [inner], [f"{output}/wide"], to=TensorProto.INT32),
            helper.make_node("Sub", [f"{output}/wide", offset], [f"{output}/less"]),
            helper.make_node("Cast", [f"{output}/less"], [output], to=TensorProto.INT8),
        ]
    )
