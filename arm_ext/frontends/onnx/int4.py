# SPDX-License-Identifier: Apache-2.0
"""Conversion of integer constants of 4 and 2 bits to 8 bits.

    DequantizeLinear(int4[…] W, s, int4 z)    →    DequantizeLinear(int8[…] W, s, int8 z)

No kernel and no NPU here computes with 4 bits or 2, and Vela compresses the weights of a stream by their values: it
makes the same payload of them. What rounds to 4 bits at run time is refused: in 8 bits it would saturate elsewhere.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError

# onnx has 2-bit types since 1.20.
_NAMES = {
    number: name.lower()
    for name, number in TensorProto.DataType.items()
    if name in ("INT4", "UINT4", "INT2", "UINT2")
}
_WIDER = {kind: np.dtype(np.uint8 if name.startswith("u") else np.int8) for kind, name in _NAMES.items()}


def widen_int4(model: onnx.ModelProto) -> None:
    """Widen the constants of 4 and 2 bits of a model, whose nodes have names.

    Raises:
        ModelError: An input, an output or a node's result is of 4 or 2 bits.
    """
    graph = model.graph
    named = [(tensor.name, tensor) for tensor in graph.initializer]
    named += [(n.output[0], a.t) for n in graph.node if n.op_type == "Constant" for a in n.attribute]
    narrow = {name: tensor for name, tensor in named if tensor.data_type in _WIDER}
    _refuse(graph, {name: tensor.data_type for name, tensor in narrow.items()})
    for tensor in narrow.values():
        values = numpy_helper.to_array(tensor).astype(_WIDER[tensor.data_type])
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for value in (*graph.input, *graph.value_info):
        kind = value.type.tensor_type
        if kind.elem_type in _WIDER:
            kind.elem_type = helper.np_dtype_to_tensor_dtype(_WIDER[kind.elem_type])


def _refuse(graph: onnx.GraphProto, narrow: dict[str, int]) -> None:
    """Refuse inputs, outputs and operators whose values or types would change with 8 bits instead of 4 or 2."""
    borders = [value for value in (*graph.input, *graph.output) if value.name not in narrow]
    for value in borders:
        if value.type.tensor_type.elem_type in _WIDER:
            kind = _NAMES[value.type.tensor_type.elem_type]
            raise ModelError(
                f"'{value.name}' is of {kind}, which is supported for constants only; make it int8"
            )
    for node in graph.node:
        given = {a.name: a.i for a in node.attribute}
        made = given.get("to" if node.op_type == "Cast" else "output_dtype", 0)
        if node.op_type == "QuantizeLinear" and len(node.input) > 2:
            made = made or narrow.get(node.input[2], 0)
        if made in _WIDER:
            raise ModelError(
                f"{node.op_type} node '{node.name}' rounds to {_NAMES[made]} at run time; {_NAMES[made][-1]} bits are "
                "supported only for constants: quantise its tensor to int8"
            )
