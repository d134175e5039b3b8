# SPDX-License-Identifier: Apache-2.0
"""What a package computes in the place of random numbers, which operators of ONNX draw anew at each run.

    zeros     y = RandomNormalLike(x)    →    zeros of x's shape
    seed=3    y = RandomNormalLike(x)    →    the same numbers at each run: those of a counter-based generator (`draw`)
    input     y = RandomNormalLike(x)    →    an input y of the package

The numbers of a seed are constants of the package, and so are equal on every board.
"""

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.limits import Site, check_tensor
from arm_ext.frontends.onnx.check import name_contrib
from arm_ext.frontends.onnx.cut import cut
from arm_ext.frontends.onnx.expansion import domain_of
from arm_ext.frontends.onnx.nested import name_of
from arm_ext.frontends.onnx.open_sizes import SourceGraph, refuse_data_sizes
from arm_ext.frontends.onnx.shapes import fold_shapes
from arm_ext.frontends.onnx.weights import without_weights

Array = npt.NDArray[Any]

_OPERATORS = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
_SEED = re.compile(r"seed=(\d{1,18})")
_MARK = re.compile(r"(zeros|\d{1,18}) \d{1,9}")

_KEY = "arm_ext.random"
"""Key of a node's metadata that holds its seed, and its number among the nodes that draw."""

_MANTISSA = 24
"""Bits of a uniform number: each is a multiple of 2^-24, and exact in binary32."""


def draw(kind: str, shape: tuple[int, ...], seed: int, stream: int) -> Array:
    """Return random numbers of binary32: of Philox 4x64, a counter-based generator, keyed by seed and stream.

    Uniform numbers are the upper 24 bits of a word over 2^24. Normal ones are by Box and Muller, of two words each:
    sqrt(-2 log(1 - u)) cos(2 pi v), computed in binary64.

    Args:
        kind: "normal" for mean 0 and deviation 1, "uniform" for [0, 1).
        shape: Shape of the result.
        seed: The seed.
        stream: Number of the operator, whose numbers differ from those of others.
    """
    count = math.prod(shape)
    words = np.random.Philox(key=np.array([seed, stream], np.uint64)).random_raw(2 * count)
    u, v = ((words[k::2] >> np.uint64(64 - _MANTISSA)) / 2.0**_MANTISSA for k in (0, 1))
    values = u if kind == "uniform" else np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)
    return values.astype(np.float32).reshape(shape)


def choose_random(proto: onnx.ModelProto, name: str, choice: str) -> None:
    """Mark, in place, what replaces a model's random numbers; those that become inputs are replaced at once.

    Args:
        proto: The model.
        name: Its name, for messages.
        choice: "zeros", "seed=N" or "input".

    Raises:
        UsageError: The choice is none of these, or the model draws no random numbers.
        ModelError: An input has no known number of dimensions.
    """
    seed = _SEED.fullmatch(choice)
    if seed is None and choice not in ("zeros", "input"):
        raise UsageError(f"--random {choice}: expected seed=NUMBER, zeros or input")
    nodes = [node for node in proto.graph.node if not domain_of(node) and node.op_type in _OPERATORS]
    if not nodes:
        raise UsageError(
            f"--random: {name} has no operator that draws random numbers ({', '.join(_OPERATORS)})"
        )
    for stream, node in enumerate(nodes):
        if choice == "input":
            _to_input(proto, node)
        else:
            node.metadata_props.add(key=_KEY, value=f"{seed[1] if seed else 'zeros'} {stream}")


def draw_random(proto: onnx.ModelProto, source: SourceGraph) -> None:
    """Replace nodes that `choose_random` marked by constants, in place; input shapes are static.

    Args:
        proto: The model.
        source: Its graph as its file has it, for messages.

    Raises:
        ModelError: The shape of such a node is not known.
    """
    marked = [
        (node, entry.value)
        for node in proto.graph.node
        for entry in node.metadata_props
        if entry.key == _KEY and _MARK.fullmatch(entry.value)
    ]
    if not marked:
        return
    graph = _with_shapes(proto)
    types = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.output)}
    for node, choice in marked:
        ty = types.get(node.output[0])
        if ty is None or not _has_sizes(ty):
            parts = cut(graph)
            refuse_data_sizes(source, graph, [*parts.before, *parts.decisions], proto.graph.name)
            raise ModelError(
                f"how many numbers {node.op_type} node '{name_of(node)}' draws is not known: choose `--random input`, "
                f"and give the size by --shape '{node.output[0]}=…'"
            )
        dims = [dim.dim_value for dim in ty.shape.dim]
        check_tensor(Site(node.op_type, name_of(node)), "its result", dims, 4)
        dtype = helper.tensor_dtype_to_np_dtype(ty.elem_type)
        values = _values(node, choice, tuple(dims)).astype(dtype)
        proto.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        proto.graph.node.remove(node)


def _with_shapes(proto: onnx.ModelProto) -> onnx.GraphProto:
    """Return a model's graph without weights, with the shapes of its values as far as input shapes decide them."""
    model = without_weights(proto)
    name_contrib(model)
    fold_shapes(model, proto.graph.name)
    return model.graph


def _has_sizes(ty: onnx.TypeProto.Tensor) -> bool:
    return ty.HasField("shape") and all(dim.HasField("dim_value") for dim in ty.shape.dim)


def _values(node: NodeProto, choice: str, shape: tuple[int, ...]) -> Array:
    seed, stream = choice.split()
    if seed == "zeros":
        return np.zeros(shape, np.float32)
    numbers = {a.name: a.f for a in node.attribute}
    if node.op_type.startswith("RandomNormal"):
        drawn = draw("normal", shape, int(seed), int(stream))
        return drawn * np.float32(numbers.get("scale", 1.0)) + np.float32(numbers.get("mean", 0.0))
    low, high = np.float32(numbers.get("low", 0.0)), np.float32(numbers.get("high", 1.0))
    return low + draw("uniform", shape, int(seed), int(stream)) * (high - low)


def _to_input(proto: onnx.ModelProto, node: NodeProto) -> None:
    """Replace a node by an input of its name, whose sizes are those of the node's input."""
    name = node.output[0]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    kind = int(attributes.get("dtype", TensorProto.FLOAT))
    dims: list[int | str]
    if node.input:
        graph = onnx.shape_inference.infer_shapes(without_weights(proto)).graph
        known = {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info)}
        held = known.get(node.input[0])
        if held is None or not held.HasField("shape"):
            raise ModelError(
                f"{node.op_type} node '{name_of(node)}' cannot become an input: how many dimensions its input "
                f"'{node.input[0]}' has is not known"
            )
        kind = int(attributes.get("dtype", held.elem_type))
        dims = [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{name}_{axis}"
            for axis, dim in enumerate(held.shape.dim)
        ]
    else:
        dims = [int(size) for size in attributes.get("shape", ())]
    proto.graph.node.remove(node)
    known_values = [value for value in proto.graph.value_info if value.name != name]
    proto.graph.ClearField("value_info")
    proto.graph.value_info.extend(known_values)
    proto.graph.input.append(helper.make_tensor_value_info(name, kind, dims))
