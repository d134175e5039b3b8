# SPDX-License-Identifier: Apache-2.0
"""Operators of an ONNX model that an Ethos-U lacks, replaced by the nearest ones that it has.

    LayerNormalization(x, gain, bias)    →    x * gain + bias, a batch normalisation at inference
    LogSoftmax(x)                        →    Softmax(x)
    Resize(x), cubic or linear           →    Resize(x) to the nearest pixel

The results are other ones, so that the model must be trained again. Their gain is known by building the changed model.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

from arm_ext.report.advice.changes import Changed


@dataclass(frozen=True)
class Nearest:
    """The nearest replacement of an operator that an Ethos-U lacks.

    Attributes:
        operator: ONNX's name of the operator that is replaced.
        instead: The other operator, as a person reads it.
        nodes: Returns the nodes that replace one, with the same output; the first has its name. Empty if it cannot be
            replaced.
    """

    operator: str
    instead: str
    nodes: Callable[[onnx.NodeProto], Sequence[onnx.NodeProto]]


def _scaled(node: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
    """Return a multiplication by the gain and an addition of the bias, if there is one."""
    data, gain, bias = (*node.input, "")[:3]
    if any(node.output[1:]):
        return ()  # the mean or the deviation is used, too
    product = f"{node.output[0]}/scaled" if bias else node.output[0]
    found = [helper.make_node("Mul", [data, gain], [product], node.name)]
    if bias:
        found.append(helper.make_node("Add", [product, bias], [node.output[0]], f"{node.name}/shift"))
    return found


def _softmax(node: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
    found = helper.make_node("Softmax", node.input, node.output, node.name)
    found.attribute.extend(node.attribute)
    return (found,)


def _nearest_pixel(node: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
    kept = {
        attribute.name: helper.get_attribute_value(attribute)
        for attribute in node.attribute
        if attribute.name in ("axes", "keep_aspect_ratio_policy")
    }
    found = helper.make_node(
        "Resize",
        node.input,
        node.output,
        node.name,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        **kept,
    )
    return () if any(attribute.s == b"nearest" for attribute in node.attribute) else (found,)


NEAREST = (
    Nearest("LayerNormalization", "batch normalisation", _scaled),
    Nearest("LogSoftmax", "Softmax", _softmax),
    Nearest("Resize", "Resize to the nearest pixel (asymmetric, floor)", _nearest_pixel),
)
"""Replacements that are tried, each for all nodes of an operator at once."""


def replaced(model: onnx.ModelProto, names: Collection[str], nearest: Nearest) -> Changed | None:
    """Return the model with other nodes in the place of those of an operator; None if there are none.

    Args:
        model: A model whose nodes all have names.
        names: Names of the nodes that may be replaced.
        nearest: Replacement of the operator.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    nodes: list[onnx.NodeProto] = []
    sources: list[str] = []
    for node in copy.graph.node:
        is_meant = node.op_type == nearest.operator and node.name in names
        made = nearest.nodes(node) if is_meant else ()
        nodes += made or [node]
        sources += [each.name for each in made]
    if not sources:
        return None
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return Changed(copy, tuple(sources), f"{nearest.operator} → {nearest.instead}", comparable=False)
