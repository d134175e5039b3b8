# SPDX-License-Identifier: Apache-2.0
"""Rebuilding of a function in the chosen layouts; each conversion is emitted once, before its first use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import relax
from tvm.ir import Call, Expr, GenericConst, TupleGetItem, Var
from tvm.relax.analysis import free_vars
from tvm_ffi import structural_map

from relay_passes.ir.calls import BoundCall
from relay_passes.ir.sources import Names, sources_of, with_source
from relay_passes.layout.constants import Static, static_of
from relay_passes.layout.form import Form, LayoutStep
from relay_passes.layout.moves import Forms, Moved


@dataclass(frozen=True)
class LayoutPlan:
    """The layout decisions for a function.

    Attributes:
        forms: Channels-last form of each value that is computed at run time.
        moved: Channels-last versions of the calls to convert, by variable.
        statics: The values known at compile time, by variable; constants are emitted at their uses.
    """

    forms: Forms
    moved: Mapping[Var, Moved]
    statics: Mapping[Var, Static]


def emit(
    func: relax.Function, nodes: Sequence[BoundCall], plan: LayoutPlan
) -> tuple[relax.Function, set[Var]]:
    """Return the function in the chosen layouts, and the variables of `func` whose values it transposes."""
    return _LayoutWriter(func, nodes, plan).run()


class _LayoutWriter:
    def __init__(self, func: relax.Function, nodes: Sequence[BoundCall], plan: LayoutPlan) -> None:
        self._func, self._plan = func, plan
        self._nodes = {node.var: node for node in nodes}
        self._bindings: list[relax.Binding] = []
        self._builder = relax.BlockBuilder()
        # Emitted values in the model's layout, in channels-last form, tuples in channels-last form, and constants
        # by form.
        self._model: dict[Var, Var] = {param: param for param in func.params}
        self._moved: dict[Var, Var] = {}
        self._tuples: dict[Var, Var] = {}
        self._constants: dict[tuple[object, ...], Expr] = {}
        self._producers: dict[Var, Names] = {}
        self._transposed: set[Var] = set()

    def run(self) -> tuple[relax.Function, set[Var]]:
        func = self._func
        for binding in func.body.blocks[0].bindings:
            self._binding(binding)
        output = self._as_in_model(func.body.body, self._producers_of(func.body.body))
        result = {
            var: Var(var.name, var.ty) for var in free_vars(output) if isinstance(var, relax.DataflowVar)
        }
        block = relax.DataflowBlock(self._bindings)
        block, output = (
            structural_map(part, [(Var, lambda var: result.get(var, var))]) for part in (block, output)
        )
        new = relax.Function(func.params, relax.SeqExpr([block], output), func.ret_ty, func.is_pure)
        new = self._builder.normalize(new)
        return new.with_attrs(func.attrs) if func.attrs else new, self._transposed

    def _binding(self, binding: relax.Binding) -> None:
        var, value = binding.var, binding.value
        self._producers[var] = sources_of(value) or self._producers_of(value)
        if var in self._plan.statics:
            return
        if var in self._plan.moved:
            self._move(self._nodes[var], self._plan.moved[var])
        elif isinstance(value, TupleGetItem) and value.tuple_value in self._tuples:
            self._moved[var] = self._bind(
                var.name, TupleGetItem(self._tuples[value.tuple_value], value.index)
            )
        else:
            new = self._as_in_model(value, self._producers[var])
            cls = type(binding)
            rest = (binding.ty,) if isinstance(binding, relax.MatchCast) else ()
            self._bindings.append(cls(var, new, *rest))
            self._model[var] = var

    def _move(self, node: BoundCall, moved: Moved) -> None:
        names = sources_of(node.call)
        operands = [
            self._operand(value, need, names) for value, need in zip(node.operands, moved.needs, strict=True)
        ]
        new = moved.build(operands)
        var = new if isinstance(new, Var) else self._bind(node.var.name, with_source(new, names))
        if node.outputs[0][0] is None:
            self._moved[node.var] = var
        else:
            self._tuples[node.var] = var

    def _operand(self, value: Expr, need: Form | None, names: Names) -> Expr:
        static = static_of(value, self._plan.statics)
        if static is not None:
            return self._constant(value, static, need)
        return self._in_model(value, names) if need is None else self._in_form(value, names)

    def _constant(self, value: Expr, static: Static, need: Form | None) -> Expr:
        shape = static.data.shape
        form = need or Form.ordered(shape, range(len(shape)))
        if isinstance(value, GenericConst) and form.is_trivial and form.shape == shape:
            return value
        key = (value, form.physical, form.strides)
        if key not in self._constants:
            new = static.moved(form).expr()
            if isinstance(new, Call):
                new = self._bind(value.name, with_source(new, static.nodes))
            self._constants[key] = new
        return self._constants[key]

    def _in_form(self, var: Var, names: Names) -> Var:
        if var not in self._moved:
            self._moved[var] = self._convert(
                var, self._model[var], self._plan.forms[var].steps_in(), names, "nhwc"
            )
        return self._moved[var]

    def _in_model(self, var: Var, names: Names) -> Expr:
        if var in self._plan.statics:
            return self._constant(var, self._plan.statics[var], None)
        if var not in self._model:
            self._model[var] = self._convert(
                var, self._moved[var], self._plan.forms[var].steps_out(), names, "nchw"
            )
        return self._model[var]

    def _convert(self, var: Var, value: Var, steps: Sequence[LayoutStep], names: Names, suffix: str) -> Var:
        if not self._plan.forms[var].is_view:
            self._transposed.add(var)
        for step in steps:
            call = with_source(step.call(value), self._producers.get(var) or names)
            value = self._bind(f"{var.name}_{suffix}", call)
        return value

    def _as_in_model(self, value: Expr, names: Names) -> Expr:
        new = {var: self._in_model(var, names) for var in free_vars(value) if self._is_known(var)}
        return structural_map(value, [(Var, lambda var: new.get(var, var))])

    def _is_known(self, var: Var) -> bool:
        return var in self._plan.statics or var in self._model or var in self._moved

    def _producers_of(self, value: Expr) -> Names:
        return tuple(name for var in free_vars(value) for name in self._producers.get(var, ()))

    def _bind(self, name: str, value: Expr) -> Var:
        value = self._builder.normalize(value)
        var = relax.DataflowVar(name, value.ty)
        self._bindings.append(relax.VarBinding(var, value))
        return var
