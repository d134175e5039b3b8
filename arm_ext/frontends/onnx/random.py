# SPDX-License-Identifier: Apache-2.0
"""Replacement of ONNX operators that draw new random numbers at each run, by constants or inputs.

    zeros     y = RandomNormalLike(x)    →    zeros of x's shape
    seed=3    y = RandomNormalLike(x)    →    the same numbers at each run: those of a counter-based generator (`draw`)
    input     y = RandomNormalLike(x)    →    an input y of the package

The numbers of a seed are constants of the package, and so are equal on every board.
"""

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, helper, numpy_helper

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.limits import Site, check_tensor
from arm_ext.frontends.common.refuse import Shapes, refuse_unknown_inputs
from arm_ext.frontends.onnx.check import name_contrib, runtime_inputs, set_input_shapes
from arm_ext.frontends.onnx.expansion import domain_of
from arm_ext.frontends.onnx.functions import inline_model_functions
from arm_ext.frontends.onnx.open_sizes import RANDOM_OPERATORS, SourceGraph, refuse_data_sizes
from arm_ext.frontends.onnx.partition import cut
from arm_ext.frontends.onnx.shapes import fold_shapes
from arm_ext.frontends.onnx.subgraph_nodes import name_of
from arm_ext.frontends.onnx.weights import without_weights

Array = npt.NDArray[Any]

_SEED = re.compile(r"seed=(\d{1,18})")
_MARK = re.compile(r"(zeros|\d{1,18}) \d{1,9}")

_KEY = "arm_ext.random"
"""Key of a node's metadata that holds its seed, and its number among the nodes that draw."""

_MANTISSA = 24
"""Bits of a uniform number: each is a multiple of 2^-24, and exact in binary32."""


def draw(kind: str, shape: tuple[int, ...], seed: int, stream: int) -> Array:
    """Return binary32 random numbers from Philox 4x64, a counter-based generator, keyed by seed and stream.

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


@dataclass(frozen=True)
class GivenSizes:
    """Input shapes of a package, from which the sizes of its random numbers follow.

    Attributes:
        shapes: Input name → shape: several if the package takes several, and for two values of a run-time size.
        text: Returns how --shape gives a size that has these values in `shapes`; None if it cannot.
        symbol: Name of a size that the run decides, a number of samples or a length; "" if there is none.
    """

    shapes: Sequence[Shapes]
    text: Callable[[tuple[int, ...]], str | None]
    symbol: str = ""


def choose_random(proto: onnx.ModelProto, name: str, choice: str, sizes: GivenSizes | None = None) -> None:
    """Mark, in place, how each random operator is to be replaced; with "input", replace them by inputs at once.

    Args:
        proto: The model.
        name: Its name, for messages.
        choice: "zeros", "seed=N" or "input".
        sizes: Input shapes that are given; without them, inputs have those that the model declares.

    Raises:
        UsageError: The choice is none of these, or the model draws no random numbers; or drawn numbers would be of any
            length.
        ModelError: An input has no known number of dimensions, or a size that the data decides.
    """
    seed = _SEED.fullmatch(choice)
    if seed is None and choice not in ("zeros", "input"):
        raise UsageError(f"--random {choice}: expected seed=NUMBER, zeros or input")
    nodes = [node for node in proto.graph.node if not domain_of(node) and node.op_type in RANDOM_OPERATORS]
    if not nodes:
        raise UsageError(
            f"--random: {name} has no operator that draws random numbers ({', '.join(RANDOM_OPERATORS)})"
        )
    if choice == "input":
        _to_inputs(proto, nodes, sizes)
        return
    if seed and sizes and sizes.symbol:
        _check_one_length(proto, nodes, choice, sizes)
    for stream, node in enumerate(nodes):
        node.metadata_props.add(key=_KEY, value=f"{seed[1] if seed else 'zeros'} {stream}")


def _check_one_length(
    proto: onnx.ModelProto, nodes: Sequence[NodeProto], choice: str, sizes: GivenSizes
) -> None:
    """Refuse a seed if the number of random numbers varies with --shape: the numbers of a seed become constants."""
    graphs = [_at_shapes(proto, shapes) for shapes in sizes.shapes]
    for node in nodes:
        if len({_type_of(graph, node).SerializeToString() for graph in graphs}) > 1:
            raise UsageError(
                f"--random {choice}: the number of random numbers of {node.op_type} node '{name_of(node)}' depends on "
                f"'{sizes.symbol}' in --shape, and the numbers of a seed are constants: choose --random zeros or "
                "input, or list the sizes that occur in --shape"
            )


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
    graph = _with_shapes(without_weights(proto))
    for node, choice in marked:
        ty = _type_of(graph, node)
        dims = [dim.dim_value for dim in ty.shape.dim]
        if not ty.HasField("shape") or not all(dim.HasField("dim_value") for dim in ty.shape.dim):
            _refuse_data_sizes(source, graph)
            raise ModelError(
                f"the number of random numbers of {node.op_type} node '{name_of(node)}' is not known: choose "
                "`--random input`, "
                f"and give the size by --shape '{node.output[0]}=…'"
            )
        check_tensor(Site(node.op_type, name_of(node)), "its result", dims, 4)
        dtype = helper.tensor_dtype_to_np_dtype(ty.elem_type)
        values = _values(node, choice, tuple(dims)).astype(dtype)
        proto.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        proto.graph.node.remove(node)


def _at_shapes(proto: onnx.ModelProto, shapes: Shapes, coming: Collection[str] = ()) -> onnx.GraphProto:
    """Return the graph with shapes inferred from the given input shapes; `coming` names inputs that are added later."""
    refuse_unknown_inputs(shapes, [*(value.name for value in proto.graph.input), *coming])
    inputs = {value.name for value in runtime_inputs(proto.graph)}
    model = without_weights(proto)
    set_input_shapes(model, {name: shape for name, shape in shapes.items() if name in inputs})
    inline_model_functions(model)
    return _with_shapes(model)


def _with_shapes(model: onnx.ModelProto) -> onnx.GraphProto:
    """Infer shapes in the model, as far as the shapes of its inputs determine them; return its graph."""
    name_contrib(model)
    fold_shapes(model, model.graph.name)
    return model.graph


def _refuse_data_sizes(source: SourceGraph, graph: onnx.GraphProto) -> None:
    parts = cut(graph)
    refuse_data_sizes(source, graph, [*parts.before, *parts.decisions], graph.name)


def _type_of(graph: onnx.GraphProto, node: NodeProto) -> onnx.TypeProto.Tensor:
    """Return the type of a node's output, which has no shape if its rank is not known."""
    held = (*graph.value_info, *graph.output)
    types = (value.type.tensor_type for value in held if value.name == node.output[0])
    return next(types, onnx.TypeProto.Tensor())


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


def _to_inputs(proto: onnx.ModelProto, nodes: Sequence[NodeProto], sizes: GivenSizes | None) -> None:
    """Replace nodes by inputs of their outputs' names."""
    if sizes is None:
        graphs = [onnx.shape_inference.infer_shapes(without_weights(proto)).graph]
    else:
        coming = [node.output[0] for node in nodes]
        graphs = [_at_shapes(proto, shapes, coming) for shapes in sizes.shapes]
        _refuse_data_sizes(SourceGraph.of(proto), graphs[0])
    inputs = [_input_for(node, [_type_of(graph, node) for graph in graphs], sizes) for node in nodes]
    kept = [value for value in proto.graph.value_info if value.name not in {value.name for value in inputs}]
    proto.graph.ClearField("value_info")
    proto.graph.value_info.extend(kept)
    proto.graph.input.extend(inputs)
    for node in nodes:
        proto.graph.node.remove(node)


def _input_for(
    node: NodeProto, types: Sequence[onnx.TypeProto.Tensor], sizes: GivenSizes | None
) -> onnx.ValueInfoProto:
    """Return the input that replaces a node.

    Its sizes are static where the node's output has one size for all shapes.
    """
    name = node.output[0]
    if not all(ty.HasField("shape") for ty in types) or len({len(ty.shape.dim) for ty in types}) > 1:
        raise ModelError(
            f"{node.op_type} node '{name_of(node)}' cannot become an input: the number of its output's dimensions "
            "is not "
            "known"
        )
    dims: list[int | str] = []
    for axis, each in enumerate(zip(*(ty.shape.dim for ty in types), strict=True)):
        values = tuple(dim.dim_value for dim in each if dim.HasField("dim_value"))
        if len(values) < len(each):
            dims.append(each[0].dim_param or f"{name}_{axis}")
        elif len(set(values)) == 1:
            dims.append(values[0])
        else:
            dims.append((sizes and sizes.text(values)) or f"{name}_{axis}")
    return helper.make_tensor_value_info(name, types[0].elem_type, dims)
