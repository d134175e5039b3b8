# SPDX-License-Identifier: Apache-2.0
"""Merging of separately built modules into one.

    {"a": {main, k}, "b": {main, k, l}}    →    {a, b, k, k_1, l}, or {a, b, k, l} if both k are equal

Each `main` is renamed to the name of its module. Other functions that are equal become one function; a different
function with the same name gets a new name. Equal constants become one constant, so that weights are stored once.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, count

from tvm import IRModule, relax, tirx
from tvm.ir import BaseFunc, Call, GlobalVar, Type
from tvm_ffi import structural_equal, structural_map

from relay_passes.canonicalize.merge_constants import merge_constants
from relay_passes.ir.sources import bindings_of, global_callees, relax_functions

MAIN = "main"
_SYMBOL = "global_symbol"


@dataclass(frozen=True)
class Merged:
    """The merged module, and how functions were renamed.

    Attributes:
        mod: The module with all functions.
        names: For each module, by name, the new name of each of its functions.
    """

    mod: IRModule
    names: dict[str, dict[str, str]]


def merge_modules(modules: Mapping[str, IRModule], reserved: Iterable[str] = ()) -> Merged:
    """Merge modules into one.

    Args:
        modules: The modules, by name. In each, only `main` is called from outside; other functions are called by Relax
            functions. If a module is named "main", its `main` remains the function to call from outside, and
            the `main` of each other module becomes private.
        reserved: Names that are not used, because they are needed for functions that are added later.
    """
    merger = _Merger((*modules, *reserved))
    names = {name: merger.add(name, mod) for name, mod in modules.items()}
    return Merged(merge_constants(merger.out), names)


def module_of(main: relax.Function, kernels: Mapping[GlobalVar, tirx.PrimFunc]) -> IRModule:
    """Return a module whose `main` is a function, with those of the kernels that it calls."""
    mod = IRModule(dict(kernels))
    # Without a type, `add_step` could not call it.
    symbol = GlobalVar(MAIN)
    relax.expr._update_type(symbol, main.ty)
    mod[symbol] = main.with_attr("global_symbol", MAIN)
    return relax.transform.DeadCodeElimination([MAIN])(mod) if kernels else mod


def add_functions(mod: IRModule, functions: Mapping[str, BaseFunc]) -> None:
    """Add functions to a module; their calls refer by name to each other and to functions of the module."""
    symbols = {gvar.name_hint: gvar for gvar in mod.get_global_vars()}
    for name, func in functions.items():
        symbols[name] = GlobalVar(name)
        relax.expr._update_type(symbols[name], func.ty)
    for name, func in functions.items():
        mod[symbols[name]] = structural_map(func, [(GlobalVar, lambda var: symbols[var.name_hint])])


class _Merger:
    """Merges modules into one module, one after the other."""

    def __init__(self, names: Iterable[str]) -> None:
        self.out = IRModule()
        self._functions: dict[str, BaseFunc | None] = dict.fromkeys(names)
        self._symbols: dict[str, GlobalVar] = {}

    def add(self, module: str, mod: IRModule) -> dict[str, str]:
        """Add a module; return the new name of each of its functions, by the old name."""
        names: dict[str, str] = {}
        for old in _callees_first(mod):
            func, ty = mod[old], mod.get_global_var(old).ty
            if old == MAIN:
                names[old] = self._symbol(module, ty)
            elif old in _callees(func):
                # A recursive function is never shared, since its body contains its name.
                names[old] = self._symbol(self._free(old, None, set(names.values())), ty)
            func = self._renamed(func, names)
            if old not in names:
                names[old] = self._symbol(self._free(old, func, set(names.values())), ty)
            if self._functions.get(names[old]) is None:
                self._functions[names[old]] = func
                self.out[self._symbols[names[old]]] = _marked(func, names[old])
        return names

    def _symbol(self, name: str, ty: Type) -> str:
        if name not in self._symbols:
            self._symbols[name] = GlobalVar(name)
            relax.expr._update_type(self._symbols[name], ty)
        return name

    def _renamed(self, func: BaseFunc, names: Mapping[str, str]) -> BaseFunc:
        def new(symbol: GlobalVar) -> GlobalVar:
            return self._symbols[names[symbol.name_hint]]

        return structural_map(func, [(GlobalVar, new)]) if isinstance(func, relax.Function) else func

    def _free(self, name: str, func: BaseFunc | None, own: Collection[str]) -> str:
        """Return `name` if it is free or the name of an equal function; else a new name."""
        for each in chain([name], (f"{name}_{number}" for number in count(1))):
            known = self._functions.get(each)
            is_equal = known is not None and func is not None and structural_equal(known, func)
            if each not in own and (is_equal or each not in self._functions):
                return each
        raise AssertionError("numbers do not end")


def _marked(func: BaseFunc, name: str) -> BaseFunc:
    """Return a copy with the global symbol if it is `main`, which is called from outside, else without it.

    A PrimFunc is returned unchanged.
    """
    if not isinstance(func, relax.Function):
        return func
    return func.with_attr(_SYMBOL, name) if name == MAIN else func.without_attr(_SYMBOL)


def _callees(func: BaseFunc) -> list[str]:
    if not isinstance(func, relax.Function):
        return []
    calls = (binding.value for binding in bindings_of(func) if isinstance(binding.value, Call))
    return [name for call in calls for name in global_callees(call)]


def _callees_first(mod: IRModule) -> list[str]:
    """Return the names of the functions, each after the functions that it calls."""
    calls = {gvar.name_hint: _callees(func) for gvar, func in relax_functions(mod)}
    begun: set[str] = set()
    done: list[str] = []

    def visit(name: str) -> None:
        if name in begun:
            return
        begun.add(name)
        for callee in calls.get(name, ()):
            visit(callee)
        done.append(name)

    for gvar in sorted(mod.get_global_vars(), key=lambda gvar: str(gvar.name_hint)):
        visit(str(gvar.name_hint))
    return done
