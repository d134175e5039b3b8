# SPDX-License-Identifier: Apache-2.0
"""2:4 pruning by magnitude: of four weights one after another along the input channels, the two smallest become 0.

    Conv [O, I, …], MatMul [K, N], Gemm [K, N] or [N, K]        along I and K

An Ethos-U85 multiplies such weights at up to twice the rate. Depthwise and grouped convolutions, which it does not, and
products of fewer than `LEAST` channels, such as those of an image, are left alone. Nothing is trained here: a model
that was pruned and trained on by PyTorch or torch-pruning loses less, and is left as it is, for its zeros are the
smallest.
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
"""Input channels from which on a product is pruned."""


def prune_two_of_four(model: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return a float model with 2:4 weights, and the nodes that have them; the model that was given stays.

    Args:
        model: Its nodes have names.
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
    """Return weights without the smallest of each four along an axis; of a shorter last group two stay, too."""
    moved = np.moveaxis(values, axis, -1)
    count = moved.shape[-1]
    widths = [(0, 0)] * (moved.ndim - 1) + [(0, -count % GROUP)]
    groups = np.pad(moved, widths).reshape(*moved.shape[:-1], -1, GROUP)
    # Stable, so that of equal ones the first stay on every machine.
    order = np.argsort(-np.abs(groups), axis=-1, kind="stable")[..., KEPT:]
    np.put_along_axis(groups, order, 0, -1)
    flat = groups.reshape(*moved.shape[:-1], -1)[..., :count]
    return np.ascontiguousarray(np.moveaxis(flat, -1, axis))


def _weights(model: onnx.ModelProto) -> Iterator[tuple[NodeProto, str, int]]:
    """Each product with its weights and the axis that it sums over."""
    for node in model.graph.node:
        if node.op_type == "Conv" and attribute(node, "group", 1) == 1:
            yield node, node.input[1], 1
        elif node.op_type == "MatMul":
            yield node, node.input[1], -2
        elif node.op_type == "Gemm":
            yield node, node.input[1], 1 if attribute(node, "transB", 0) else 0
