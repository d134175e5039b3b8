# SPDX-License-Identifier: Apache-2.0
"""Outlining: parts of `main` become private functions.

    a = f(x); b = g(a); c = h(b)    →    b = fallback_0(x); c = h(b), with fallback_0(x): a = f(x); return g(a)

Values inside of a part that `main` reads as well, such as the other half of a split, are computed in both. Exact: the
computation of each value does not change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import IRModule, relax
from tvm.ir import Call, Expr, TupleGetItem, TupleType, Var
from tvm.relax.analysis import free_vars
from tvm_ffi import structural_map

from relay_passes.ir.sources import bindings_of, sources_of, union, with_source


@dataclass(frozen=True)
class Part:
    """A part of `main` that becomes a function.

    Attributes:
        name: Name of the function.
        inner: Variables that the part computes.
        inputs: Variables from outside that the part reads; they become the function's parameters, in this order.
        outputs: Variables that the function returns.
    """

    name: str
    inner: frozenset[Var]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]


def outline(mod: IRModule, parts: Sequence[Part]) -> IRModule:
    """Move convex parts of `main` into functions; parts must not depend on each other cyclically.

    Args:
        mod: Module whose `main` is one dataflow block in A-normal form. Unused bindings are removed.
        parts: The parts; each output belongs to one part.

    Raises:
        ValueError: A part reads a variable that is not one of its inputs.
    """
    if not parts:
        return mod
    builder = relax.BlockBuilder(mod)
    main = mod["main"]
    calls = {}
    for part in parts:
        func = function_of(main, part)
        names = union(sources_of(b.value) for b in bindings_of(main) if b.var in part.inner)
        # Without the name as an attribute, equal parts would become one function.
        func = builder.normalize(func).with_attr("part", part.name)
        symbol = builder.add_func(func, part.name)
        calls[part.name] = with_source(Call(symbol, list(part.inputs), ret_ty=func.ret_ty), names)
    order = _BindingOrder(main, parts, calls)
    body = relax.SeqExpr([relax.DataflowBlock(order.bindings())], main.body.body)
    builder.update_func(
        mod.get_global_var("main"), relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    )
    return relax.transform.Normalize()(builder.get())


def function_of(main: relax.Function, part: Part) -> relax.Function:
    """Return the function of a part.

    Raises:
        ValueError: The part reads a value that is not among its inputs.
    """
    inside = [binding for binding in bindings_of(main) if binding.var in part.inner]
    copies = {var: Var(var.name, var.ty) for var in part.inputs}
    copies |= {b.var: relax.DataflowVar(b.var.name, b.var.ty) for b in inside}
    read = {var for binding in inside for var in free_vars(binding.value)}
    if missing := read - copies.keys():
        raise ValueError(f"{part.name} reads {', '.join(sorted(str(var.name) for var in missing))}")
    block = structural_map(relax.DataflowBlock(inside), [(Var, lambda var: copies.get(var, var))])
    results = [copies[var] for var in part.outputs]
    value = results[0] if len(results) == 1 else relax.Tuple(results)
    returned = Var("results", value.ty if len(results) == 1 else TupleType([var.ty for var in results]))
    block = relax.DataflowBlock([*block.bindings, relax.VarBinding(returned, value)])
    body = relax.SeqExpr([block], returned)
    return relax.Function([copies[var] for var in part.inputs], body, returned.ty)


class _BindingOrder:
    """The bindings of `main`, with each part replaced by one call, in an order of their dependencies."""

    def __init__(self, main: relax.Function, parts: Sequence[Part], calls: Mapping[str, Call]) -> None:
        self._calls = calls
        self._results = free_vars(main.body.body)
        self._values = {binding.var: binding for binding in bindings_of(main)}
        self._part = {var: part for part in parts for var in part.outputs}
        self._done: list[relax.Binding] = []
        self._bound: set[Var] = set()

    def bindings(self) -> list[relax.Binding]:
        """Return the bindings on which the results depend, in an order close to the original one."""
        needed = self._needed()
        for var in self._values:
            if var in needed:
                self._bind(var)
        return self._done

    def _needed(self) -> set[Var]:
        found: set[Var] = set()
        left = list(self._results)
        while left:
            var = left.pop()
            if var not in found and var in self._values:
                found.add(var)
                left.extend(self._read(var))
        return found

    def _read(self, var: Var) -> Sequence[Expr]:
        part = self._part.get(var)
        return free_vars(self._values[var].value) if part is None else part.inputs

    def _bind(self, var: Var) -> None:
        if var in self._bound or var not in self._values:
            return
        for read in self._read(var):
            self._bind(read)
        part = self._part.get(var)
        if part is None:
            self._done.append(self._values[var])
            self._bound.add(var)
        else:
            self._done += results_of(part, self._calls[part.name])
            self._bound.update(part.outputs)


def results_of(part: Part, call: Call) -> list[relax.Binding]:
    """Return the bindings of a part's outputs to the results of a call of its function."""
    if len(part.outputs) == 1:
        return [relax.VarBinding(part.outputs[0], call)]
    results = relax.DataflowVar(part.name, call.ty)
    items = [relax.VarBinding(var, TupleGetItem(results, i)) for i, var in enumerate(part.outputs)]
    return [relax.VarBinding(results, call), *items]
