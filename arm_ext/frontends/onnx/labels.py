# SPDX-License-Identifier: Apache-2.0
"""Numbering of classifiers' classes; the labels of the classes become metadata of the model's outputs.

    y = ZipMap(scores), labels a, b                  →    y = Identity(scores), whose columns are a, b
    label, scores = LinearClassifier(x), labels a, b →    the label is 0 or 1, which stand for a, b
    label = ArrayFeatureExtractor([a, b], best)      →    the label is best

A package computes with numbers alone: a list of maps and a text are neither inputs nor outputs of it. Converters of
scikit-learn end every classifier with a ZipMap unless told otherwise.
"""

import json
from collections.abc import Iterable

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from arm_ext.common.text import shown

_DOMAIN = "ai.onnx.ml"
_TEXTS = "classlabels_strings"
# Classifier → its attribute with integer labels.
_CLASSIFIERS = {
    "LinearClassifier": "classlabels_ints",
    "SVMClassifier": "classlabels_ints",
    "TreeEnsembleClassifier": "classlabels_int64s",
}
# Operators whose result has the labels of their first input.
_PASSING = frozenset(("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))

_KEY = "arm_ext.labels"
"""Key of an output's metadata that holds its labels."""


def number_labels(graph: GraphProto) -> None:
    """Replace string labels by their indices and ZipMaps by their scores, in place.

    The labels become metadata of outputs.
    """
    outputs = {value.name: value for value in graph.output}
    for value in outputs.values():
        if not _is_labels(value):
            value.ClearField("metadata_props")
    labelled = _constants(graph)
    for node in graph.node:
        if node.domain == _DOMAIN and node.op_type == "ZipMap" and set(node.output) <= outputs.keys():
            _declare(outputs[node.output[0]], TensorProto.FLOAT, _labels(node))
            node.domain, node.op_type = "", "Identity"
            node.ClearField("attribute")
        elif node.domain == _DOMAIN and node.op_type in _CLASSIFIERS and (texts := _texts(node)):
            labelled[node.output[0]] = texts
            kept = [attribute for attribute in node.attribute if attribute.name != _TEXTS]
            node.ClearField("attribute")
            node.attribute.extend(kept)
            name = _CLASSIFIERS[node.op_type]
            node.attribute.append(helper.make_attribute(name, list(range(len(texts)))))
        elif node.input and node.input[0] in labelled:
            _pass_on(node, labelled)
    for name in labelled.keys() & outputs.keys():
        _declare(outputs[name], TensorProto.INT64, labelled[name])
    known = [value for value in graph.value_info if value.name not in labelled]
    graph.ClearField("value_info")
    graph.value_info.extend(known)


def _is_labels(value: ValueInfoProto) -> bool:
    """Whether each metadata entry of `_KEY` is a list of strings; only a file from elsewhere has other entries."""
    try:
        found = [json.loads(entry.value) for entry in value.metadata_props if entry.key == _KEY]
    except ValueError:
        return False
    return all(isinstance(each, list) and all(isinstance(text, str) for text in each) for each in found)


def labels_of(value: ValueInfoProto) -> tuple[str, ...]:
    """Return the labels of the classes whose scores or indices an output holds; () if it has none."""
    # A model file may have an entry of this key, too; `_declare` adds the last one.
    return next((tuple(json.loads(e.value)) for e in reversed(value.metadata_props) if e.key == _KEY), ())


def _constants(graph: GraphProto) -> dict[str, list[str]]:
    """Replace constant tables of labels by indices, if only label lookups read them; return table name → labels."""
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for value in node.input:
            readers.setdefault(value, []).append(node)
    found = {}
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.STRING and all(
            (node.domain, node.op_type) == (_DOMAIN, "ArrayFeatureExtractor") and node.input[0] == tensor.name
            for node in readers.get(tensor.name, [])
        ):
            found[tensor.name] = _shown(tensor.string_data)
            numbers = np.arange(len(tensor.string_data)).reshape(tensor.dims)
            tensor.CopyFrom(numpy_helper.from_array(numbers, tensor.name))
    return found


def _pass_on(node: NodeProto, labelled: dict[str, list[str]]) -> None:
    if (node.domain, node.op_type) == (_DOMAIN, "ArrayFeatureExtractor") or (
        not node.domain and node.op_type in _PASSING
    ):
        labelled[node.output[0]] = labelled[node.input[0]]
        if node.op_type == "Cast":
            node.op_type = "Identity"
            node.ClearField("attribute")


def _shown(texts: Iterable[bytes]) -> list[str]:
    return [shown(text.decode(errors="replace")) for text in texts]


def _texts(node: NodeProto) -> list[str]:
    return next((_shown(a.strings) for a in node.attribute if a.name == _TEXTS), [])


def _labels(zip_map: NodeProto) -> list[str]:
    numbers = [a.ints for a in zip_map.attribute if a.name == "classlabels_int64s"]
    return [str(number) for number in numbers[0]] if numbers else _texts(zip_map)


def _declare(output: ValueInfoProto, kind: int, labels: list[str]) -> None:
    """Declare an output as a tensor of unknown shape, with its labels as metadata."""
    output.type.Clear()
    output.type.tensor_type.elem_type = kind
    output.metadata_props.add(key=_KEY, value=json.dumps(labels))
