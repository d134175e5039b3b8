# SPDX-License-Identifier: Apache-2.0
"""Source names: the nodes of the user's model from which a Relax call was created.

The names are stored in the span of the call: `Span(SourceName(node))` for one name, a `SequentialSpan` for several.
Spans do not affect structural equality, so that naming calls does not change the meaning of a module.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from tvm import IRModule, relax
from tvm.ir import Call, Expr, GlobalVar, SequentialSpan, SourceName, Span, Var
from tvm_ffi import structural_map, structural_walk

Names = tuple[str, ...]

# Prefixes of the names of operators that lowering adds, and whose calls need no source node.
_MACHINERY = ("relax.builtin.", "relax.memory.", "relax.vm.", "relax.null_value")


def union(names: Iterable[Names]) -> Names:
    """Return all names once, in order of first appearance."""
    return tuple(dict.fromkeys(name for group in names for name in group))


def sources_of(expr: Expr) -> Names:
    """Return the source names of an expression; empty if it has none."""
    span = getattr(expr, "span", None)
    if span is None:
        return ()
    spans = span.spans[:] if isinstance(span, SequentialSpan) else [span]
    # TVMScript sets other spans, with a file and a line from 1.
    return tuple(dict.fromkeys(s.source_name.name for s in spans if s.line == 0))


def with_source(call: Call, names: Iterable[str]) -> Call:
    """Return a copy of a call, with the same type, whose source names are `names`."""
    spans = [Span(SourceName(name), 0, 0, 0, 0) for name in dict.fromkeys(names)]
    span = None if not spans else spans[0] if len(spans) == 1 else SequentialSpan(spans)
    return Call(call.op, call.args, call.attrs, call.ty_args, span, call.ty)


def relax_functions(mod: IRModule) -> list[tuple[GlobalVar, relax.Function]]:
    """Return the Relax functions of `mod` with their GlobalVars, sorted by name."""
    items = [(gv, f) for gv, f in mod.functions_items() if isinstance(f, relax.Function)]
    return sorted(items, key=lambda item: str(item[0].name_hint))


def bindings_of(func: relax.Function) -> list[relax.Binding]:
    """Return all bindings of `func` in program order; the branches of an `if` come before the `if` itself."""
    found: list[relax.Binding] = []
    structural_walk(func, [((relax.VarBinding, relax.MatchCast), found.append)])
    return found


def map_calls(func: relax.Function, change: Callable[[Var, Call], Call]) -> relax.Function:
    """Return a copy of a function in which each bound call is replaced by `change(variable, call)`."""
    return structural_map(func, [(relax.VarBinding, lambda binding: _changed(binding, change))])


def _changed(binding: relax.VarBinding, change: Callable[[Var, Call], Call]) -> relax.VarBinding:
    if not isinstance(binding.value, Call):
        return binding
    return relax.VarBinding(binding.var, change(binding.var, binding.value), binding.span)


def name_bindings(func: relax.Function, names: Mapping[Var, str | Iterable[str]]) -> relax.Function:
    """Return a copy of a function in which calls have source names, and their variables are named after these.

    Later phases print the variable names ("conv1", "conv1_1"). If a TVM pass replaces a variable, its name identifies
    the value, which `lv7` would not, because passes generate such names.

    Args:
        func: A function in A-normal form, as all importers return it.
        names: The source node, or several, of each bound variable.
    """
    sources = {var: (name,) if isinstance(name, str) else tuple(name) for var, name in names.items() if name}
    bound = [b.var for b in bindings_of(func)]
    # Variables that are not in `names` keep their names.
    taken = {str(var.name) for var in (*func.params, *bound) if var not in sources}
    renamed: dict[Var, Var] = {}
    for old in bound:
        if old in sources:
            name = next(n for n in _numbered(identifier(sources[old][0])) if n not in taken)
            taken.add(name)
            renamed[old] = type(old)(name, old.ty, old.span)
    by_new = {renamed[old]: group for old, group in sources.items() if old in renamed}
    func = structural_map(func, [(Var, lambda var: renamed.get(var, var))])
    return map_calls(func, lambda var, call: with_source(call, by_new[var]) if var in by_new else call)


def unnamed_calls(mod: IRModule) -> list[str]:
    """Return every call without a source name, as "function: variable = operator".

    Calls that lowering adds (allocation, shape and VM builtins) need no source name.
    """
    return [
        f"{gv.name_hint}: {binding.var.name} = {_callee(binding.value)}"
        for gv, func in relax_functions(mod)
        for binding in bindings_of(func)
        if isinstance(binding.value, Call)
        and not sources_of(binding.value)
        and not _callee(binding.value).startswith(_MACHINERY)
    ]


def function_sources(mod: IRModule) -> dict[str, Names]:
    """Return, for each called function, the source nodes of its body and of all its calls.

    Equal groups share one function after FuseOps, and equal calls one PrimFunc after LegalizeOps: the result has the
    names of all of them. FuseTIR inlines the functions that a group calls, so that they only count for the group; the
    result is the same before and after FuseTIR.
    """
    found: dict[str, list[Names]] = {str(gv.name_hint): [] for gv in mod.get_global_vars()}
    called: set[str] = set()
    for gv, func in relax_functions(mod):
        for binding in bindings_of(func):
            if not isinstance(binding.value, Call):
                continue
            names = sources_of(binding.value)
            found[str(gv.name_hint)].append(names)
            if func.attrs and "Primitive" in func.attrs:
                continue
            for callee in global_callees(binding.value):
                called.add(callee)
                found[callee].append(names)
    return {name: union(found[name]) for name in sorted(called)}


def global_callees(call: Call) -> list[str]:
    """Return the names of the functions that `call` refers to, as its callee or as an argument of call_tir."""
    return [str(e.name_hint) for e in (call.op, *call.args) if isinstance(e, GlobalVar)]


def _callee(call: Call) -> str:
    callees = global_callees(call)
    return callees[0] if callees else str(getattr(call.op, "name", None) or call.op)


def identifier(name: str) -> str:
    """Return an identifier that resembles the name of a source node."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return word if word and not word[0].isdigit() else f"n_{word}"


def _numbered(name: str) -> Iterator[str]:
    yield name
    count = 1
    while True:
        yield f"{name}_{count}"
        count += 1
