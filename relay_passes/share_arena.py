# SPDX-License-Identifier: Apache-2.0
"""Functions of which one runs at a time ask for arenas of one size.

    f: alloc_storage(64), g: alloc_storage(256)    →    f: alloc_storage(256), g: alloc_storage(256)

The runtime keeps what a function gives back for those that want as much, and would keep one for each.
"""

from collections.abc import Sequence

from tvm import IRModule, relax
from tvm.ir import Call
from tvm_ffi import structural_map

from relay_passes.sources import bindings_of

_ALLOC_STORAGE = "relax.memory.alloc_storage"


def share_arena(mod: IRModule, names: Sequence[str]) -> IRModule:
    """Give the arenas of functions the size of the largest.

    Args:
        mod: As `plan_arena` returns it: a function has one storage at most.
        names: Functions of `mod`.
    """
    calls = [b.value for name in names for b in bindings_of(mod[name]) if _is_storage(b.value)]
    largest = max((int(call.args[0].values[0]) for call in calls), default=0)

    def grown(call: Call) -> Call:
        if not _is_storage(call):
            return call
        args = [relax.ShapeExpr([largest]), *list(call.args)[1:]]
        return Call(call.op, args, call.attrs, call.ty_args, call.span, ret_ty=call.ty)

    out = mod.clone()
    for name in names:
        out.update_func(mod.get_global_var(name), structural_map(mod[name], [(Call, grown)]))
    return out


def _is_storage(value: object) -> bool:
    return isinstance(value, Call) and getattr(value.op, "name", "") == _ALLOC_STORAGE
