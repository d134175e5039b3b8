# SPDX-License-Identifier: Apache-2.0
"""Emission of the operators of a region as a TOSA graph, with workarounds for Vela's defects (see `Quirks`)."""

import math
from collections.abc import Sequence
from typing import Any

import tosa_serializer as ts
from tvm.ir import Var

from arm_ext.ethosu.ops.common.operators import Operator, RunTimeTensor, channels_last
from arm_ext.ethosu.ops.registry import BY_KIND, quirks_of
from arm_ext.ethosu.tosa.common import copied, reshaped, unjoined, unsliced
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor
from arm_ext.target.npu import Family


def emit(
    operators: Sequence[Operator[Any]],
    inputs: Sequence[RunTimeTensor],
    outputs: Sequence[RunTimeTensor],
    family: Family,
) -> bytes:
    """Return the TOSA 1.0 flatbuffer of operators that meet the constraints.

    Values that an operator computes are named after its output ("name/1"), so that Vela's layers can be attributed.

    Args:
        operators: The operators in program order.
        inputs: Tensors that they read from outside the region, in the order of the graph's inputs.
        outputs: Tensors that are read outside the region, in the order of the graph's outputs.
        family: Family of the accelerator; the graph's result is the same for all.
    """
    graph = TosaGraph(family)
    values: dict[Var, TosaTensor] = {tensor.var: graph.input(tensor.shape, tensor.dtype) for tensor in inputs}
    apart: set[Var] = set()
    for operator in operators:
        graph.scope = operator.output.name
        data = [values[tensor.var] for tensor in operator.inputs]
        quirks = quirks_of(operator)
        if quirks.rescales_apart(operator) or (quirks.is_view and operator.inputs[0].var in apart):
            apart.add(operator.output.var)
        if quirks.writes_slices:
            data = [
                copied(graph, value) if tensor.var in apart else value
                for tensor, value in zip(operator.inputs, data, strict=True)
            ]
        if family != "u85" and quirks.widens(operator):
            data = [unjoined(graph, value) for value in data]
        elif not quirks.reads_slices:
            data = [unsliced(graph, value) for value in data]
        values[operator.output.var] = _emitted(graph, operator, data)
    forgotten = _forgotten(operators)
    for tensor in outputs:
        graph.scope, value = tensor.name, values[tensor.var]
        # An input of the graph cannot be its output without a copy.
        again = tensor.var in forgotten or graph.made(value) is None
        graph.output(copied(graph, value) if again else value)
    return graph.serialize()


def _forgotten(operators: Sequence[Operator[Any]]) -> set[Var]:
    """Return the variables that Vela may fail to keep as outputs, since it fuses their producer with a consumer."""
    every = any(quirks_of(operator).joins_all for operator in operators)
    return {tensor.var for op in operators if every or quirks_of(op).joined for tensor in op.inputs}


def _emitted(graph: TosaGraph, operator: Operator[Any], data: Sequence[TosaTensor]) -> TosaTensor:
    """Emit an operator, with its images transposed to NHWC and back if they are NCHW."""
    last, operation = channels_last(operator), BY_KIND[operator.kind]
    if last is operator:
        return operation.emit(graph, operator, *data)
    images = [_swapped(graph, image, (*image.shape[:1], *image.shape[2:], image.shape[1])) for image in data]
    return _swapped(graph, operation.emit(graph, last, *images), operator.output.shape, to_front=True)


def _swapped(
    graph: TosaGraph, image: TosaTensor, shape: tuple[int, ...], *, to_front: bool = False
) -> TosaTensor:
    """Transpose an image [N, C, ...] to [N, ..., C], or, if `to_front`, the other way round."""
    batch, channels = image.shape[0], image.shape[-1] if to_front else image.shape[1]
    pixels = math.prod(image.shape) // (batch * channels)
    before = (batch, pixels, channels) if to_front else (batch, channels, pixels)
    rows = reshaped(graph, image, before)
    turned = (batch, before[2], before[1])
    return reshaped(graph, graph.add(ts.Op.TRANSPOSE, [rows], turned, image.dtype, [0, 2, 1]), shape)
