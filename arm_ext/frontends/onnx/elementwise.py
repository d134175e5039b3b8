# SPDX-License-Identifier: Apache-2.0
"""Replacements of elementwise ONNX operators that upstream's importer or code generator lacks."""

import numpy as np

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.evaluation import evaluate_node
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import like

_DROPOUT_TELLS = 12
_GROUP = 16
"""Most inputs of one Sum, Max, Min or Mean."""

_FOR_INFERENCE = "export the model for inference"


def many_inputs(e: Expansion) -> None:
    """Replace Sum, Max, Min or Mean of many inputs by a tree of smaller groups; leave nodes of few inputs unchanged.

    Upstream's converters make a chain as deep as there are inputs, which becomes the expressions of one kernel.
    """
    values = list(e.node.input)
    if len(values) <= _GROUP:
        return
    mean = e.node.op_type == "Mean"
    operator = "Sum" if mean else e.node.op_type
    count = like(e, len(values), values[0]) if mean else ""
    while len(values) > _GROUP:
        values = [e.emit(operator, values[k : k + _GROUP]) for k in range(0, len(values), _GROUP)]
    if mean:
        e.emit("Div", [e.emit(operator, values), count], e.node.output[0])
    else:
        e.emit(operator, values, e.node.output[0])


def dropout(e: Expansion) -> None:
    """Replace Dropout by its data and a constant mask; before opset 12 onnxruntime's mask is all false."""
    data, ratio, training = e.inputs("data ratio? training_mode?")
    drops, share = (e.value(name) if name else None for name in (training, ratio))
    if training and (drops is None or drops.any()) and (share is None or share.any()):
        when = "its input training_mode can be true, and then " if drops is None else ""
        raise ModelError(f"{when}it drops elements at random, which only training needs: {_FOR_INFERENCE}")
    e.emit("Identity", [data], e.node.output[0])
    if len(e.node.output) > 1 and e.node.output[1]:
        kept = e.constant(np.full(e.dims(data), e.opset() >= _DROPOUT_TELLS))
        e.emit("Identity", [kept], e.node.output[1])


def batch_norm(e: Expansion) -> None:
    """Leave BatchNormalization unchanged, and refuse its training mode.

    Raises:
        ModelError: The node uses the batch's statistics in place of the model's.
    """
    if e.attribute("training_mode", 0):
        raise ModelError(
            f"with training_mode 1 it normalises by the batch's own statistics: {_FOR_INFERENCE}"
        )


def empty_reduction(e: Expansion) -> None:
    """Replace a reduction of an empty tensor by its constant result; leave other reductions unchanged."""
    data, axes = e.inputs("data axes?")
    if 0 not in e.dims(data):
        return
    feeds = {data: np.zeros(e.dims(data), e.dtype(data))}
    if axes:
        feeds[axes] = e.known(axes)
    (result,) = evaluate_node(e.node, e.opset(), feeds)
    e.emit("Identity", [e.constant(result)], e.node.output[0])


def evaluate(e: Expansion) -> None:
    """Replace a node with constant inputs by its constant result."""
    feeds = {name: e.known(name) for name in e.node.input}
    results = evaluate_node(e.node, e.opset(), feeds)
    for name, result in zip(e.node.output, results, strict=True):
        e.emit("Identity", [e.constant(np.asarray(result))], name)
