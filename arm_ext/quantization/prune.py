# SPDX-License-Identifier: Apache-2.0
"""2:4 pruning by magnitude: of each four consecutive weights along the input channels, the two smallest become 0.

    Conv [O, I, …], MatMul [K, N], Gemm [K, N] or [N, K]        along I and K

An Ethos-U85 multiplies such weights at up to twice the rate. It does not for depthwise and grouped convolutions, which
are not pruned, nor are products of fewer than `LEAST` channels, such as those of an image. There is no training here: a
model that was pruned and fine-tuned in PyTorch loses less accuracy. Such a model stays unchanged, since its zeros are
the smallest weights.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, numpy_helper

from arm_ext.frontends.onnx.values import values_read
from arm_ext.quantization.layers import attribute

GROUP, KEPT = 4, 2
LEAST = 8
"""Least number of input channels of a product that is pruned."""


def prune_two_of_four(model: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return a copy of a float model with 2:4 sparse weights, and the names of the nodes that have them.

    Args:
        model: A model whose nodes all have names.
    """
    out = onnx.ModelProto()
    out.CopyFrom(model)
    held = {tensor.name: tensor for tensor in out.graph.initializer}
    uses = Counter(name for node in out.graph.node for name in values_read(node))
    found: list[str] = []
    for node, name, axis in _weights(out):
        if name not in held or uses[name] > 1:
            continue
        values = numpy_helper.to_array(held[name])
        if values.dtype.kind == "f" and values.ndim > 1 and values.shape[axis] >= LEAST:
            held[name].CopyFrom(numpy_helper.from_array(pruned(values, axis), name))
            found.append(node.name)
    return out, tuple(found)


def pruned(values: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """Return weights with all but the two largest of each four along an axis set to 0, also in a shorter last group."""
    moved = np.moveaxis(values, axis, -1)
    count = moved.shape[-1]
    widths = [(0, 0)] * (moved.ndim - 1) + [(0, -count % GROUP)]
    groups = np.pad(moved, widths).reshape(*moved.shape[:-1], -1, GROUP)
    # A stable sort, so that every machine keeps the same (first) ones of equal weights.
    order = np.argsort(-np.abs(groups), axis=-1, kind="stable")[..., KEPT:]
    np.put_along_axis(groups, order, 0, -1)
    flat = groups.reshape(*moved.shape[:-1], -1)[..., :count]
    return np.ascontiguousarray(np.moveaxis(flat, -1, axis))


def _weights(model: onnx.ModelProto) -> Iterator[tuple[NodeProto, str, int]]:
    """Yield each product that can be pruned, the name of its weights, and the weights' axis that it sums over."""
    for node in model.graph.node:
        if node.op_type == "Conv" and attribute(node, "group", 1) == 1:
            yield node, node.input[1], 1
        elif node.op_type == "MatMul":
            yield node, node.input[1], -2
        elif node.op_type == "Gemm":
            yield node, node.input[1], 1 if attribute(node, "transB", 0) else 0
