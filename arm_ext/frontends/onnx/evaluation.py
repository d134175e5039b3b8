# SPDX-License-Identifier: Apache-2.0
"""Evaluation of one ONNX node on constants by onnx's reference implementation."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from relay_passes.canonicalize.define_casts import cast
from relay_passes.canonicalize.define_division import quotient, remainder

_Array = npt.NDArray[Any]


def evaluate_node(
    node: onnx.NodeProto, opset: int, feeds: Mapping[str, npt.NDArray[Any]]
) -> list[npt.NDArray[Any]]:
    """Return the outputs of a standard operator.

    Args:
        node: A node without subgraphs.
        opset: Opset of its model. The reference takes a bare node for one of the newest.
        feeds: Name → value, for each input of the node.
    """
    if node.op_type in ("Div", "Mod") and all(x.dtype.kind in "iu" for x in feeds.values()):
        return [_divided(node, *(feeds[name] for name in node.input))]
    if node.op_type == "Cast" and (whole := _whole_type(node)) is not None:
        return [cast(feeds[node.input[0]], whole)]
    # Not imported above: the import takes long, and few models have such constants.
    from onnx.reference import ReferenceEvaluator

    graph = helper.make_graph(
        [node],
        "node",
        [onnx.ValueInfoProto(name=name) for name in feeds],
        [onnx.ValueInfoProto(name=name) for name in node.output],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return [np.asarray(result) for result in ReferenceEvaluator(model).run(None, dict(feeds))]


def _whole_type(node: onnx.NodeProto) -> np.dtype[Any] | None:
    """Return the integer dtype that a Cast node casts to; None for other types and for integers below 8 bits."""
    dtype = helper.tensor_dtype_to_np_dtype(next(each.i for each in node.attribute if each.name == "to"))
    return dtype if dtype.kind in "iu" else None


def _divided(node: onnx.NodeProto, a: _Array, b: _Array) -> _Array:
    """Return the quotient of integers, rounded towards zero, or the remainder: floored, or truncated with `fmod`."""
    if node.op_type == "Div":
        return quotient(a, b)
    return remainder(a, b, floor=not any(each.name == "fmod" and each.i for each in node.attribute))
