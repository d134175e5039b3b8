# SPDX-License-Identifier: Apache-2.0
"""Relax functions for ONNX graphs with control flow: calls of straight-line parts, branches and loops."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx
import tvm
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper
from tvm import relax
from tvm.ir import Expr, Type, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)
from tvm_ffi import structural_equal

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.control_flow import SCALAR, Block, Callee, Rounds, call, chosen
from arm_ext.frontends.common.loops import row_writer
from arm_ext.frontends.onnx.check import runtime_inputs
from arm_ext.frontends.onnx.control import body_of
from arm_ext.frontends.onnx.partition import GraphCut, Surroundings, captures, reads, subgraphs
from arm_ext.frontends.onnx.while_loop import While, while_of
from relay_passes.programs.merge_modules import MAIN

_BRANCHES = {"then": "then_branch", "else": "else_branch"}


class Functions(Protocol):
    """The interface through which parts of a graph are added as functions."""

    def name(self, graph: GraphProto, source: str | None) -> dict[str, str]:
        """Name the nodes of a subgraph; return new name → source name if an expansion of `source` made the subgraph."""

    def symbol(self, node: str, role: str) -> str:
        """Return an unused name for a function."""

    def put(self, symbol: str, func: tvm.ir.BaseFunc) -> None:
        """Add a function."""

    def add_model(self, symbol: str, model: ModelProto, sources: Mapping[str, str]) -> Callee:
        """Import a model as a function."""


@dataclass(frozen=True)
class _Decision:
    """An If or a Loop, with the nodes that compute its condition, the condition, operands and captured values."""

    node: NodeProto
    setup: list[NodeProto]
    by: str
    given: list[str]
    captured: list[str]
    loop: While | None


class Composition:
    """Builds the Relax function of a graph with control flow, part by part."""

    def __init__(
        self, functions: Functions, symbol: str, model: ModelProto, sources: Mapping[str, str]
    ) -> None:
        """Read a model whose operators are expanded, as far as they can be."""
        self._functions, self._symbol = functions, symbol
        self._graph, self._sources = model.graph, dict(sources)
        self._surroundings = Surroundings(model)
        self._block = Block()
        self._values: dict[str, Expr] = {}
        self._types: dict[str, onnx.TypeProto] = {}

    def function(self, parts: GraphCut) -> relax.Function:
        """Build the Relax function of the graph from its parts."""
        inputs = runtime_inputs(self._graph)
        params = [Var(value.name, _relax_type(value.type)) for value in inputs]
        for value, param in zip(inputs, params, strict=True):
            self._know(value.name, param)
        decisions = [self._decision(node) for node in parts.decisions]
        outputs = [value.name for value in self._graph.output]
        captured = [name for d in decisions for name in d.captured]
        needed = self._surroundings.needed([*captured, *reads(parts.after)])
        given = [name for d in decisions for name in (d.by, *d.given)]
        self._part(
            "before", [*parts.before, *(n for d in decisions for n in d.setup)], [*needed, *given, *outputs]
        )
        for decision in decisions:
            results = self._if(decision) if decision.loop is None else self._loop(decision, decision.loop)
            for name, result in zip(decision.node.output, results, strict=False):
                self._know(name, result)
        self._part("after", parts.after, outputs)
        values = [self._value(name) for name in outputs]
        result = self._block.bind("outputs", values[0] if len(values) == 1 else relax.Tuple(values))
        func = relax.Function(params, self._block.end(result), result.ty, is_pure=False)
        func = func.with_attr("num_input", len(params))
        return func.with_attr("global_symbol", MAIN) if self._symbol == MAIN else func

    def _decision(self, node: NodeProto) -> _Decision:
        source = self._sources.get(node.name, node.name)
        for graph in subgraphs(node):
            self._sources |= self._functions.name(graph, self._sources.get(node.name))
        if node.op_type == "If":
            by = f"{node.name}/condition"
            setup = [helper.make_node("Squeeze", [node.input[0]], [by], by)]
            captured = [
                name for attribute in _BRANCHES.values() for name in captures(body_of(node, attribute))
            ]
            decision = _Decision(node, setup, by, [], captured, None)
        else:
            loop = while_of(node)
            given = list(loop.states.values())
            decision = _Decision(node, loop.setup, loop.go, given, captures(loop.body), loop)
            self._sources |= dict.fromkeys(loop.added, source)
        self._sources.update((new.name, source) for new in decision.setup)
        return decision

    def _know(self, name: str, value: Expr) -> None:
        """Record the Relax expression of an ONNX value, and its ONNX type; its shape must be static."""
        self._values[name], self._types[name] = value, _onnx_type(name, value.ty)

    def _value(self, name: str) -> Expr:
        if name in self._values:
            return self._values[name]
        if name not in self._surroundings.constants:
            raise ModelError(f"'{name}' is read, but no node computes it")
        array = numpy_helper.to_array(self._surroundings.constants[name])
        return relax.const(array, str(array.dtype))

    def _part(self, role: str, nodes: Sequence[NodeProto], wanted: Iterable[str]) -> None:
        """Import nodes as a function, and emit a call of it; do nothing if none of their values is used."""
        computed = {name for node in nodes for name in node.output} - self._surroundings.constants.keys()
        outputs = [name for name in dict.fromkeys(wanted) if name in computed]
        if not outputs:
            return
        symbol = self._functions.symbol(self._symbol, role)
        model = self._surroundings.model(nodes, outputs, self._types)
        callee = self._functions.add_model(symbol, model, self._sources)
        call = callee.call(self._values, [self._sources.get(n.name, n.name) for n in nodes])
        for name, value in zip(outputs, self._block.fields(symbol, call), strict=True):
            self._know(name, value)

    def _if(self, decision: _Decision) -> list[Var]:
        node = decision.node
        source = self._sources.get(node.name, node.name)
        types, branches = [], []
        for role, attribute in _BRANCHES.items():
            graph = body_of(node, attribute)
            outputs = [value.name for value in graph.output]
            model = self._surroundings.model(graph.node, outputs, self._types, graph)
            callee = self._functions.add_model(self._functions.symbol(node.name, role), model, self._sources)
            block = Block()
            branches.append(block.end(block.bind(callee.symbol, callee.call(self._values, [source]))))
            types.append(callee.ret_ty)
        if not structural_equal(*types):
            alike = (
                ", a size of which is 0, or known only when it runs" if str(types[0]) == str(types[1]) else ""
            )
            raise ModelError(
                f"If node '{source}' cannot be compiled: its branches give {types[0]} and {types[1]}{alike}; "
                "a compiled model has static shapes, so both must give the same type"
            )
        yes, no = branches
        choice = chosen(self._value(decision.by), yes, no, types[0])
        return self._block.fields(self._functions.symbol(node.name, "choice"), choice)

    def _loop(self, decision: _Decision, loop: While) -> list[Var]:
        node, source = decision.node, self._sources.get(decision.node.name, decision.node.name)
        initial = {inner: self._value(outer) for inner, outer in loop.states.items()}
        own = {loop.number: SCALAR["int64"], **{name: value.ty for name, value in initial.items()}}
        types = {**self._types, **{name: _onnx_type(name, ty) for name, ty in own.items()}}
        outputs = [value.name for value in loop.body.output]
        model = self._surroundings.model(loop.body.node, outputs, types, loop.body)
        body = self._functions.add_model(self._functions.symbol(node.name, "body"), model, self._sources)
        fixed = {name: self._values[name] for name in body.inputs if name not in own}
        wholes = [self._whole(node, ty) for ty in body.ret_ty.fields[2 + len(initial) :]]
        rounds = Rounds(
            self._functions.symbol(node.name, "loop"),
            source,
            body,
            {name: value.ty for name, value in initial.items()},
            {name: value.ty for name, value in fixed.items()},
            loop.number,
            tuple(whole.ty for whole, _ in wholes),
            tuple(writer for _, writer in wholes),
        )
        try:
            rounds.check()
        except ModelError as err:
            raise ModelError(f"Loop node '{source}' cannot be compiled: {err}") from err
        self._functions.put(rounds.symbol, func := rounds.function())
        zero = relax.const(np.array(0, np.int64), "int64")
        given = [self._value(decision.by), zero, *initial.values(), *fixed.values(), *(w for w, _ in wholes)]
        return self._block.fields(rounds.symbol, call(rounds.symbol, given, func.ret_ty, [source]))

    def _whole(self, node: NodeProto, row: relax.TensorType) -> tuple[Var, str]:
        """Allocate the tensor of a scan output's rows; return it, and the name of the kernel that writes one row."""
        rows = int(numpy_helper.to_array(self._surroundings.constants[node.input[0]]).reshape(()))
        shape, dtype = [int(dim) for dim in row.shape.values], str(row.dtype)
        symbol = self._functions.symbol(node.name, "write_row")
        self._functions.put(symbol, row_writer(rows, shape, dtype))
        allocation = R.builtin.alloc_tensor(relax.ShapeExpr([rows, *shape]), dtype, 0)
        return self._block.bind("whole", relax.BlockBuilder().normalize(allocation)), symbol


def _relax_type(held: onnx.TypeProto) -> relax.TensorType:
    tensor = held.tensor_type
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name
    return relax.TensorType([dim.dim_value for dim in tensor.shape.dim], dtype)


def _onnx_type(name: str, ty: Type) -> onnx.TypeProto:
    """Return the ONNX type of a value that is passed between two parts of the graph.

    Raises:
        ModelError: The value's type is not known at compile time.
    """
    dims = None if not isinstance(ty, relax.TensorType) or ty.shape is None else list(ty.shape.values)
    if dims is None or not all(isinstance(dim, tvm.tirx.IntImm) for dim in dims):
        raise ModelError(
            f"'{name}', in a graph with control flow, has a shape that depends on the data: make the values that "
            "decide "
            "it constants (inputs by --value)"
        )
    element = helper.np_dtype_to_tensor_dtype(np.dtype(str(ty.dtype)))
    return helper.make_tensor_type_proto(element, [int(dim) for dim in dims])
