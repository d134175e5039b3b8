# SPDX-License-Identifier: Apache-2.0
"""The numerics of each kernel, for reports: `qdq`, `tosa`, float, or integers."""

from collections.abc import Iterable, Mapping

import tvm
from tvm import relax
from tvm.relax.analysis import free_vars

from relay_passes.ir.sources import bindings_of, global_callees, relax_functions


def numerics_of(mod: tvm.IRModule) -> dict[str, str]:
    """Return, for each function that `main` calls and that has routines of a numerics, the numerics' name."""
    found = {
        gvar.name_hint: str(func.attrs["numerics"]).split(".")[0]
        for gvar, func in mod.functions_items()
        if func.attrs and "numerics" in func.attrs
    }
    for gvar, func in relax_functions(mod):
        if func.attrs and "Primitive" in func.attrs:
            calls = (b.value for b in bindings_of(func) if isinstance(b.value, relax.Call))
            for callee in (name for call in calls for name in global_callees(call) if name in found):
                found[gvar.name_hint] = found[callee]
    return found


def numerics_of_calls(callers: Iterable[relax.Function], routines: Mapping[str, str]) -> dict[str, str]:
    """Return the numerics of each kernel, joined with "float" if the kernel reads or writes a float tensor."""
    found: dict[str, str] = {}
    for binding in (binding for func in callers for binding in bindings_of(func)):
        if not isinstance(binding.value, relax.Call):
            continue
        tensors = [binding.var, *free_vars(binding.value)]
        is_float = any("float" in str(getattr(tensor.ty, "dtype", "")) for tensor in tensors)
        for symbol in global_callees(binding.value):
            parts = [routines[symbol]] if symbol in routines else []
            found[symbol] = "+".join(dict.fromkeys(parts + ["float"] * is_float)) or "integer"
    return found
