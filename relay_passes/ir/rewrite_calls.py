# SPDX-License-Identifier: Apache-2.0
"""Rewriting of all calls of a module that a predicate selects."""

from collections.abc import Callable

from tvm import IRModule, relax
from tvm.ir import Call, Expr

from relay_passes.ir.sources import bindings_of, map_calls, relax_functions
from relay_passes.ir.upstream import run_upstream


def rewrite_calls(mod: IRModule, picked: Callable[[Expr], bool], change: Callable[[Call], Call]) -> IRModule:
    """Replace the selected calls; return the module itself if no call is selected.

    Args:
        mod: Module whose Relax functions are in A-normal form.
        picked: Whether a value is such a call.
        change: Returns the replacement; calls inside it may have their own sources.
    """
    changed = {gv: f for gv, f in relax_functions(mod) if any(picked(b.value) for b in bindings_of(f))}
    if not changed:
        return mod
    out = mod.clone()
    for gv, func in changed.items():
        out.update_func(gv, map_calls(func, lambda _, call: change(call) if picked(call) else call))
    return run_upstream(out, relax.transform.Normalize())
