# SPDX-License-Identifier: Apache-2.0
"""Straight-line ONNX through TVM's importer, with the name of each source node on the calls that came from it."""

import contextlib
import io
import warnings
from collections.abc import Mapping
from typing import Any

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.naming import name_calls
from arm_ext.frontends.common.refuse import not_imported
from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.onnx.converters import converter_of
from arm_ext.frontends.onnx.expansion import domain_of, opset_of
from arm_ext.frontends.onnx.node import Node
from arm_ext.frontends.onnx.open_sizes import constants_read

_FEWER_OUTPUTS = "Missing outputs during conversion"
"""Part of the error of TVM's importer for an operator whose optional outputs it does not compute."""


class _NamingImporter(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, extended to record the last binding of each source node."""

    def __init__(self, sources: Mapping[str, str], model: onnx.ModelProto) -> None:
        super().__init__(shape_dict={}, dtype_dict="float32")
        self._model = model
        self.sources = sources
        self.converted = ""
        found = ((node, converter_of(node)) for node in model.graph.node)
        self.own = {node.name: (node, convert) for node, convert in found if convert is not None}
        self.last_binding: dict[relax.Var, str] = {}
        self.node = ""

    def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> relax.Expr:
        name = attrs["tvm_custom"]["name"]
        self.node, self.converted = self.sources.get(name, name), name
        result = self._by_own(name, list(inputs)) if name in self.own else None
        if result is None:
            result = super()._convert_operator(op_name, inputs, attrs, opset)
        # A converter may return an unbound call, which would be bound among the bindings of its consumer.
        if isinstance(result, relax.Call) and not isinstance(result.ty, relax.ShapeType):
            result = self.bb.emit(result)
        for value in result.fields if isinstance(result, relax.Tuple) else [result]:
            # A node that passes a value through, such as Identity, does not rename the value.
            if isinstance(value, relax.Var):
                self.last_binding.setdefault(value, self.node)
        return result

    def _by_own(self, name: str, inputs: list[relax.Expr | None]) -> relax.Expr | None:
        """Convert a node by this package's converter; None if it declines, so that TVM's importer converts the node."""
        proto, convert = self.own[name]
        graph = Graph(self.bb)
        found = convert(Node(graph, proto, inputs, opset_of(self._model, domain_of(proto))))
        if isinstance(found, Value):
            return found.full
        return relax.Tuple([each.full for each in found]) if isinstance(found, list | tuple) else found

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """Check nothing: `check_supported` has already run, and it also knows the operators that are converted here."""


def convert(proto: onnx.ModelProto, sources: Mapping[str, str], operators: Mapping[str, str]) -> tvm.IRModule:
    """Import a model whose operators are all known to TVM's importer or to `converter_of`.

    Args:
        proto: Model whose nodes have names.
        sources: Expanded node → its source.
        operators: Source → its operator.

    Raises:
        ModelError: TVM's importer fails at a node.
    """
    importer = _NamingImporter(sources, proto)
    try:
        # Upstream prints the failing node to stdout, which is reserved for results, and warns of renamed inputs.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mod = importer.from_onnx(proto.graph, opset_of(proto))
    except UsageError:  # raised by a plugin's converter
        raise
    except Exception as err:
        reason = _reason(proto, importer.converted, str(err))
        raise not_imported(importer.node, operators, reason or err) from err
    mod["main"] = name_calls(mod["main"], importer.last_binding)
    return mod


def _reason(proto: onnx.ModelProto, name: str, said: str) -> str:
    """Return why TVM's importer fails at a node, in terms of the model; "" if the cause is unknown."""
    node = next((node for node in proto.graph.node if node.name == name), None)
    if node is None or domain_of(node):
        return ""
    if _FEWER_OUTPUTS in said:
        return f"its output '{node.output[-1]}' is not supported, only '{node.output[0]}'"
    constants = {tensor.name for tensor in proto.graph.initializer}
    constants |= {name for node in proto.graph.node if node.op_type == "Constant" for name in node.output}
    unknown = next((name for name in constants_read(node, opset_of(proto)) if name not in constants), None)
    if unknown is None:
        return ""
    return (
        f"its input '{unknown}' is computed at run time: make the values that decide it constants "
        "(inputs by --value)"
    )
