# SPDX-License-Identifier: Apache-2.0
"""Changes of an ONNX model that save copies and transpositions; their gain is measured by building the changed model.

channels_last_ends: input [N, C, H, W] → f, f → output    →    input [N, H, W, C] → Transpose → f, and the reverse
channels_last_reshapes: [N, C, H, W] → Reshape → f    →    Transpose to [N, H, W, C] → Reshape → f
without_nodes: f(x), of as many elements as x    →    x

Kernels of convolutions take channels last, so that such a Transpose is none in the package. The first change keeps the
results. So does the second if f is a product with constant weights, whose rows are then permuted; else the model must
be trained again. The third gives other results and tells what an operator costs.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from arm_ext.frontends.onnx.check import runtime_inputs
from arm_ext.frontends.onnx.partition import subgraphs
from arm_ext.report.advice.onnx_changes import PRODUCTS, Changed, EditableGraph, copied, integer
from arm_ext.report.calls import CONVERSIONS

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Permutations of axes from [N, C, H, W] to [N, H, W, C], and back."""

_MATRIX = 2
_FLATTENS = ("Reshape", "Flatten")
# Operators that move no data, or that are removed together with the operators around them.
_FREE = ("Reshape", "Flatten", "Identity", "Squeeze", "Unsqueeze", "Constant")
# Operators that have channels in the second axis of four.
_SPATIAL = (
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "BatchNormalization",
    "InstanceNormalization",
    "DepthToSpace",
    "SpaceToDepth",
)
# Operators whose result's axes do not correspond to the operand's axes.
_REARRANGES = (
    "Reshape",
    "Flatten",
    "Transpose",
    "MatMul",
    "Gemm",
    "Gather",
    "Squeeze",
    "Unsqueeze",
    "Einsum",
)


def channels_last_ends(model: onnx.ModelProto) -> Changed | None:
    """Return the model with channels in the last axis of inputs and outputs; None if it has no images there.

    Args:
        model: A model whose nodes all have names and whose values have static shapes.
    """
    if any(True for node in model.graph.node for _ in subgraphs(node)):
        return None  # nodes of subgraphs also read this graph's values, by name
    copy = copied(model)
    graph, dims = EditableGraph(copy.graph), dims_of(copy)

    def read_by(value: str) -> list[onnx.NodeProto]:
        return graph.readers.get(value, [])

    def made_by(value: str) -> list[onnx.NodeProto]:
        return [graph.producers[value]] if value in graph.producers else []

    inputs = [
        value.name
        for value in runtime_inputs(copy.graph)
        if len(dims.get(value.name, ())) == len(TO_LAST)
        and _is_image(value.name, read_by, lambda node: node.output)
    ]
    outputs = [
        value.name
        for value in copy.graph.output
        if len(dims.get(value.name, ())) == len(TO_LAST)
        and _is_image(value.name, made_by, lambda node: node.input)
    ]
    if not inputs and not outputs:
        return None
    renamed = {name: f"{name}/channels_first" for name in (*inputs, *outputs)}
    for node in copy.graph.node:
        _rename(node, renamed)
    first = [_transposed(name, renamed[name], TO_FIRST) for name in inputs]
    last = [_transposed(renamed[name], name, TO_LAST) for name in outputs]
    _replace_nodes(copy, [*first, *copy.graph.node, *last])
    for value in (*copy.graph.input, *copy.graph.output):
        if value.name in renamed:
            moved = [dims[value.name][axis] for axis in TO_LAST]
            value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, moved))
    return Changed(
        copy,
        tuple(node.name for name in inputs for node in read_by(name)),
        f"channels last at {', '.join((*inputs, *outputs))}",
        dict.fromkeys(inputs, TO_LAST),
        dict.fromkeys(outputs, TO_FIRST),
    )


def channels_last_reshapes(model: onnx.ModelProto, names: Collection[str]) -> Changed | None:
    """Return the model in which some reshapes read their elements in the order of channels last; None if none can.

    Args:
        model: As for `channels_last_ends`.
        names: Names of nodes; those that are no Reshape or Flatten of four axes are left as they are.
    """
    copy = copied(model)
    graph, dims = EditableGraph(copy.graph), dims_of(copy)
    nodes: list[onnx.NodeProto] = []
    changed: list[str] = []
    comparable = True
    for node in copy.graph.node:
        source = node.input[0] if node.input else ""
        shape = dims.get(source, ())
        if node.name not in names or node.op_type not in _FLATTENS or len(shape) != len(TO_LAST):
            nodes.append(node)
            continue
        changed.append(node.name)
        comparable = _permute_rows(copy, graph, node.output[0], shape) and comparable
        last = f"{node.output[0]}/channels_last"
        nodes.append(_transposed(source, last, TO_LAST))
        target = dims[node.output[0]]
        nodes.append(_reshaped(copy, node, last, target))
    if not changed:
        return None
    _replace_nodes(copy, nodes)
    return Changed(copy, tuple(changed), "reshape of channels last", comparable=comparable)


def without_nodes(model: onnx.ModelProto, names: Collection[str]) -> Changed | None:
    """Return the model in which some nodes pass on what they read; None if none of them can.

    A node can if it has one input that is no constant, and as many elements of the same type in its only output. A
    product, a conversion from and to integers, and what costs nothing stay as they are.

    Args:
        model: As for `channels_last_ends`.
        names: Names of nodes.
    """
    copy = copied(model)
    graph, dims, types = EditableGraph(copy.graph), dims_of(copy), _element_types(copy)
    nodes: list[onnx.NodeProto] = []
    left_out: list[str] = []
    for node in copy.graph.node:
        found = _passed_on(node, graph, dims, types) if node.name in names else None
        if found is None:
            nodes.append(node)
            continue
        left_out.append(node.name)
        nodes.append(_reshaped(copy, node, found, dims[node.output[0]]))
    if not left_out:
        return None
    _replace_nodes(copy, nodes)
    return Changed(copy, tuple(left_out), "left out", comparable=False)


def dims_of(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all values of the graph that are known and static."""
    held = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    found = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for value in held:
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            found[value.name] = tuple(dim.dim_value for dim in kind.shape.dim)
    return found


def _element_types(model: onnx.ModelProto) -> dict[str, int]:
    held = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    return {value.name: value.type.tensor_type.elem_type for value in held}


def _passed_on(
    node: onnx.NodeProto, graph: EditableGraph, dims: Mapping[str, tuple[int, ...]], types: Mapping[str, int]
) -> str | None:
    """Return the input that can take the place of a node's output; None if there is none."""
    variable = [name for name in node.input if name and name not in graph.fixed]
    if (
        len(variable) != 1
        or len(node.output) != 1
        or node.op_type in (*PRODUCTS, *CONVERSIONS, *_FREE)
        or any(True for _ in subgraphs(node))
    ):
        return None
    (name,), output = variable, node.output[0]
    if name not in dims or output not in dims or types.get(name) != types.get(output):
        return None
    return name if math.prod(dims[name]) == math.prod(dims[output]) else None


def _is_image(
    name: str,
    nodes_at: Callable[[str], Iterable[onnx.NodeProto]],
    beyond: Callable[[onnx.NodeProto], Iterable[str]],
) -> bool:
    """Return whether an operator with channels in its second axis is near a value, with its axes in the same order.

    Args:
        name: The value.
        nodes_at: Returns the nodes that read a value, or the one that computes it.
        beyond: Returns the values on the other side of a node.
    """
    todo, seen = [name], {name}
    while todo:
        for node in nodes_at(todo.pop()):
            if node.op_type in _SPATIAL:
                return True
            if node.op_type not in _REARRANGES:
                further = set(beyond(node)) - seen
                seen |= further
                todo += further
    return False


def _permute_rows(
    model: onnx.ModelProto, graph: EditableGraph, flattened: str, shape: tuple[int, ...]
) -> bool:
    """Permute the weights of the product that alone reads a flattened tensor; return whether there is such a product.

    Args:
        model: The model that `graph` is of; it gets a constant more.
        graph: Readers and constants of the model.
        flattened: Name of the tensor.
        shape: Shape [N, C, H, W] of the tensor before it is flattened.
    """
    readers = graph.readers.get(flattened, [])
    is_output = any(value.name == flattened for value in model.graph.output)
    if len(readers) != 1 or is_output or readers[0].op_type not in ("Gemm", "MatMul"):
        return False
    (product,) = readers
    weights = graph.constant(product.input[1])
    axis = 1 if integer(product, "transB", 0) else 0
    rows = math.prod(shape[1:])
    if (
        weights is None
        or product.input[0] != flattened
        or integer(product, "transA", 0)
        or weights.ndim != _MATRIX
        or weights.shape[axis] != rows
    ):
        return False
    order = np.arange(rows).reshape(shape[1:]).transpose(1, 2, 0).ravel()
    name = f"{product.input[1]}/channels_last/{product.name}"
    model.graph.initializer.append(numpy_helper.from_array(np.take(weights, order, axis), name))
    product.input[1] = name
    return True


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]


def _transposed(source: str, target: str, order: tuple[int, ...]) -> onnx.NodeProto:
    return helper.make_node("Transpose", [source], [target], name=target, perm=order)


def _reshaped(
    model: onnx.ModelProto, node: onnx.NodeProto, source: str, shape: tuple[int, ...]
) -> onnx.NodeProto:
    """Return a Reshape that computes a node's output of another value, under the node's name."""
    name = f"{node.name}/shape"
    model.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), name))
    return helper.make_node("Reshape", [source, name], list(node.output), name=node.name)


def _replace_nodes(model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> None:
    kept = onnx.GraphProto(node=nodes)  # copies, because clearing the field also clears the nodes in it
    model.graph.ClearField("node")
    model.graph.node.extend(kept.node)
    model.graph.ClearField("value_info")
