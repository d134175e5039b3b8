# SPDX-License-Identifier: Apache-2.0
"""Inlining of operators that onnx defines as functions, and of functions that a model defines itself.

    Celu(x), alpha = 2    →    Mul(2, Elu(Div(x, 2)))

onnx's own definitions are taken, and onnx's own inliner.
"""

import onnx
import onnx.inliner
from onnx import FunctionProto, ModelProto, NodeProto, defs, helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion, domain_of
from arm_ext.frontends.onnx.nesting_limits import refusing_deep_messages
from arm_ext.frontends.onnx.subgraph_nodes import name_of, nodes_inside
from arm_ext.frontends.onnx.subgraphs import renamed
from arm_ext.frontends.onnx.weights import change_without_weights

# Domain of functions that define a single node, since a definition may depend on the node's inputs and attributes.
_DOMAIN = "arm_ext.definition"


def inline_model_functions(model: ModelProto) -> None:
    """Inline a model's own functions at their calls.

    Raises:
        ModelError: The branches and loops of their bodies would be nested too deep, or a call is not as its function
            is declared.
    """
    if model.functions:
        _check_calls(model)
        with refusing_deep_messages():
            change_without_weights(model, onnx.inliner.inline_local_functions)


def _check_calls(model: ModelProto) -> None:
    """Refuse calls that do not match the function's declaration: onnx's inliner fails or leaves values undefined."""
    functions = {(function.domain, function.name): function for function in model.functions}
    graphs = [model.graph.node, *(function.node for function in model.functions)]
    for node in (node for nodes in graphs for each in nodes for node in (each, *nodes_inside(each))):
        function = functions.get((domain_of(node), node.op_type))
        if function is None:
            continue
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise ModelError(
                f"node '{name_of(node)}' calls the function '{function.name}' with {len(node.input)} inputs and "
                f"{len(node.output)} outputs, and it has {len(function.input)} and {len(function.output)}"
            )
        made = {*function.input, *(name for inner in function.node for name in inner.output)}
        if open_ones := [name for name in function.output if name not in made]:
            raise ModelError(f"the function '{function.name}' does not compute its output '{open_ones[0]}'")


def inline(e: Expansion) -> None:
    """Replace a node by the definition of its operator.

    Raises:
        ModelError: onnx has no definition of it for inputs like these.
    """
    node = e.node
    schema = defs.get_schema(node.op_type, e.opset(), domain_of(node))
    function = _definition(e, schema)
    function.domain = _DOMAIN
    call = NodeProto()
    call.CopyFrom(node)
    call.domain = _DOMAIN
    given = {attribute.name for attribute in node.attribute}
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


def _definition(e: Expansion, schema: defs.OpSchema) -> FunctionProto:
    by_context = not schema.has_function
    versions = (
        schema.context_dependent_function_opset_versions if by_context else schema.function_opset_versions
    )
    version = max((v for v in versions if v <= e.opset()), default=None)
    if version is None:
        body = b""
    elif by_context:
        types = [_type(e, name).SerializeToString() for name in e.node.input]
        body = schema.get_context_dependent_function_with_opset_version(
            version, e.node.SerializeToString(), types
        )
    else:
        body = schema.get_function_with_opset_version(version)
    if not body:
        raise ModelError("onnx does not define it by other operators for inputs and attributes like these")
    return FunctionProto.FromString(body)


def _type(e: Expansion, name: str) -> onnx.TypeProto:
    return e.declared(name).type if name else onnx.TypeProto()
