# SPDX-License-Identifier: Apache-2.0
"""Validation of ONNX models before the import."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper
from tvm.relax.frontend.onnx import onnx_frontend

from arm_ext.common.errors import ArmExtError, ModelError, UsageError
from arm_ext.common.names import check_name
from arm_ext.frontends.common.refuse import (
    Shapes,
    misfit,
    refuse_dynamic_inputs,
    refuse_operators,
    refuse_unknown_inputs,
)
from arm_ext.frontends.onnx.advice import advice
from arm_ext.frontends.onnx.converters import CONVERTERS, converter_of, is_custom
from arm_ext.frontends.onnx.expansion import CONTRIB, OWN, UNKNOWN, domain_of, opset_of, qualified
from arm_ext.frontends.onnx.expansions import EXPANSIONS, expand_operators
from arm_ext.frontends.onnx.fused import NORMS
from arm_ext.frontends.onnx.limits import check_attributes, check_data, check_required
from arm_ext.frontends.onnx.shapes import fold_shapes, forget_shapes
from arm_ext.frontends.onnx.subgraph_nodes import name_of, nodes_within
from arm_ext.frontends.onnx.weights import without_weights

_UNCOMPUTED = {
    number
    for name, number in onnx.TensorProto.DataType.items()
    if name.startswith(("FLOAT8", "FLOAT4", "FLOAT6", "COMPLEX", "STRING"))
}
# Attributes that name the dtype of the result: of Cast, QuantizeLinear and operators that fill a tensor.
_TYPE_ATTRIBUTES = ("to", "output_dtype", "dtype")

_NONE: Mapping[str, str] = MappingProxyType({})


def check_valid(proto: onnx.ModelProto, name: str) -> None:
    """Refuse a model that is not well-formed ONNX.

    Raises:
        UsageError: The model is not valid; the message has what onnx's checker found first.
    """
    if not proto.graph.output:
        raise UsageError(f"{name}: not an ONNX model: it holds no graph with outputs")
    # The checker rejects operators of domains it does not know; those are reported by name in check_supported.
    _check_names(proto.graph, name)
    _check_opsets(proto, name)
    _check_types(proto.graph, name)
    check_required(proto)
    _check_splits(proto.graph, name)
    _check_defaults(proto.graph, name)
    _check_scales(proto.graph, name)
    check_attributes(proto.graph)
    check_data(proto.graph)
    light = without_weights(proto)
    name_contrib(light)
    _complete_types(light.graph)
    try:
        onnx.checker.check_model(light)
    except onnx.checker.ValidationError as err:
        # A plugin's operator may be in a standard domain, in which the checker rejects unknown operators.
        if not _unsupported(light.graph.node) and not any(map(is_custom, light.graph.node)):
            first, *rest = str(err).strip().splitlines()
            # The checker names the failing node further down in its message.
            where = [line.removeprefix("==> Context: ") for line in rest if "Name: " in line]
            raise UsageError(f"{name}: not a valid ONNX model: {' '.join([first, *where[:1]])}") from err


def _check_names(graph: onnx.GraphProto, name: str) -> None:
    for node in nodes_within(graph):
        for text in (node.name, *node.input, *node.output):
            if isinstance(text, bytes):  # protobuf returns text that is not UTF-8 as bytes
                raise UsageError(
                    f"{name}: the file may be damaged: a name in it is not valid UTF-8 ({text!r})"
                )
        check_name(f"{name}: an operator", node.op_type)
        check_name(f"{name}: the domain of an operator", node.domain)
        for text in (*node.input, *node.output):
            check_name(f"{name}: a value", text)
    for value in (*graph.input, *graph.output, *graph.initializer):
        check_name(f"{name}: a value", value.name)


def _check_opsets(proto: onnx.ModelProto, name: str) -> None:
    """Refuse opsets newer than the installed onnx, whose definitions may differ from those that it knows."""
    for domain, title in (("", "ai.onnx"), ("ai.onnx.ml", "ai.onnx.ml")):
        newest = max(schema.since_version for schema in _schemas() if schema.domain == domain)
        newest = defs.onnx_opset_version() if not domain else newest
        if (opset := opset_of(proto, domain)) > newest:
            raise UsageError(
                f"{name}: it declares opset {opset} of {title}, and the newest that onnx {onnx.__version__} defines is "
                f"{newest}: export the model with opset {newest} or older, or install a newer onnx if there is one"
            )


@cache
def _schemas() -> list[defs.OpSchema]:
    return list(defs.get_all_schemas())


def _check_types(graph: onnx.GraphProto, name: str) -> None:
    """Refuse tensors without an element type or of an unsupported one: TVM aborts the process at 8-bit floats."""
    untyped = [
        *(f"the input '{v.name}'" for v in graph.input if _is_untyped(v)),
        *(f"the weight '{tensor.name}'" for tensor in graph.initializer if not tensor.data_type),
    ]
    if untyped:
        raise UsageError(f"{name}: not a valid ONNX model: {untyped[0]} has no element type")
    for value in (*graph.input, *graph.output, *graph.value_info):
        _check_type(f"'{value.name}'", value.type.tensor_type.elem_type)
    for tensor in graph.initializer:
        _check_type(f"the weight '{tensor.name}'", tensor.data_type)
    for node in nodes_within(graph):
        for attribute in node.attribute:
            if attribute.name in _TYPE_ATTRIBUTES and attribute.type == onnx.AttributeProto.INT:
                _check_type(f"{node.op_type} node '{name_of(node)}'", attribute.i)


def _check_defaults(graph: onnx.GraphProto, name: str) -> None:
    """Refuse initialisers that are also inputs with another type or shape: onnx's own error names neither of them."""
    weights = {tensor.name: tensor for tensor in graph.initializer}
    for value in graph.input:
        weight, ty = weights.get(value.name), value.type.tensor_type
        if weight is None or not ty.HasField("shape"):
            continue
        known = [dim.dim_value if dim.HasField("dim_value") else None for dim in ty.shape.dim]
        fits = len(known) == len(weight.dims) and all(
            size in (None, own) for size, own in zip(known, weight.dims, strict=True)
        )
        if not fits or ty.elem_type != weight.data_type:
            raise UsageError(
                f"{name}: not a valid ONNX model: the weight '{value.name}' is declared as an input of another type or "
                "shape"
            )


def _is_untyped(value: onnx.ValueInfoProto) -> bool:
    return value.type.WhichOneof("value") in (None, "tensor_type") and not value.type.tensor_type.elem_type


def _check_type(what: str, number: int) -> None:
    if number in _UNCOMPUTED:
        if number == onnx.TensorProto.STRING:
            raise ModelError(
                f"{what} is of string, which is not supported: export classifiers with numbers for their classes, or "
                "remove the output; encode features before the package"
            )
        kind = onnx.TensorProto.DataType.Name(number).lower()
        raise ModelError(f"{what} is of {kind}, which is not supported; make it float32, float16 or int8")


def _check_splits(graph: onnx.GraphProto, name: str) -> None:
    """Refuse an attribute num_outputs that exceeds the node's outputs: onnx's shape inference would create so many."""
    for node in nodes_within(graph):
        counts = [a.i for a in node.attribute if a.name == "num_outputs"]
        if node.op_type == "Split" and counts and counts[0] != len(node.output):
            raise UsageError(
                f"{name}: not a valid ONNX model: Split node '{name_of(node)}' has {len(node.output)} outputs, and its "
                f"attribute num_outputs is {counts[0]}"
            )


def _check_scales(graph: onnx.GraphProto, name: str) -> None:
    """Refuse infinite and NaN scales, as a quantiser writes them after it has seen a mask of -3.4e38."""
    floats = {t.name: t for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    for node in nodes_within(graph):
        if node.op_type.startswith("QLinear"):
            scales = list(node.input)
        else:
            scales = list(node.input[1:2]) if node.op_type in ("QuantizeLinear", "DequantizeLinear") else []
        if node.op_type == "QuantizeLinear" and scales[0] in floats:
            values = numpy_helper.to_array(floats[scales[0]])
            if (values == 0).any():
                raise UsageError(
                    f"{name}: QuantizeLinear node '{name_of(node)}' divides by the scale '{scales[0]}', which is 0: "
                    "quantise the model again, with samples for which the values at this node are not all 0"
                )
        for scale in scales:
            if scale in floats and not np.isfinite(numpy_helper.to_array(floats[scale])).all():
                raise UsageError(
                    f"{name}: {node.op_type} node '{name_of(node)}' has the scale '{scale}', which is not finite: "
                    "quantise the model again, with samples whose values at this node are"
                )


def _complete_types(graph: onnx.GraphProto) -> None:
    """Fill in types of inputs and outputs that onnx's checker requires and onnxruntime does not.

    Any type is accepted.
    """
    for value in (*graph.input, *graph.output):
        if value.type.WhichOneof("value") in (None, "tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    for value in graph.output:
        if value.type.WhichOneof("value") == "tensor_type" and not value.type.tensor_type.elem_type:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT


def name_contrib(proto: onnx.ModelProto) -> None:
    """Set onnxruntime's domain on operators of the standard domain that only onnxruntime knows."""
    opset = opset_of(proto)
    for node in proto.graph.node:
        if node.op_type in NORMS and not domain_of(node) and not _is_standard(node.op_type, opset):
            node.domain = CONTRIB
    domains = {entry.domain for entry in proto.opset_import}
    if CONTRIB not in domains and any(node.domain == CONTRIB for node in proto.graph.node):
        proto.opset_import.append(helper.make_opsetid(CONTRIB, 1))


def _is_standard(operator: str, opset: int) -> bool:
    return defs.has(operator, opset) and not defs.get_schema(operator, opset).deprecated


def runtime_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that a caller passes (older files list initialisers as inputs, too)."""
    weights = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def set_input_shapes(proto: onnx.ModelProto, shapes: Shapes) -> None:
    """Write static shapes into the model's inputs.

    Sizes that the model declares may be given others if it computes with them, as exporters declare those of their
    sample.

    Raises:
        UsageError: A shape is of no input or does not fit it, or inputs with dynamic dimensions have none.
    """
    inputs = {value.name: value for value in runtime_inputs(proto.graph)}
    refuse_unknown_inputs(shapes, inputs)
    dynamic: dict[str, list[int | str]] = {}
    other: list[UsageError] = []
    for name, value in inputs.items():
        if value.type.WhichOneof("value") not in (None, "tensor_type"):
            raise no_tensor("input", name)
        dims = value.type.tensor_type.shape.dim
        known = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
        if name in shapes:
            if value.type.tensor_type.HasField("shape"):
                other += _misfits(name, shapes[name], known)
            value.type.tensor_type.shape.CopyFrom(
                helper.make_tensor_type_proto(1, shapes[name]).tensor_type.shape
            )
            forget_shapes(proto.graph)
        elif None in known or not value.type.tensor_type.HasField("shape"):
            dynamic[name] = [
                dim.dim_param or "?" if n is None else n for dim, n in zip(dims, known, strict=True)
            ]
    refuse_dynamic_inputs(dynamic, partial(_fit, proto))
    if other and (reason := _contradiction(proto)):
        raise UsageError(
            f"{other[0]}, which it declares itself, and it does not compute with other sizes: {reason}"
        )


def no_tensor(what: str, name: str) -> ModelError:
    """Return the error for an input or output of another kind."""
    return ModelError(f"{what} '{name}' is no tensor: sequences and optional values are not supported")


def _fit(proto: onnx.ModelProto, shapes: Shapes) -> bool:
    """Whether the model's shapes are free of contradictions when its inputs have the given shapes."""
    model = without_weights(proto)
    try:
        set_input_shapes(model, shapes)
    except ArmExtError:
        return False
    return not _contradiction(model)


def _contradiction(proto: onnx.ModelProto) -> str:
    """Return how the shapes of a model contradict each other; "" if they do not."""
    try:
        fold_shapes(without_weights(proto), proto.graph.name)
    except ArmExtError as err:
        return str(err).partition("; if onnxruntime")[0]
    return ""


def _misfits(name: str, shape: tuple[int, ...], known: list[int | None]) -> list[UsageError]:
    """Return an error for a shape that differs from the model's declared sizes; [] if they agree.

    Raises:
        UsageError: The shape has another number of sizes, or one below 1.
    """
    refusal = misfit(name, shape, ",".join("?" if n is None else str(n) for n in known))
    # A model may itself declare a size of 0.
    if any(n < 1 and n not in known for n in shape):
        raise UsageError(f"{refusal}: sizes are 1 and more")
    if len(shape) != len(known):
        raise refusal
    return [] if all(k in (None, n) for k, n in zip(known, shape, strict=True)) else [refusal]


def unsupported_within(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return copies of the operators that cannot be imported, each with a name, including those in subgraphs."""
    found = []
    for node in _unsupported(nodes_within(graph)):
        if node.op_type in NORMS and not domain_of(node):  # see name_contrib
            continue
        named = onnx.NodeProto()
        named.CopyFrom(node)
        named.name = name_of(node)
        found.append(named)
    return found


def _unsupported(nodes: Iterable[onnx.NodeProto]) -> list[onnx.NodeProto]:
    known = onnx_frontend._get_convert_map()
    return [
        node
        for node in nodes
        if (domain_of(node) or node.op_type not in known)
        and (domain_of(node), node.op_type) not in EXPANSIONS
        and converter_of(node) is None
    ]


def supported(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """Return the names of all operators that can be imported: those of `nodes`, and of other domains."""
    candidates = list(nodes)
    missing = {qualified(node) for node in _unsupported(candidates)}
    known = {qualified(node) for node in candidates} - missing
    others = {(domain, name) for domain, name in (*EXPANSIONS, *CONVERTERS) if domain not in ("", OWN)}
    return sorted(known | {qualified(onnx.NodeProto(op_type=name, domain=domain)) for domain, name in others})


def check_supported(
    proto: onnx.ModelProto,
    refused: Mapping[str, str] = _NONE,
    sources: Mapping[str, str] = _NONE,
    whole: Sequence[onnx.NodeProto] = (),
) -> None:
    """Refuse operators that cannot be imported.

    Args:
        proto: The model.
        refused: Name of a node that could not be expanded → why.
        sources: Name of a node that came of an expansion → the source node's.
        whole: For a part of a model: what cannot be imported of the whole model, so that all is reported at
            once.

    Raises:
        ModelError: Lists all of them, with counts, node names, and what they can be decomposed into.
    """
    unsupported = _unsupported(proto.graph.node)
    if unsupported and not refused:
        refused = _refused_besides(proto)
    if unsupported:
        told = {qualified(node) for node in whole}
        unsupported = [*whole, *(node for node in unsupported if qualified(node) not in told)]
    missing: dict[str, list[str]] = {}
    advices: dict[str, str] = {}
    for node in unsupported:
        name = qualified(node)
        source = sources.get(node.name, node.name)
        missing.setdefault(name, []).append(source if source == node.name else f"{source} (is defined by it)")
        advices[name] = advice(domain_of(node), node.op_type)
    for node in proto.graph.node:
        if node.name in refused:
            source = sources.get(node.name, node.name)
            missing.setdefault(qualified(node), []).append(f"{source} ({refused[node.name]})")
    refuse_operators(
        missing, advices, "`arm-ext compile MODEL --save-node NAME` writes one for a bug report."
    )


def _refused_besides(proto: onnx.ModelProto) -> dict[str, str]:
    """Return why nodes could not be expanded (name → reason) in a model that also has unsupported operators."""
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    try:
        sources, refused = expand_operators(model, "")
    except ArmExtError:  # an error about shapes, which no longer matters
        return {}
    # Shapes after an unsupported node are unknown, so errors of later nodes that lack a shape are left out.
    return {name: why for name, why in refused.items() if name not in sources and UNKNOWN not in why}
