# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's result of one group on the same integers, where it has an integer kernel that rounds as ours."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from arm_ext.frontends.onnx.reference import reference
from arm_ext.frontends.onnx.weights import Serialised
from tests.fuzz.builder import make_model
from tests.fuzz.groups import Array, Group, Per, Quantized

LIMITS = {
    "Conv": 0,
    "MatMul": 0,
    "Gemm": 0,
    "GlobalAveragePool": 0,
    "Concat": 0,
    "LeakyRelu": 0,
    "Sigmoid": 1,  # the last bit of exp
    "Add": 1,  # the fused ones round in another order
    "Mul": 1,
    "AveragePool": 1,  # adds the zero point before it rounds
}
"""Operators that it computes in integers, and how far those may be off."""


def limit_of(group: Group, y: Per) -> int | None:
    """How far onnxruntime may be off; None where it computes the group in float."""
    if len(group.quantized) != len(group.leaves):
        return None  # an operand in float, such as a bias that no quantiser takes
    if any(per.dtype == "int16" for per in (y, *(leaf.per for leaf in group.quantized.values()))):
        return None
    if _biased_by_one_scale(group):
        return None  # its fused Gemm takes such a bias for units of every channel's sums
    ops = [node.op_type for node in group.nodes]
    # A relu is absorbed where the zero point is the least value already.
    if ops[1:] == ["Relu"] and y.zero_point == np.iinfo(y.dtype).min:
        ops = ops[:1]
    return LIMITS.get(ops[0]) if len(ops) == 1 else None


def _biased_by_one_scale(group: Group) -> bool:
    """Whether a bias has one scale for all channels, beside weights that have one each."""
    operands = [group.quantized.get(name) for name in group.nodes[0].input]
    match operands:
        case [_, Quantized() as weight, Quantized() as bias]:
            return bias.per.scales.size < weight.per.scales.size
    return False


def foreign_result(
    group: Group,
    dequantizers: Sequence[onnx.NodeProto],
    quantizer: onnx.NodeProto,
    constants: Mapping[str, Array],
) -> tuple[Array, bool]:
    """Run a group between the nodes that dequantise its leaves and the one that quantises its result.

    Args:
        group: The operators.
        dequantizers: Those of its leaves.
        quantizer: Its reader.
        constants: Weights, scales and zero points by name.

    Returns:
        The integers, and whether onnxruntime was free to compute in integers: some machines have no kernel.
    """
    tensors = group.quantized
    fed = {
        node.input[0]: tensors[node.output[0]].q for node in dequantizers if node.input[0] not in constants
    }
    model = make_model(
        [*dequantizers, *group.nodes, quantizer],
        [_info(name, q.dtype, q.shape) for name, q in fed.items()],
        [_info(quantizer.output[0], constants[quantizer.input[2]].dtype, None)],
        dict(constants),
    )
    outputs, settings = reference(Serialised(model.SerializeToString()), list(fed.values()))
    return outputs[0], not settings.endswith("unoptimised")


def _info(name: str, dtype: np.dtype, shape: tuple[int, ...] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
