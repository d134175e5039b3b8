# SPDX-License-Identifier: Apache-2.0
"""Rewriting of all calls of a module that satisfy a predicate."""

from collections.abc import Callable

from tvm import IRModule, relax
from tvm.ir import Call, Expr

from relay_passes.ir.sources import bindings_of, map_calls, relax_functions
from relay_passes.ir.upstream import run_upstream


def rewrite_calls(mod: IRModule, picked: Callable[[Expr], bool], change: Callable[[Call], Call]) -> IRModule:
    """Replace the calls that satisfy `picked`; return the module itself if there are none.

    Args:
        mod: Module whose Relax functions are in A-normal form.
        picked: Whether a value is a call to replace.
        change: Returns the replacement of a call; nested calls in it may have other source names.
    """
    changed = {gv: f for gv, f in relax_functions(mod) if any(picked(b.value) for b in bindings_of(f))}
    if not changed:
        return mod
    out = mod.clone()
    for gv, func in changed.items():
        out.update_func(gv, map_calls(func, lambda _, call: change(call) if picked(call) else call))
    return run_upstream(out, relax.transform.Normalize())
