# SPDX-License-Identifier: Apache-2.0
"""Control flow: a module is split into straight-line functions, which phases transform separately, and their callers.

    main(x): y = head(x); z = tail(y) if sure(y) else y    →    {head: main}, {sure: main}, {tail: main}, and main

Rewrites see neither branches nor loops, and move no code across them; values that cross have the model's layout and
dtype.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.ir import Call, GlobalVar

from relay_passes.ir.sources import Names, bindings_of, relax_functions, sources_of, union
from relay_passes.programs.merge_modules import MAIN, Merged, add_functions, merge_modules, module_of


@dataclass(frozen=True)
class SplitModule:
    """A module that is split into straight-line functions and the functions that branch and call.

    Attributes:
        pieces: Modules by name; each `main` is a straight-line function without calls of other pieces.
        control: The functions that have only calls, tuples and `if`, and other functions that these call.
    """

    pieces: dict[str, tvm.IRModule]
    control: dict[str, tvm.ir.BaseFunc]

    def join(self, pieces: Mapping[str, tvm.IRModule]) -> Merged:
        """Merge the pieces and the control functions into one module; each piece must have passed the same phases."""
        if not self.control:
            return Merged(pieces[MAIN], {})
        merged = merge_modules(pieces, reserved=self.control)
        add_functions(merged.mod, self.control)
        return merged

    def decisions(self) -> Iterator["Decision"]:
        """Yield the branches and loops in the order of the functions."""
        for name, func in self.control.items():
            for binding in bindings_of(func) if isinstance(func, relax.Function) else ():
                if not isinstance(binding.value, relax.If):
                    continue
                branches = (binding.value.true_branch, binding.value.false_branch)
                calls = [
                    b.value
                    for s in branches
                    for block in s.blocks
                    for b in block.bindings
                    if isinstance(b.value, Call)
                ]
                is_loop = any(str(getattr(call.op, "name_hint", "")) == name for call in calls)
                yield Decision(name, union(sources_of(call) for call in calls), is_loop)


@dataclass(frozen=True)
class Decision:
    """A branch or a loop whose condition is evaluated at run time.

    Attributes:
        function: Name of the function with the branch.
        sources: Source nodes of the functions that it calls.
        is_loop: Whether one of its branches calls the function recursively.
    """

    function: str
    sources: Names
    is_loop: bool


def split(mod: tvm.IRModule) -> SplitModule:
    """Split a module into straight-line functions and the functions that branch and call.

    Args:
        mod: Module as a front end returns it. Functions with control flow have only calls, tuples and `if`, in binding
            blocks that are no dataflow blocks; all types are fully known.
    """
    functions = dict(relax_functions(mod))
    symbols = {gvar.name_hint for gvar in functions}
    straight = {gvar: func for gvar, func in functions.items() if not _decides(func, symbols)}
    if not has_control_flow(mod):
        return SplitModule({MAIN: mod}, {})
    kernels = {gvar: func for gvar, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)}
    pieces = {gvar.name_hint: module_of(func, kernels) for gvar, func in straight.items()}
    control: dict[str, tvm.ir.BaseFunc] = {}
    for gvar, func in functions.items():
        if gvar not in straight:
            control[gvar.name_hint] = func
            for name in _callees(func):
                if isinstance(mod[name], tirx.PrimFunc):
                    control[name] = mod[name]
    return SplitModule(pieces, control)


def has_control_flow(mod: tvm.IRModule) -> bool:
    """Whether `main` branches or calls other functions (composites excluded)."""
    symbols = {
        gvar.name_hint
        for gvar, func in relax_functions(mod)
        if not (func.attrs and {"Composite", "Primitive"} & set(func.attrs.keys()))
    }
    return _decides(mod[MAIN], symbols)


def _decides(func: relax.Function, symbols: set[str]) -> bool:
    decides = any(isinstance(binding.value, relax.If) for binding in bindings_of(func))
    return decides or not symbols.isdisjoint(_callees(func))


def _callees(func: relax.Function) -> Iterator[str]:
    """Yield the names of the module's functions that a function calls."""
    for binding in bindings_of(func):
        if isinstance(binding.value, Call) and isinstance(binding.value.op, GlobalVar):
            yield str(binding.value.op.name_hint)
