# SPDX-License-Identifier: Apache-2.0
"""Operators that are converted to Relax here instead of by TVM's importer: a fixed table, and operators of plugins.

The table has standard ONNX operators and those of the domain `OWN`, which replace others during expansion.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper
from tvm import relax
from tvm.ir import Expr

from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.custom import CustomOp, convert_custom, converter_for
from arm_ext.frontends.graph import Value
from arm_ext.frontends.onnx import fourier
from arm_ext.frontends.onnx.block_products import GATHER_BLOCKS, LINEAR_BLOCKS, convert_blocks
from arm_ext.frontends.onnx.expansion import OWN, domain_of, qualified
from arm_ext.frontends.onnx.node import Node
from arm_ext.frontends.onnx.roi_align import AVERAGE, convert_average
from arm_ext.frontends.onnx.sequences import DEFAULTS, sequences
from arm_ext.frontends.onnx.trees import TREES, convert_trees
from arm_ext.frontends.ops import activations, arithmetic, gather_scatter, maths, move, reduce

Converted: TypeAlias = "Value | Sequence[Value] | Expr | None"
Convert = Callable[[Node], Converted]
"""Converter of a node: its output, a list of its outputs, or None where TVM's importer is to convert it."""


def by(function: Callable[..., Value], **defaults: float) -> Convert:
    """Return a converter that computes a node by a function of `frontends.ops`.

    Args:
        function: Function of the node's inputs, and of the attributes by name.
        defaults: The node's attributes that are numbers, with ONNX's defaults for them.
    """

    def convert(node: Node) -> Value:
        given = {name: node.attribute(name, default) for name, default in defaults.items()}
        return function(*(node.graph.hold(x) for x in node.inputs if x is not None), **given)

    return convert


def _of_builder(
    function: Callable[[relax.BlockBuilder, onnx.NodeProto, Sequence[relax.Expr | None]], relax.Expr],
) -> Convert:
    """Return a converter that calls a function with the builder, to which the function adds kernels."""
    return lambda node: function(node.graph.builder, node.proto, node.inputs)


def _power(x: Value, y: Value) -> Value:
    return maths.power(x, arithmetic.cast(y, x.dtype))


def _cast(node: Node) -> Converted:
    """Convert Cast between types of 8 bits and more.

    TVM's converter gives other integers for floats beyond the integer type's range.
    """
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(node.attribute("to", 0)))
    given = node.inputs[0]
    known = dtype.kind in "biu" or dtype.name in ("float16", "float32", "float64")
    if (
        not known
        or dtype.name in ("int4", "uint4")
        or not isinstance(getattr(given, "ty", None), relax.TensorType)
    ):
        return None
    return arithmetic.cast(node.value(0), dtype.name)


def _cast_like(node: Node) -> Value:
    return arithmetic.cast(node.value(0), node.value(1).dtype)


def _is_infinite(x: Value, detect_positive: int, detect_negative: int) -> Value:
    if detect_positive and detect_negative:
        return arithmetic.is_infinite(x)
    return arithmetic.equal(x, math.inf if detect_positive else -math.inf)


def _gelu(node: Node) -> Value:
    approximate = node.attribute("approximate", "none") == "tanh"
    return (activations.gelu_tanh if approximate else activations.gelu)(node.value(0))


def _running(function: Callable[..., Value]) -> Convert:
    """Return a converter of CumSum or CumProd, whose axis is constant."""

    def convert(node: Node) -> Value:
        x, exclusive, back = node.value(0), node.attribute("exclusive", 0), node.attribute("reverse", 0)
        return function(x, node.whole_number(1, 0) % len(x.shape), bool(exclusive), reverse=bool(back))

    return convert


def _log_sum_exp(node: Node) -> Converted:
    """Convert ReduceLogSumExp of floats, for which TVM's converter gives NaN at infinities.

    Leave other dtypes to TVM.
    """
    x, given = node.value(0), node.optional(1)
    if not arithmetic.is_float(x):
        return None
    listed = node.numbers("axes") if given is None else node.known(1).tolist()
    if not listed and node.attribute("noop_with_empty_axes", 0):
        return None
    axes = [int(axis) % len(x.shape) for axis in listed] or list(range(len(x.shape)))
    return reduce.log_sum_exp(x, axes, bool(node.attribute("keepdims", 1)))


def _lp_normalize(node: Node) -> Value:
    x = node.value(0)
    return reduce.lp_normalize(x, node.attribute("axis", -1) % len(x.shape), node.attribute("p", 2))


def _eye_like(node: Node) -> Value:
    x = node.value(0)
    kind = node.attribute("dtype", 0)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind) if kind else x.dtype)
    return x.graph.hold_constant(np.eye(x.shape[0], x.shape[1], node.attribute("k", 0)).astype(dtype))


def _one_hot(node: Node) -> Value:
    """Convert OneHot; TVM's converter turns float32 values into float64."""
    index, values = node.value(0), node.value(2)
    axis = node.attribute("axis", -1) % (len(index.shape) + 1)
    off, on = (gather_scatter.in_bounds(values, number, 0) for number in range(2))
    return move.one_hot(index, node.whole_number(1, 0), axis, off, on)


def _space_to_depth(node: Node) -> Value:
    depth_first = node.attribute("mode", "DCR") == "CRD"
    return move.space_to_depth(node.value(0), node.attribute("blocksize", 1), depth_first=depth_first)


def _reverse_sequence(node: Node) -> Value:
    x, time, batch = node.value(0), node.attribute("time_axis", 0), node.attribute("batch_axis", 1)
    lengths = gather_scatter.up_to(node.value(1), x.shape[time], f"input '{node.proto.input[1]}'")
    return move.reverse_sequence(x, lengths, time, batch)


def _tensor_scatter(node: Node) -> Value:
    x, circular = node.value(0), node.attribute("mode", "linear") == "circular"
    axis = node.attribute("axis", -2) % len(x.shape)
    return move.write_rows(x, node.value(1), node.optional(2), axis, circular=circular)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "Acos": maths.acos,
    "Acosh": maths.acosh,
    "Asin": maths.asin,
    "Asinh": maths.asinh,
    "Atan": maths.atan,
    "Atanh": maths.atanh,
    "Cosh": maths.cosh,
    "HardSwish": activations.hard_swish,
    "IsNaN": arithmetic.is_nan,
    "Mish": activations.mish,
    "Pow": _power,
    "Sign": arithmetic.sign,
    "Sinh": maths.sinh,
    "Softplus": activations.softplus,
    "Softsign": activations.softsign,
}

CONVERTERS: dict[tuple[str, str], Convert] = {
    **{("", kind): _of_builder(sequences) for kind in DEFAULTS},
    **{("", name): by(function) for name, function in _FUNCTIONS.items()},
    ("", "Cast"): _cast,
    ("", "CastLike"): _cast_like,
    ("", "Celu"): by(activations.celu, alpha=1.0),
    ("", "CumProd"): _running(reduce.running_product),
    ("", "CumSum"): _running(reduce.running_sum),
    ("", "DFT"): fourier.dft,
    ("", "Elu"): by(activations.elu, alpha=1.0),
    ("", "EyeLike"): _eye_like,
    ("", "Gelu"): _gelu,
    ("", "HardSigmoid"): by(activations.hard_sigmoid, alpha=0.2, beta=0.5),
    ("", "IsInf"): by(_is_infinite, detect_positive=1, detect_negative=1),
    ("", "LeakyRelu"): by(activations.leaky_relu, alpha=0.01),
    ("", "LpNormalization"): _lp_normalize,
    ("", "OneHot"): _one_hot,
    ("", "ReduceLogSumExp"): _log_sum_exp,
    ("", "ReverseSequence"): _reverse_sequence,
    ("", "STFT"): fourier.stft,
    ("", "Selu"): by(activations.selu, alpha=activations.SELU[0], gamma=activations.SELU[1]),
    ("", "SpaceToDepth"): _space_to_depth,
    ("", "TensorScatter"): _tensor_scatter,
    ("", "ThresholdedRelu"): by(activations.thresholded_relu, alpha=1.0),
    (OWN, AVERAGE): _of_builder(convert_average),
    (OWN, LINEAR_BLOCKS): _of_builder(convert_blocks),
    (OWN, GATHER_BLOCKS): _of_builder(convert_blocks),
    (OWN, TREES): _of_builder(convert_trees),
}
"""(domain, operator) → its converter."""


def is_custom(node: onnx.NodeProto) -> bool:
    """Whether a plugin has a converter for a node."""
    return converter_for(qualified(node)) is not None


def converter_of(node: onnx.NodeProto) -> Convert | None:
    """Return the converter of a node; None if it is left to TVM's importer."""
    return _of_builder(_custom) if is_custom(node) else CONVERTERS.get((domain_of(node), node.op_type))


def _custom(
    builder: relax.BlockBuilder, node: onnx.NodeProto, inputs: Sequence[relax.Expr | None]
) -> relax.Expr:
    attributes = {a.name: _plain(helper.get_attribute_value(a)) for a in node.attribute}
    op = CustomOp(qualified(node), node.name, tuple(inputs), attributes, builder)
    values = convert_custom(op, len(node.output))
    return values[0] if len(values) == 1 else relax.Tuple(values)


def _plain(value: Any) -> Any:
    """Convert an attribute's value to Python numbers, strings, lists and numpy arrays."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, str | int | float) or not hasattr(value, "__iter__"):
        return value
    return [_plain(each) for each in value]


def declare_custom(model: onnx.ModelProto) -> bool:
    """Add types of plugin nodes' outputs to the model, converting each node alone; return whether any type was added.

    Raises:
        UsageError: A plugin fails, or its value has another type than the model declares.
    """
    graph = model.graph
    custom = [node for node in graph.node if is_custom(node)]
    if not custom:
        return False
    declared = {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}
    types = {name: value.type.tensor_type for name, value in declared.items()}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    written = [node for node in graph.node if node.op_type == "Constant"]
    constants |= {n.output[0]: a.t for n in written for a in n.attribute if a.name == "value"}
    found = False
    for node in custom:
        inputs = [_placeholder(value, types, constants) for value in node.input]
        if any(operand is None for operand, value in zip(inputs, node.input, strict=True) if value):
            continue  # the types of its inputs are not known yet
        for name, value in zip(node.output, _alone(node, inputs), strict=True):
            if name in types and _is_known(types[name]):
                _check_type(node, name, value, types[name])
                continue
            if name not in declared:
                declared[name] = graph.value_info.add(name=name)
            types[name] = declared[name].type.tensor_type
            elem = helper.np_dtype_to_tensor_dtype(np.dtype(str(value.ty.dtype)))
            dims = [int(dim) for dim in value.ty.shape]
            types[name].CopyFrom(helper.make_tensor_type_proto(elem, dims).tensor_type)
            found = True
    return found


def _alone(node: onnx.NodeProto, inputs: Sequence[relax.Expr | None]) -> list[relax.Expr]:
    """Convert a custom node in a function of its own, which infers the types of its values; return the values."""
    builder = relax.BlockBuilder()
    params = [operand for operand in inputs if isinstance(operand, relax.Var)]
    with builder.function("main", params):
        with builder.dataflow():
            result = _custom(builder, node, inputs)
            values = list(result.fields) if isinstance(result, relax.Tuple) else [result]
            output = builder.emit_output(result)
        builder.emit_func_output(output)
    return values


def _is_known(held: onnx.TypeProto.Tensor) -> bool:
    """Whether a type has a dtype and a static shape."""
    sized = held.HasField("shape") and all(dim.HasField("dim_value") for dim in held.shape.dim)
    return bool(held.elem_type) and sized


def _check_type(node: onnx.NodeProto, name: str, value: relax.Expr, held: onnx.TypeProto.Tensor) -> None:
    given = f"{value.ty.dtype}{[int(dim) for dim in value.ty.shape]}"
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(held.elem_type)).name
    said = f"{dtype}{[dim.dim_value for dim in held.shape.dim]}"
    if given != said:
        raise UsageError(
            f"the plugin's converter of {qualified(node)} node '{node.name}' gives {given} for '{name}', and the "
            f"model says {said}"
        )


def _placeholder(
    name: str, types: Mapping[str, onnx.TypeProto.Tensor], constants: Mapping[str, onnx.TensorProto]
) -> relax.Expr | None:
    if name in constants:
        array = numpy_helper.to_array(constants[name])
        return relax.const(array, str(array.dtype))
    held = types.get(name)
    if held is None or not _is_known(held):
        return None
    dtype = str(helper.tensor_dtype_to_np_dtype(held.elem_type))
    return relax.Var(name, relax.TensorType([d.dim_value for d in held.shape.dim], dtype))
