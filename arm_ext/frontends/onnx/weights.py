# SPDX-License-Identifier: Apache-2.0
"""Handling of ONNX models separately from the data of their weights.

onnx checks, inlines and infers on a serialised copy of the model, and onnxruntime reads one: protobuf writes none above
2 GiB, and the copies take time. None of onnx's steps reads a large weight, and onnxruntime takes them as arrays.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import EncodeError
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from tvm import IRModule
from tvm.ir import GenericConst
from tvm.runtime import Tensor
from tvm_ffi import structural_walk

from arm_ext.common.errors import ModelError
from relay_passes.ir.calls import array_of
from relay_passes.ir.sources import relax_functions

SMALL_ELEMENTS = 1024
"""Tensors with fewer elements may hold sizes, axes or starts, so their values are kept."""

_TREES = "ai.onnx.ml"
"""Domain of decision trees, whose nodes are lists of numbers."""

_LONG_LIST = 4096
"""Most numbers of a list of trees that every copy of a model has."""

PROTOBUF_BYTES = 2**31
"""Largest size of a protobuf message in bytes."""

_INLINE_BYTES = 2**24
"""Most bytes of weights that are serialised with their model: onnxruntime copies these twice when it reads them."""


# AArch64 code forms an address by ADRP, which reaches ±4 GiB, and the code is laid out after the weights.
_REACH_BYTES = 2**32 - 2**24


@dataclass(frozen=True)
class Serialised:
    """A model's serialised bytes, with large weights as separate arrays.

    Attributes:
        model: The model's bytes.
        weights: Name of a weight that is too large for them → its value.
    """

    model: bytes
    weights: dict[str, npt.NDArray[Any]] = field(default_factory=dict)


def weight_bytes(model: ModelProto) -> int:
    """Return the size of a model's initialisers in bytes, including those in external files."""
    return sum(_bytes(tensor) for tensor in model.graph.initializer)


def refuse_heavy(model: ModelProto, name: str) -> None:
    """Refuse a model whose weights are too large for the code of model.so to address.

    Raises:
        ModelError: There are more than 4 GiB of them.
    """
    total = weight_bytes(model)
    if total > _REACH_BYTES:
        raise ModelError(
            f"{name} has {total / 2**30:.1f} GiB of weights, and model.so holds up to 4 GiB, which is how far AArch64 "
            "code reaches: store them in 16 or 8 bits, or split the model"
        )


def serialise(model: ModelProto, limit: int = _INLINE_BYTES) -> Serialised:
    """Return a model's serialised bytes.

    From `limit` bytes of weights on, large weights are returned as separate arrays.
    """
    if weight_bytes(model) < limit:
        return Serialised(model.SerializeToString())
    light, weights = ModelProto(), {}
    _merge(light, model, "graph")
    _merge(light.graph, model.graph, "initializer")
    for tensor in model.graph.initializer:
        if _is_small(tensor) or tensor.data_type not in _OF_NUMPY:
            light.graph.initializer.append(tensor)
            continue
        weights[tensor.name] = numpy_helper.to_array(tensor)
        outside = light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        outside.data_location = TensorProto.EXTERNAL
        # onnxruntime never reads the file "weights", since it gets the value from memory.
        for key, value in (("location", "weights"), ("offset", "0"), ("length", str(_bytes(tensor)))):
            outside.external_data.add(key=key, value=value)
    return Serialised(light.SerializeToString(), weights)


def with_constants_of(mod: IRModule, model: Serialised) -> Serialised:
    """Return the model with each weight replaced by the module's constant of equal value, if any, to share memory."""
    if not model.weights:
        return model
    constants: dict[_Beginning, npt.NDArray[Any]] = {}

    def add(constant: GenericConst) -> None:
        if isinstance(constant.value, Tensor):
            value = array_of(constant)
            constants[_beginning(value)] = value

    for _, func in relax_functions(mod):
        structural_walk(func, [(GenericConst, add)])

    def shared(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        constant = constants.get(_beginning(value), value)
        return constant if np.array_equal(constant.view(np.uint8), value.view(np.uint8)) else value

    return replace(model, weights={name: shared(value) for name, value in model.weights.items()})


def sha256(model: ModelProto) -> str:
    """Return the SHA-256 of a model's bytes.

    Above protobuf's limit, of its bytes without weights and of the weights.
    """
    try:
        return hashlib.sha256(model.SerializeToString()).hexdigest()
    except (EncodeError, ValueError):
        digest = hashlib.sha256(without_weights(model).SerializeToString())
        for tensor in model.graph.initializer:
            digest.update(np.ascontiguousarray(numpy_helper.to_array(tensor)).data)
        return digest.hexdigest()


def without_weights(model: ModelProto) -> ModelProto:
    """Return a copy with large initialisers turned into inputs, and long list attributes cut to their first number."""
    light = ModelProto()
    _merge(light, model, "graph")
    _merge(light.graph, model.graph, "initializer", "node")
    for node in model.graph.node:
        light.graph.node.append(shortened(node))
    declared = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if _is_small(tensor):
            light.graph.initializer.append(tensor)
        elif tensor.name not in declared:
            light.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return light


def change_without_weights(
    model: ModelProto, change: Callable[[ModelProto], ModelProto], *, keeps_nodes: bool = False
) -> None:
    """Apply a change to a copy of a model without weights.

    Args:
        model: The model, which is changed.
        change: Returns the changed copy, with the same inputs and initialisers.
        keeps_nodes: Whether the change keeps all nodes as they are: then they are not copied.
    """
    changed = change(without_weights(model))
    long = {
        node.output[0]: NodeProto.FromString(node.SerializeToString())
        for node in model.graph.node
        if not keeps_nodes and node.output and _has_long_lists(node)
    }
    for target, source, names in (
        (model.graph, changed.graph, (*(() if keeps_nodes else ("node",)), "value_info", "output")),
        (model, changed, ("functions", "opset_import")),
    ):
        for name in names:
            target.ClearField(name)
            getattr(target, name).extend(getattr(source, name))
    for node in model.graph.node if long else ():
        if node.output and node.output[0] in long:
            node.ClearField("attribute")
            node.attribute.extend(long[node.output[0]].attribute)


def _is_long(attribute: AttributeProto) -> bool:
    return max(len(attribute.ints), len(attribute.floats), len(attribute.strings)) > _LONG_LIST


def _has_long_lists(node: NodeProto) -> bool:
    """Whether a node is of decision trees, and has attributes longer than `_LONG_LIST`."""
    return node.domain == _TREES and any(map(_is_long, node.attribute))


def shortened(node: NodeProto) -> NodeProto:
    """Return a node with long list attributes cut to their first number.

    Onnx's checker and shape inference ignore the rest.
    """
    if not _has_long_lists(node):
        return node
    names = ("name", "op_type", "domain", "overload")
    fields = {name: getattr(node, name) for name in names if node.HasField(name)}
    short = NodeProto(input=node.input, output=node.output, **fields)
    for attribute in node.attribute:
        if not _is_long(attribute):
            short.attribute.append(attribute)
            continue
        kept = short.attribute.add(name=attribute.name, type=attribute.type)
        kept.ints.extend(attribute.ints[:1])
        kept.floats.extend(attribute.floats[:1])
        kept.strings.extend(attribute.strings[:1])
    return short


# onnxruntime accepts only arrays of numpy's own dtypes: not bfloat16, 8-bit floats or 4-bit integers.
_OF_NUMPY = frozenset(
    getattr(TensorProto, name)
    for name in (
        *("FLOAT", "DOUBLE", "FLOAT16", "BOOL"),
        *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    )
)


def _is_small(tensor: TensorProto) -> bool:
    return bool(math.prod(tensor.dims) <= SMALL_ELEMENTS)


def _bytes(tensor: TensorProto) -> int:
    if tensor.data_type not in helper.get_all_tensor_dtypes():  # onnx's checker refuses it
        return 0
    return int(math.prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


_Beginning = tuple[str, tuple[int, ...], bytes]


def _beginning(value: npt.NDArray[Any]) -> _Beginning:
    """Return dtype, shape and first elements of an array, a key that few weights of a model share."""
    return value.dtype.str, value.shape, value.reshape(-1)[:16].tobytes()


def _merge(
    target: ModelProto | onnx.GraphProto, source: ModelProto | onnx.GraphProto, *left_out: str
) -> None:
    """Copy all fields of a message except those named in `left_out`."""
    for descriptor, value in source.ListFields():
        if descriptor.name in left_out:
            continue
        if descriptor.is_repeated:
            getattr(target, descriptor.name).extend(value)
        elif descriptor.message_type is not None:
            getattr(target, descriptor.name).CopyFrom(value)
        else:
            setattr(target, descriptor.name, value)
