# SPDX-License-Identifier: Apache-2.0
"""Types of the values inside an ONNX model, including models that cannot be imported."""

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TypeProto, helper

from arm_ext.common.workers import Lost, Workers
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.frontends.onnx.importer import input_specs
from arm_ext.frontends.onnx.reference import Job, OneOutput, Shown
from arm_ext.frontends.onnx.weights import without_weights

_RUN_SECONDS = 60
"""Most seconds that a part of a model may run, after which it counts as hanging."""


def values_read(node: NodeProto) -> Iterator[str]:
    """Yield the values that a node reads, including those that its subgraphs capture."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g,) if attribute.type == AttributeProto.GRAPH else attribute.graphs:
            own = {value.name for value in (*graph.input, *graph.initializer)}
            own.update(name for inner in graph.node for name in inner.output)
            yield from (name for inner in graph.node for name in values_read(inner) if name not in own)
            yield from (value.name for value in graph.output if value.name not in own)


def value_types(proto: onnx.ModelProto, values: Sequence[str]) -> dict[str, TypeProto]:
    """Return the types of values, with static shapes as far as these can be determined.

    onnx infers most of them. Others are taken from a run in onnxruntime on seeded random inputs or, where it cannot run
    the model, from the model's declarations.

    Args:
        proto: The model; its inputs have static shapes.
        values: Names of values of its graph.
    """
    try:
        graph = onnx.shape_inference.infer_shapes(without_weights(proto)).graph
    except onnx.shape_inference.InferenceError:
        graph = proto.graph
    held = {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
    types = {value: held[value] for value in values if value in held}
    unknown = [value for value in values if value not in types or not is_static(types[value])]
    return types | _types_of_a_run(proto, unknown)


def is_static(kind: TypeProto) -> bool:
    """Whether a type is that of a tensor with a static shape."""
    tensor = kind.tensor_type
    return (
        bool(tensor.elem_type)
        and tensor.HasField("shape")
        and all(d.HasField("dim_value") for d in tensor.shape.dim)
    )


def _types_of_a_run(proto: onnx.ModelProto, values: Sequence[str]) -> dict[str, TypeProto]:
    """Return types found by running the part of the model that computes each value.

    Values whose part fails are left out.
    """
    types: dict[str, TypeProto] = {}
    inputs = random_inputs(input_specs(proto.graph)) if values else []

    def note(index: int, answer: Shown | Lost) -> None:
        if isinstance(answer, tuple):
            dtype, shape = answer
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            types[values[index]] = helper.make_tensor_type_proto(kind, shape)

    # An invalid model may crash the process that runs it.
    workers: Workers[Job, Shown] = Workers(OneOutput, 1, _RUN_SECONDS)
    try:
        workers.run([(_part(proto, value), inputs) for value in values], note)
    finally:
        workers.close()
    return types


def _part(proto: onnx.ModelProto, value: str) -> bytes:
    """Return the part of a model that computes a value."""
    part = onnx.ModelProto()
    part.CopyFrom(proto)
    nodes, needed = [], {value}
    for node in reversed(proto.graph.node):
        if not needed.isdisjoint(node.output):
            nodes.append(node)
            needed.update(values_read(node))
    del part.graph.node[:], part.graph.output[:]
    part.graph.node.extend(reversed(nodes))
    part.graph.output.append(onnx.ValueInfoProto(name=value))
    return bytes(part.SerializeToString())
