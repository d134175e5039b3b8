# SPDX-License-Identifier: Apache-2.0
"""Operators that onnx defines by others, and functions that a model defines itself, in place of their calls.

    Celu(x), alpha = 2    →    Mul(2, Elu(Div(x, 2)))

onnx's own definitions are taken, and onnx's own inliner.
"""

import onnx
import onnx.inliner
from onnx import FunctionProto, ModelProto, NodeProto, defs, helper

from arm_ext.errors import ModelError
from arm_ext.frontends.onnx_expansion import Expansion, domain_of
from arm_ext.frontends.onnx_subgraphs import renamed

# A name for the definition of one node, which may depend on what the node is given.
_DOMAIN = "arm_ext.definition"


def inline_model_functions(model: ModelProto) -> ModelProto:
    """Return the model without functions of its own."""
    return onnx.inliner.inline_local_functions(model) if model.functions else model


def inline(e: Expansion) -> None:
    """Replace a node by the definition of its operator.

    Raises:
        ModelError: onnx has no definition of it for inputs like these.
    """
    node = e.node
    function = _definition(e)
    function.domain = _DOMAIN
    call = NodeProto()
    call.CopyFrom(node)
    call.domain = _DOMAIN
    given = {attribute.name for attribute in node.attribute}
    schema = defs.get_schema(node.op_type, e.opset(), domain_of(node))
    # A definition refers to attributes by name, and leaves their defaults to the schema.
    call.attribute.extend(
        a.default_value for name, a in schema.attributes.items() if name not in given and a.default_value.name
    )
    inputs = [e.declared(name) for name in dict.fromkeys(node.input) if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    opsets = [*function.opset_import, helper.make_opsetid(_DOMAIN, 1)]
    single = helper.make_model(
        helper.make_graph([call], "definition", inputs, outputs), functions=[function], opset_imports=opsets
    )
    body = onnx.inliner.inline_local_functions(single).graph.node
    outer = {name for name in (*node.input, *node.output) if name}
    names = {name: name for name in outer}
    for part in body:
        e.adopt(renamed(part, e, names))


def _definition(e: Expansion) -> FunctionProto:
    node, version = e.node, e.opset()
    schema = defs.get_schema(node.op_type, version, domain_of(node))
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= version]
        body = schema.get_function_with_opset_version(max(versions)) if versions else b""
    else:
        types = [_type(e, name).SerializeToString() for name in node.input]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        body = (
            schema.get_context_dependent_function_with_opset_version(
                max(versions), node.SerializeToString(), types
            )
            if versions
            else b""
        )
    if not body:
        raise ModelError("onnx does not define it by other operators for inputs and attributes like these")
    return FunctionProto.FromString(body)


def _type(e: Expansion, name: str) -> onnx.TypeProto:
    return e.declared(name).type if name else onnx.TypeProto()
