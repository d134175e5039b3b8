# SPDX-License-Identifier: Apache-2.0
"""Folding of values that follow from shapes into constants.

    Shape(x), x of static shape    →    its dimensions
    f(constants), all integer      →    its value, as are floats on the way from a shape to a size
    f(constants), few elements     →    its value, if f is arithmetic such as leads to scales and bounds

Exporters write a shape's arithmetic as nodes (Gather, Div, Concat, Slice, …). TVM's importer needs what they give,
sizes, starts and widths, as constants.

Quantised: integer weights stay integers; a DequantizeLinear of them gives a float that follows from no shape.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.evaluation import evaluate_node
from arm_ext.frontends.onnx.expansion import domain_of, opset_of
from arm_ext.frontends.onnx.limits import check_inferred
from arm_ext.frontends.onnx.partition import subgraphs
from arm_ext.frontends.onnx.weights import SMALL_ELEMENTS, change_without_weights

_INTEGERS = frozenset(
    helper.np_dtype_to_tensor_dtype(np.dtype(name))
    for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)

# fmt: off
_ARITHMETIC = frozenset({
    "Abs", "Add", "Cast", "Ceil", "Concat", "Div", "Expand", "Floor", "Gather", "Identity", "Max", "Min", "Mul",
    "Neg", "Pow", "Range", "Reciprocal", "Reshape", "Round", "Slice", "Sqrt", "Squeeze", "Sub", "Unsqueeze",
})
# fmt: on

# Random operators are not folded: their values would be the same at every run.
_RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)

_TYPED_AS_INPUT = frozenset(
    (("", "GroupNormalization"), ("", "MeanVarianceNormalization"), ("ai.onnx.ml", "Imputer"))
)
"""Operators without type inference in onnx, whose result has the type of their first input."""

_SCORES = {
    **dict.fromkeys(("TreeEnsembleClassifier", "LinearClassifier", "SVMClassifier"), 1),
    **dict.fromkeys(("TreeEnsembleRegressor", "LinearRegressor", "SVMRegressor"), 0),
    **dict.fromkeys(("FeatureVectorizer", "Normalizer", "Scaler"), 0),
}
"""Operator of ai.onnx.ml → its output of float32 scores."""


def fold_shapes(proto: onnx.ModelProto, name: str) -> None:
    """Infer the shapes of all values of a model, and replace values that shapes determine by Constant nodes.

    If the condition of an If follows from that, the branch that is never taken is replaced by the other one: its
    shapes may contradict those that decided.

    Args:
        proto: The model; its inputs have static shapes.
        name: The model's, for messages.

    Raises:
        ModelError: The shapes of its nodes contradict each other.
    """
    folding = _Folding(opset_of(proto))
    while True:
        fault = _inferred(proto)
        check_inferred(proto)
        # Infer shapes again, since the size that has become known may determine further shapes.
        if folding.run(proto.graph) or (fault is not None and folding.decide(proto.graph)):
            continue
        # An If whose condition is known is replaced by its branch, which may contain further such nodes.
        if fault is not None and not any(folding.decided(node) for node in proto.graph.node):
            raise _contradiction(fault, name)
        return


class _Folding:
    """Folds a graph's shape-dependent values in repeated passes.

    Holds the constants and which of them follow from shapes.
    """

    def __init__(self, opset: int) -> None:
        self._opset = opset
        self._from_shapes: set[str] = set()
        self._constants: dict[str, TensorProto] = {}
        self._types: dict[str, onnx.TypeProto.Tensor] = {}

    def run(self, graph: onnx.GraphProto) -> bool:
        """Replace nodes whose values are known by constants, in the graph's order; return whether any was replaced."""
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        held = (*graph.input, *graph.value_info, *graph.output)
        self._types = {value.name: value.type.tensor_type for value in held}
        nodes: list[NodeProto] = []
        found = is_changed = False
        for node in graph.node:
            # The importer knows Constant nodes that hold a tensor, but none with a bare number or a list.
            is_constant = node.op_type == "Constant"
            values = self._computed(node, []) if is_constant else self._values(node)
            found = found or (bool(values) and not is_constant)
            nodes += _constant_nodes(node, values) if values else [node]
            is_changed = is_changed or bool(values)
            self._constants.update((tensor.name, tensor) for tensor in values)
        if is_changed:
            # The new list holds nodes of the graph, which clearing it would empty.
            kept = onnx.GraphProto(node=nodes)
            graph.ClearField("node")
            graph.node.extend(kept.node)
        return found

    def decided(self, node: NodeProto) -> bool:
        """Whether a node is an If with a constant condition."""
        return node.op_type == "If" and not domain_of(node) and node.input[0] in self._constants

    def decide(self, graph: onnx.GraphProto) -> bool:
        """Replace each If with a constant condition by the branch taken; return whether any was replaced."""
        found = False
        for node in filter(self.decided, graph.node):
            branches = {attribute.name: attribute.g for attribute in node.attribute}
            taken = numpy_helper.to_array(self._constants[node.input[0]]).reshape(-1)[0]
            kept, other = ("then_branch", "else_branch") if taken else ("else_branch", "then_branch")
            found = found or branches[other] != branches[kept]
            branches[other].CopyFrom(branches[kept])
        return found

    def _values(self, node: NodeProto) -> list[TensorProto]:
        """Return the values of a node's outputs if they follow from shapes or are integers, else []."""
        inputs = [value for value in node.input if value]
        if domain_of(node) or not inputs or node.op_type in _RANDOM or any(subgraphs(node)):
            return []
        dims = self._dims(inputs[0])
        if node.op_type in ("Shape", "Size") and dims is not None:
            self._from_shapes.update(node.output)
            return [numpy_helper.from_array(_measured(node, dims), node.output[0])]
        if not all(value in self._constants for value in inputs):
            return []
        if not self._from_shapes.isdisjoint(inputs):
            self._from_shapes.update(node.output)
        elif not all(self._is_integer(value) for value in (*inputs, *node.output)):
            values = (*inputs, *node.output)
            if node.op_type not in _ARITHMETIC or not all(self._is_small(value) for value in values):
                return []
        return self._computed(node, inputs)

    def _computed(self, node: NodeProto, inputs: Iterable[str]) -> list[TensorProto]:
        try:
            feeds = {value: numpy_helper.to_array(self._constants[value]) for value in inputs}
            results = evaluate_node(node, self._opset, feeds)
            return [numpy_helper.from_array(r, o) for r, o in zip(results, node.output, strict=True)]
        except Exception:  # of many types; TVM's importer may still support the node
            return []

    def _dims(self, value: str) -> list[int] | None:
        if value in self._constants:
            return list(self._constants[value].dims)
        held = self._types.get(value)
        if held is None or not held.HasField("shape"):
            return None
        known = all(dim.HasField("dim_value") for dim in held.shape.dim)
        return [dim.dim_value for dim in held.shape.dim] if known else None

    def _is_small(self, value: str) -> bool:
        dims = self._dims(value)
        return dims is not None and math.prod(dims) <= SMALL_ELEMENTS

    def _is_integer(self, value: str) -> bool:
        if value in self._constants:
            return self._constants[value].data_type in _INTEGERS
        return value in self._types and self._types[value].elem_type in _INTEGERS


def _measured(node: NodeProto, dims: list[int]) -> npt.NDArray[Any]:
    """Return the int64 result of Shape or Size for a value with `dims`."""
    if node.op_type == "Size":
        return np.array(math.prod(dims), np.int64)
    ends = {a.name: a.i for a in node.attribute}
    return np.array(dims[ends.get("start", 0) : ends.get("end", len(dims))], np.int64)


def _constant_nodes(node: NodeProto, values: Iterable[TensorProto]) -> list[NodeProto]:
    return [
        helper.make_node("Constant", [], [output], name=f"{node.name}:{output}", value=value)
        for output, value in zip(node.output, values, strict=True)
    ]


# An excessive number of outputs raises MemoryError instead of an error of onnx.
_INCONSISTENT = (onnx.shape_inference.InferenceError, MemoryError)


def infer_shapes(proto: onnx.ModelProto, name: str) -> None:
    """Give the model the shapes of all its values.

    Shapes that it declares itself are dropped where they contradict what follows from its inputs, as onnxruntime does:
    tools leave those of the batch that a model was exported with.

    Raises:
        ModelError: The shapes of its nodes contradict each other.
    """
    fault = _inferred(proto)
    if fault is not None:
        raise _contradiction(fault, name)


def _inferred(proto: onnx.ModelProto) -> Exception | None:
    """Infer shapes as `infer_shapes` does; return the contradiction, if any, around which shapes are inferred."""
    fault = _try_infer(proto)
    # onnx propagates the values of shapes into the subgraphs of a subgraph twice, and takes that for a contradiction.
    if (
        fault is None
        or _try_infer(proto, forget=True) is None
        or _try_infer(proto, forget=True, data_prop=False) is None
    ):
        return None
    _try_infer(proto, forget=True, strict=False)
    return fault


_FAULT = re.compile(r"\(op_type:(?P<operator>[^,)]+)(?:, node name: (?P<node>[^)]*))?\)")


def _contradiction(fault: Exception, name: str) -> ModelError:
    """Return an error for the innermost node of a message like "(op_type:If, node name: y): … (op_type:MatMul): …"."""
    lines = str(fault).strip().splitlines()
    text = next(filter(_FAULT.search, lines), lines[-1])  # later faults may be consequences of the first
    found = list(_FAULT.finditer(text))
    reason = re.sub(r"^[: ]*(\[\w+\] *)*", "", text[found[-1].end() :] if found else text)
    where = found[-1]["operator"] if found else "a node"
    named = [match["node"] for match in found if match["node"]]
    node = f"{where} '{named[-1]}'" if found and found[-1]["node"] else where
    inside = f" inside '{named[-1]}'" if named and not found[-1]["node"] else ""
    return ModelError(
        f"{name}: the shapes of its nodes contradict each other, at {node}{inside}: {reason}; if onnxruntime runs the "
        "model, give the sizes of its inputs that it was made for by --shape, and the value of one that decides on a "
        "branch by --value NAME=NUMBER"
    )


def _try_infer(
    proto: onnx.ModelProto, *, forget: bool = False, data_prop: bool = True, strict: bool = True
) -> Exception | None:
    """Infer the shapes of all values; if that fails, return the error and leave the model unchanged."""

    def inferred(light: onnx.ModelProto) -> onnx.ModelProto:
        if forget:
            forget_shapes(light.graph)
        _declare_scores(light.graph)
        replaced = _replace_uninferred(light.graph)
        found = onnx.shape_inference.infer_shapes(light, strict_mode=strict, data_prop=data_prop)
        for index, node in replaced.items():
            found.graph.node[index].CopyFrom(node)
        return found

    # A node with a subgraph also stores the types of the subgraph's values, which inference adds.
    keeps_nodes = not any(subgraph for node in proto.graph.node for subgraph in subgraphs(node))
    try:
        change_without_weights(proto, inferred, keeps_nodes=keeps_nodes)
    except _INCONSISTENT as err:
        return err
    return None


def _declare_scores(graph: onnx.GraphProto) -> None:
    """Declare the element type of scores of ai.onnx.ml 1, which onnx does not infer; their shape follows later."""
    known = {value.name for value in (*graph.value_info, *graph.output)}
    for node in graph.node:
        index = _SCORES.get(node.op_type) if domain_of(node) == "ai.onnx.ml" else None
        if index is not None and index < len(node.output) and node.output[index] not in known:
            ty = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
            graph.value_info.add(name=node.output[index], type=ty)


def _replace_uninferred(graph: onnx.GraphProto) -> dict[int, NodeProto]:
    """Replace by Identity the nodes whose type onnx cannot infer but which keep their input's type.

    Return index → node.
    """
    replaced = {}
    for index, node in enumerate(graph.node):
        if (domain_of(node), node.op_type) in _TYPED_AS_INPUT:
            replaced[index] = NodeProto.FromString(node.SerializeToString())
            node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output[:1], name=node.name))
    return replaced


def forget_shapes(graph: onnx.GraphProto) -> None:
    """Remove declared types of inner values and declared shapes of outputs, in subgraphs, too."""
    graph.ClearField("value_info")
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for inner in subgraphs(node):
            forget_shapes(inner)
