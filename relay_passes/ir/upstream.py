# SPDX-License-Identifier: Apache-2.0
"""Running of TVM's passes, and restoring of the source names that they lose.

What is left of a named value after a pass, in the order of the search, and where its names are from:

    the call with its span      most rewrites              the span
    a call of a new function    FuseOps                    the names of the calls in the function
    the variable                LegalizeOps, FuseTIR       the names of the variable's call before the pass
    the variable's name         ConvertLayout              likewise, unless passes generate such names
    nothing                     CallTIRRewrite             the names of the tensor that the call writes, its last
    operand
                                an inserted transpose      the names of its first consumer, else of its producer
"""

import re
from collections.abc import Hashable, Mapping
from functools import partial

from tvm import IRModule, relax
from tvm.ir import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from tvm.ir.transform import Pass
from tvm.relax.analysis import free_vars
from tvm_ffi import StructuralKey

from relay_passes.ir.sources import (
    Names,
    bindings_of,
    map_calls,
    name_bindings,
    relax_functions,
    sources_of,
    union,
    with_source,
)

# Names that Relax's BlockBuilder generates for new variables, which do not identify a value of the model.
_GENERATED = re.compile(r"(lv|gv)\d*(_\d+)?")

_NamesOf = dict[Var, Names]


def run_upstream(mod: IRModule, pass_: Pass) -> IRModule:
    """Run `pass_`, and give source names to all calls that it leaves without.

    Args:
        mod: Module whose Relax functions are in A-normal form and their calls named.
        pass_: A pass of TVM, run in the caller's target and pass context.

    Returns:
        The module after the pass. A call has no source name only if no producer or consumer of it has one.
    """
    by_var: _NamesOf = {}
    by_name: dict[tuple[str, str], Names] = {}
    for gv, func in relax_functions(mod):
        for b in bindings_of(func):
            # An alias, a tuple or a tuple item may be replaced by the call itself.
            by_var[b.var] = sources_of(b.value) or union(by_var.get(v, ()) for v in free_vars(b.value))
            if not _is_generated(b):
                by_name[gv.name_hint, b.var.name] = by_var[b.var]
    out = pass_(mod).clone()
    by_group = _names_of_groups(mod, out)
    for gv, func in relax_functions(out):
        bindings = bindings_of(func)
        names: _NamesOf = {}
        for b in bindings:
            kept = sources_of(b.value), by_group.get(b.var), by_var.get(b.var)
            found = (*kept, by_name.get((gv.name_hint, b.var.name)))
            names[b.var] = next(filter(None, found), ())
        _spread(bindings, names)
        func = map_calls(func, partial(_named, names))
        # Rename the variables that this pass created, so that after the next pass they are not considered new.
        out.update_func(gv, name_bindings(func, {b.var: names[b.var] for b in bindings if _is_generated(b)}))
    return out


def _is_generated(binding: relax.Binding) -> bool:
    return _GENERATED.fullmatch(binding.var.name) is not None


def name_equals(mod: IRModule) -> IRModule:
    """Give calls that compute equal values the source names of all of them, before a pass that merges them."""
    out = mod.clone()
    for gv, func in relax_functions(mod):
        values = _Values()
        numbers = values.learn(gv.name_hint, func)
        names = {var: values.names(number) for var, number in numbers.items()}
        out.update_func(gv, map_calls(func, partial(_renamed, names)))
    return out


def _renamed(names: _NamesOf, var: Var, call: Call) -> Call:
    return with_source(call, names[var])


def _named(names: _NamesOf, var: Var, call: Call) -> Call:
    return call if sources_of(call) else with_source(call, names[var])


def _spread(bindings: list[relax.Binding], names: _NamesOf) -> None:
    """Give calls without source names those of their first consumer, else those of their operands."""
    if all(names[b.var] for b in bindings):
        return
    consumer: _NamesOf = {}
    for b in reversed(bindings):
        names[b.var] = names[b.var] or consumer.get(b.var, ())
        for operand in free_vars(b.value):
            consumer[operand] = names[b.var] or consumer.get(operand, ())
    for b in bindings:
        names[b.var] = names[b.var] or _of_operands(b, names)


def _of_operands(binding: relax.Binding, names: _NamesOf) -> Names:
    """Return the source names of a call's operands; for a call without result, those of the tensor that it writes."""
    value = binding.value
    if isinstance(value, Call) and isinstance(binding.var.ty, relax.TupleType) and not binding.var.ty.fields:
        named = (names.get(operand) for operand in reversed(value.args) if isinstance(operand, Var))
        return next(filter(None, named), ())
    return union(names.get(operand, ()) for operand in free_vars(value))


def _names_of_groups(before: IRModule, after: IRModule) -> _NamesOf:
    """Return a function that returns the source names in the body of a called function that is new in `after`."""
    old = {gv.name_hint for gv in before.get_global_vars()}
    groups = {gv.name_hint: func for gv, func in relax_functions(after) if gv.name_hint not in old}
    if not groups:
        return {}
    values = _Values()
    for gv, func in relax_functions(before):
        values.learn(gv.name_hint, func)
    found: _NamesOf = {}
    for gv, func in relax_functions(after):
        if gv.name_hint in old:
            values.trace(func, values.parameters(gv.name_hint, func), groups, found)
    return found


class _Values:
    """Value numbering across two modules: equal calls on values of equal numbers have equal numbers."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._fields: dict[int, tuple[int, ...]] = {}
        self._names: dict[int, Names] = {}

    def learn(self, name: str, func: relax.Function) -> dict[Var, int]:
        """Record the source names of all values of function `name`; return the value numbers of its variables."""
        scope = dict(zip(func.params, self.parameters(name, func), strict=True))
        for b in bindings_of(func):
            number = scope[b.var] = self._number_of(b.value, scope)
            self._names[number] = union((self.names(number), sources_of(b.value)))
        return scope

    def names(self, number: int) -> Names:
        return self._names.get(number, ())

    def parameters(self, name: str, func: relax.Function) -> list[int]:
        return [self._number(("parameter", name, index)) for index in range(len(func.params))]

    def trace(
        self, func: relax.Function, args: list[int], groups: Mapping[str, relax.Function], found: _NamesOf
    ) -> tuple[int, Names]:
        """Return (value number, all source names) of `func(args)`; add the source names of group calls to `found`."""
        scope = dict(zip(func.params, args, strict=True))
        inside: list[Names] = []
        for b in bindings_of(func):
            op = b.value.op if isinstance(b.value, Call) else None
            if isinstance(op, GlobalVar) and op.name_hint in groups:
                operands = [self._number_of(arg, scope) for arg in b.value.args]
                scope[b.var], names = self.trace(groups[op.name_hint], operands, groups, found)
                found[b.var] = names
            else:
                scope[b.var] = self._number_of(b.value, scope)
                names = self.names(scope[b.var])
            inside.append(names)
        return self._number_of(func.body.body, scope), union(inside)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _number_of(self, expr: Expr, scope: Mapping[Var, int]) -> int:
        match expr:
            case Var() if expr in scope:
                return scope[expr]
            case Tuple():
                fields = tuple(self._number_of(field, scope) for field in expr.fields)
                number = self._number(("tuple", fields))
                self._fields[number] = fields
                return number
            case TupleGetItem():
                number = self._number_of(expr.tuple_value, scope)
                fields = self._fields.get(number, ())
                return fields[expr.index] if fields else self._number(("item", number, expr.index))
            case Call():
                operands = tuple(self._number_of(operand, scope) for operand in (expr.op, *expr.args))
                return self._number(
                    ("call", operands, StructuralKey(expr.attrs), StructuralKey(expr.ty_args))
                )
            case GlobalVar():
                return self._number(("global", expr.name_hint))
            case _:
                return self._number(("leaf", StructuralKey(expr)))
