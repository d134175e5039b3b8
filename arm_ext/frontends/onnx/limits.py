# SPDX-License-Identifier: Apache-2.0
"""Limits of ONNX attributes and constant inputs, and checks that constants hold as many bytes as their shape says."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, defs, helper, numpy_helper

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.limits import (
    BLOCK,
    COUNT,
    FACTOR,
    OFFSET,
    SIZE,
    STEP,
    Limit,
    Site,
    check_axes,
    check_groups,
    check_numbers,
    check_permutation,
    check_tensor,
    check_window,
)
from arm_ext.frontends.onnx.expansion import domain_of, opset_of
from arm_ext.frontends.onnx.sequences import of_integers
from arm_ext.frontends.onnx.subgraph_nodes import name_of, nodes_within

# Attribute of any operator → the limit of its values.
_ATTRIBUTES: dict[str, Limit] = {
    **dict.fromkeys(("strides", "dilations", "kernel_shape", "group", "num_groups", "num_outputs"), COUNT),
    **dict.fromkeys(("hidden_size", "num_heads", "q_num_heads", "kv_num_heads", "size"), COUNT),
    **dict.fromkeys(("output_height", "output_width", "pooled_shape", "K", "N"), COUNT),
    **dict.fromkeys(("pads", "output_padding", "sampling_ratio", "block_size", "output_shape"), SIZE),
    "blocksize": BLOCK,
    "k": OFFSET,
    "p": Limit(1, 2),
}
# (Operator, attribute) → limit, for operators whose limit differs from that in _ATTRIBUTES.
_OF_OPERATORS: dict[tuple[str, str], Limit] = {
    ("Celu", "alpha"): Limit(-math.inf, math.inf, nonzero=True),
    ("LpPool", "p"): COUNT,
    **{(name, "block_size"): COUNT for name in ("GatherBlockQuantized", "MatMulNBits")},
    ("Pad", "pads"): OFFSET,
    ("SplitToSequence", "num_outputs"): SIZE,
    ("TopK", "k"): SIZE,
}
# (Operator, name of an input in the operator's schema) → the limit of its values, checked if the input is constant.
_INPUTS: dict[tuple[str, str], Limit] = {
    ("AffineGrid", "size"): COUNT,
    ("BlackmanWindow", "size"): SIZE,
    ("CenterCropPad", "shape"): SIZE,
    ("Col2Im", "block_shape"): COUNT,
    ("Col2Im", "image_shape"): COUNT,
    ("ConstantOfShape", "input"): Limit(0, 2**40),
    ("DFT", "dft_length"): COUNT,
    ("HammingWindow", "size"): SIZE,
    ("HannWindow", "size"): SIZE,
    ("MelWeightMatrix", "dft_length"): COUNT,
    ("MelWeightMatrix", "num_mel_bins"): COUNT,
    ("MelWeightMatrix", "sample_rate"): COUNT,
    ("OneHot", "depth"): COUNT,
    ("Pad", "pads"): OFFSET,
    ("Range", "delta"): STEP,
    ("Resize", "scales"): FACTOR,
    ("Resize", "sizes"): COUNT,
    ("STFT", "frame_length"): COUNT,
    ("STFT", "frame_step"): COUNT,
    ("Slice", "steps"): STEP,
    ("Split", "split"): SIZE,
    ("Tile", "repeats"): SIZE,
    ("TopK", "K"): SIZE,
    ("Trilu", "k"): OFFSET,
    ("Upsample", "scales"): FACTOR,
}
# (Operator, attribute) → the allowed strings, for attributes that no later step checks properly.
_TEXTS: dict[tuple[str, str], tuple[bytes, ...]] = {
    **{(name, "mode"): (b"nearest", b"linear", b"cubic") for name in ("Resize", "Upsample")},
    ("Resize", "nearest_mode"): (b"round_prefer_floor", b"round_prefer_ceil", b"floor", b"ceil"),
}
_AXES = frozenset(("axis", "axes", "batch_axis", "time_axis"))
# Operators whose axes do not refer to their first input, or which onnx's shape inference checks.
_OTHER_AXES = frozenset(
    (
        "Concat",
        "ConcatFromSequence",
        "DequantizeLinear",
        "Flatten",
        "OneHot",
        "QuantizeLinear",
        "Scan",
        "Unsqueeze",
    )
)
_WINDOWED = frozenset(("AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool", "QLinearConv"))
_WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
_PRODUCTS = frozenset(("Gemm", "LogSoftmax", "MatMul", "MatMulInteger", "QLinearMatMul", "Softmax"))
_GATES = frozenset(("GRU", "LSTM", "RNN"))
_BOOLEANS = "tensor(bool)"

Shapes = Mapping[str, Sequence[int]]


def check_attributes(graph: onnx.GraphProto) -> None:
    """Refuse attributes beyond their limits; onnx's shape inference divides by them, and multiplies them.

    Raises:
        ModelError: An attribute exceeds its limit; the message names node, attribute, value and limit.
    """
    for node in nodes_within(graph):
        for attribute in node.attribute:
            key = (node.op_type, attribute.name)
            limit = _OF_OPERATORS.get(key) or _ATTRIBUTES.get(attribute.name)
            if limit is not None:
                values = helper.get_attribute_value(attribute)
                numbers = values if isinstance(values, Sequence) else [values]
                if all(isinstance(number, int | float) for number in numbers):
                    check_numbers(_site(node), attribute.name, numbers, limit)
            if attribute.s not in (texts := _TEXTS.get(key, (attribute.s,))):
                told = ", ".join(text.decode() for text in texts)
                value = attribute.s.decode(errors="replace")
                raise _site(node).refuse(attribute.name, value, f"one of {told}")


def check_required(proto: onnx.ModelProto) -> None:
    """Refuse nodes without a required input, at which onnx's shape inference and TVM's importer abort the process.

    Raises:
        ModelError: A required input is missing or empty; the message names the node and the input.
    """
    opset = opset_of(proto)
    for node in nodes_within(proto.graph):
        if domain_of(node) or not defs.has(node.op_type, opset):
            continue
        schema = defs.get_schema(node.op_type, opset)
        given = [*node.input, *[""] * max(schema.min_input - len(node.input), 0)]
        for index, actual in enumerate(given):
            formal = schema.inputs[min(index, len(schema.inputs) - 1)] if schema.inputs else None
            if actual or formal is None or formal.option == defs.OpSchema.FormalParameterOption.Optional:
                continue
            repeated = formal.option == defs.OpSchema.FormalParameterOption.Variadic
            # A Loop's states are a variadic input, and the optional inputs before them may be empty.
            if repeated and any(a.type == AttributeProto.GRAPH for a in node.attribute):
                continue
            number = f" (number {index + 1})" if repeated else ""
            raise ModelError(
                f"{_site(node)} cannot be compiled: its input '{formal.name}'{number} is missing, and the operator "
                "requires it; connect it, or remove the node"
            )


def check_inferred(model: onnx.ModelProto) -> None:
    """Refuse values larger than memory, and constants beyond their limits; run after shapes and constants are known.

    Args:
        model: The model with onnx's inferred shapes; nodes in branches and loops are not checked.

    Raises:
        ModelError: A limit is exceeded; the message names node, attribute or value, and limit.
    """
    graph, opset = model.graph, opset_of(model)
    types = {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info, *graph.output)}
    shapes = {name: shape for name, ty in types.items() if (shape := _static(ty)) is not None}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants.update((node.output[0], a.t) for node in graph.node for a in _value_of(node))
    shapes.update((name, tuple(tensor.dims)) for name, tensor in constants.items())
    kinds = {name: ty.elem_type for name, ty in types.items()}
    kinds.update((name, tensor.data_type) for name, tensor in constants.items())
    for node in graph.node:
        site = _site(node)
        if not domain_of(node):
            _check_inputs(site, node, opset, constants)
            _check_axes(site, node, shapes, opset, constants)
            _check_windows(site, node, shapes)
            _check_operands(site, node, shapes)
            _check_booleans(site, node, opset, kinds)
        for name in node.output:
            if name in shapes and name in types:
                # A negative size counts as 1, because the node that has it may be unused.
                least_shape = [max(size, 1) for size in shapes[name]]
                check_tensor(site, "its result", least_shape, _item_bytes(types[name].elem_type))


def _site(node: NodeProto) -> Site:
    return Site(node.op_type, name_of(node))


def _value_of(node: NodeProto) -> list[AttributeProto]:
    return [a for a in node.attribute if a.name == "value"] if node.op_type == "Constant" else []


def _static(ty: onnx.TypeProto.Tensor) -> tuple[int, ...] | None:
    dims = ty.shape.dim
    known = ty.HasField("shape") and all(dim.HasField("dim_value") for dim in dims)
    return tuple(dim.dim_value for dim in dims) if known else None


def _dtype(kind: int) -> str:
    return str(np.dtype(helper.tensor_dtype_to_np_dtype(kind)).name)


def _item_bytes(kind: int) -> int:
    return int(helper.tensor_dtype_to_np_dtype(kind).itemsize) if kind else 1


def _constant_inputs(
    node: NodeProto, opset: int, constants: Mapping[str, TensorProto]
) -> Iterator[tuple[str, list[float]]]:
    """Yield the schema's name and the elements of each constant input of a node that has a limit."""
    if not defs.has(node.op_type, opset):
        return
    for formal, actual in zip(defs.get_schema(node.op_type, opset).inputs, node.input, strict=False):
        key = (node.op_type, formal.name)
        if actual in constants and (key in _INPUTS or formal.name in _AXES):
            yield formal.name, numpy_helper.to_array(constants[actual]).reshape(-1).tolist()


@cache
def _types_of_inputs(operator: str) -> list[list[str]]:
    """Return the types that each input may have, such as "tensor(bool)", by the operator's newest schema."""
    schema = defs.get_schema(operator)
    allowed = {each.type_param_str: list(each.allowed_type_strs) for each in schema.type_constraints}
    return [allowed.get(formal.type_str, [formal.type_str]) for formal in schema.inputs]


def _check_booleans(site: Site, node: NodeProto, opset: int, kinds: Mapping[str, int]) -> None:
    """Refuse numbers for an input of booleans, and booleans for an input of numbers, by the newest schema."""
    if not defs.has(node.op_type, opset):
        return
    for takes, actual in zip(_types_of_inputs(node.op_type), node.input, strict=False):
        kind = kinds.get(actual, 0)
        is_boolean = kind == TensorProto.BOOL
        if kind and (not is_boolean if takes == [_BOOLEANS] else is_boolean and _BOOLEANS not in takes):
            wanted = "numbers" if is_boolean else "booleans"
            raise ModelError(
                f"{site} cannot be compiled: its input '{actual}' is of {_dtype(kind)}, and the operator takes "
                f"{wanted}; insert a Cast before it"
            )


def _check_inputs(site: Site, node: NodeProto, opset: int, constants: Mapping[str, TensorProto]) -> None:
    for name, values in _constant_inputs(node, opset, constants):
        if limit := _INPUTS.get((node.op_type, name)):
            check_numbers(site, name, values, limit)


def _check_axes(
    site: Site, node: NodeProto, shapes: Shapes, opset: int, constants: Mapping[str, TensorProto]
) -> None:
    if not node.input or node.input[0] not in shapes or node.op_type in _OTHER_AXES:
        return
    rank = len(shapes[node.input[0]])
    for attribute in node.attribute:
        if attribute.name == "perm":
            check_permutation(site, "perm", list(attribute.ints), rank)
        elif attribute.name in _AXES and rank:
            axes = [attribute.i] if attribute.type == AttributeProto.INT else list(attribute.ints)
            check_axes(site, attribute.name, axes, rank)
    for name, values in _constant_inputs(node, opset, constants):
        if name in _AXES and rank:
            check_axes(site, name, [int(value) for value in values], rank)


def _check_windows(site: Site, node: NodeProto, shapes: Shapes) -> None:
    """Refuse groups that do not divide the channels, and windows larger than their image."""
    image = shapes.get(node.input[0]) if node.input else None
    number = _WEIGHTS.get(node.op_type)
    weight = shapes.get(node.input[number]) if number is not None and len(node.input) > number else None
    if image is None or len(image) < 3 or (number is not None and weight is None):
        return
    if number is None and node.op_type not in _WINDOWED:
        return
    axes = len(image) - 2
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    kernel = given.get("kernel_shape") or (list(weight[2:]) if weight else [1] * axes)
    if weight is not None:
        if 0 in weight:
            raise site.refuse("the shape of its weights", list(weight), "without a 0")
        transposed = node.op_type == "ConvTranspose"
        groups = given.get("group", 1)
        check_groups(site, groups, input=image[1], output=weight[1] * groups if transposed else weight[0])
        if image[1] != (wanted := weight[0] if transposed else weight[1] * groups):
            raise site.refuse("its number of input channels", image[1], f"the {wanted} of its weights")
        if list(kernel) != list(weight[2:]):
            raise site.refuse("kernel_shape", kernel, f"the {list(weight[2:])} of its weights")
    ends, dilations = given.get("pads") or [0] * 2 * axes, given.get("dilations") or [1] * axes
    lengths = {"kernel_shape": (kernel, axes), "pads": (ends, 2 * axes), "dilations": (dilations, axes)}
    for name, (values, count) in lengths.items():
        if len(values) != count:
            raise site.refuse(name, list(values), f"of {count} numbers")
    # With ceil_mode, a window may begin in the image and end beyond it.
    fixed = not given.get("auto_pad", b"NOTSET").startswith(b"SAME") and not given.get("ceil_mode", 0)
    if node.op_type in _WINDOWED and fixed:
        both = [low + high for low, high in zip(ends[:axes], ends[axes:], strict=True)]
        check_window(site, image[2:], kernel, dilations, both)


def _check_operands(site: Site, node: NodeProto, shapes: Shapes) -> None:
    """Refuse operands that onnx's shape inference accepts although the operators do not."""
    if node.op_type in _PRODUCTS:
        for shape in (shapes[name] for name in node.input if 0 in shapes.get(name, ())):
            raise site.refuse("the shape of an operand", list(shape), "without a 0")
    if node.op_type == "Einsum":
        inputs, arrow, output = (
            helper.get_attribute_value(node.attribute[0]).decode().replace(" ", "").partition("->")
        )
        letters = [letter for letter in output if letter.isalpha()]
        if arrow and (len(set(letters)) < len(letters) or not set(letters) <= set(inputs)):
            raise site.refuse("the output of its equation", output, f"letters of {inputs}, each once")
    elif node.op_type in _GATES and node.input[2] in shapes and not of_integers(node):
        # The importer and other runtimes may disagree on which of the two sizes is right, so they must be equal.
        own = shapes[node.input[2]][-1]
        for size in (a.i for a in node.attribute if a.name == "hidden_size" and a.i != own):
            raise site.refuse("hidden_size", size, f"the {own} of its recurrent weights")
    elif node.op_type == "PRelu" and {*node.input} <= shapes.keys():
        data, slope = (shapes[name] for name in node.input)
        if len(slope) > len(data) or any(
            b not in (1, a) for a, b in zip(reversed(data), reversed(slope), strict=False)
        ):
            raise site.refuse(
                "the shape of its slope", list(slope), f"broadcast to that of its data, {list(data)}"
            )


def check_data(graph: onnx.GraphProto) -> None:
    """Refuse constants with more or fewer bytes than their dims require, or with numbers out of their type's range.

    Raises:
        UsageError: There is such a constant; the message names it.
    """
    for tensor in _tensors(graph):
        if tensor.data_type not in helper.get_all_tensor_dtypes():
            if tensor.data_type:  # onnx's checker reports 0
                raise UsageError(
                    f"constant '{tensor.name}' has the element type {tensor.data_type}, which ONNX does not define"
                )
            continue
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        if min(tensor.dims, default=0) < 0:
            raise UsageError(
                f"constant '{tensor.name}' has the dims {list(tensor.dims)}; a dim cannot be negative"
            )
        if tensor.int32_data and dtype.name in _IN_INT32:
            _check_numbers(tensor, dtype)
        if not tensor.HasField("raw_data") or tensor.data_type == TensorProto.STRING:
            continue
        bits = _BITS.get(dtype.name, dtype.itemsize * 8)
        wanted = -(-math.prod(tensor.dims) * bits // 8)
        if len(tensor.raw_data) != wanted:
            raise UsageError(
                f"constant '{tensor.name}' holds {len(tensor.raw_data)} bytes, and its dims {list(tensor.dims)} of "
                f"{dtype.name} take {wanted}"
            )


def _check_numbers(tensor: TensorProto, dtype: np.dtype[Any]) -> None:
    """Refuse numbers in the field int32_data that are out of the tensor's type's range; they would be truncated."""
    limits = np.iinfo(dtype)
    held = np.array(tensor.int32_data)
    if len(wrong := held[(held < limits.min) | (held > limits.max)]):
        raise UsageError(
            f"constant '{tensor.name}' holds {wrong[0]}, and its type {dtype.name} holds {limits.min} to {limits.max}"
        )


_IN_INT32 = frozenset(("int8", "uint8", "int16", "uint16"))
"""Integer types whose numbers a tensor may hold in its field int32_data."""

_BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}


def _tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in nodes_within(graph):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == AttributeProto.GRAPH:
                yield from attribute.g.initializer
