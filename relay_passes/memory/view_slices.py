# SPDX-License-Identifier: Apache-2.0
"""Slices of consecutive elements become views of the sliced tensor.

    y = call_tir(slice, x)    →    y = memory.view(x, offset)

Examples are the outputs of a recurrent layer without its last states, and the halves of a tensor along its outermost
axis. Tensors that a function returns remain copies, and so do slices whose start is not aligned.
"""

from collections.abc import Mapping

import numpy as np
from tvm import IRModule, relax
from tvm.ir import Call, Expr, TupleGetItem, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)
from tvm_ffi import structural_map

from relay_passes.ir.calls import CALL_TIR, name_of
from relay_passes.ir.shapes import static_shape
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of, with_source
from relay_passes.memory.plan_arena import ALIGNMENT


def view_slices(mod: IRModule, first: str) -> IRModule:
    """Replace calls of PrimFuncs that copy consecutive elements of their argument.

    Args:
        mod: Module whose Relax functions call PrimFuncs by call_tir.
        first: Attribute of these PrimFuncs: the index of the first element.
    """
    out = mod.clone()
    for gv, func in relax_functions(mod):
        bound = {binding.var: binding.value for binding in bindings_of(func)}
        # Only computed tensors get views, because arguments may have any alignment. Returned tensors belong to the
        # caller.
        computed = {var for var, value in bound.items() if isinstance(value, Call)}
        returned = _returned(func.body.body, bound)

        def changed(
            binding: relax.VarBinding, computed: set[Var] = computed, returned: set[Var] = returned
        ) -> relax.VarBinding:
            # A variable outside of a dataflow block may be the result of a conditional.
            stays = binding.var in returned or not isinstance(binding.var, relax.DataflowVar)
            view = None if stays else _view(mod, first, binding.value, computed)
            return binding if view is None else relax.VarBinding(binding.var, view, binding.span)

        out.update_func(gv, structural_map(func, [(relax.VarBinding, changed)]))
    return out


def _returned(result: Expr, bound: Mapping[Var, Expr]) -> set[Var]:
    """Return the returned variables, and the variables of which a returned reshape may be a view."""
    found: set[Var] = set()
    left = [result]
    while left:
        expr = left.pop()
        if isinstance(expr, Var):
            found.add(expr)
            expr = bound.get(expr, expr)
        if isinstance(expr, relax.Tuple):
            left.extend(expr.fields)
        elif isinstance(expr, TupleGetItem):
            left.append(expr.tuple_value)
        elif name_of(expr) == CALL_TIR and len(expr.args[1].fields) == 1:
            left.extend(expr.args[1].fields)
    return found


def _view(mod: IRModule, first: str, call: Expr, computed: set[Var]) -> Expr | None:
    """Return the view that can replace a call; None if there is none."""
    if not (name_of(call) == CALL_TIR and len(call.args[1].fields) == 1):
        return None
    func, x, shape = mod[call.args[0]], call.args[1].fields[0], static_shape(call)
    if x not in computed or shape is None or static_shape(x) is None or first not in (func.attrs or {}):
        return None
    offset = int(func.attrs[first]) * np.dtype(str(call.ty.dtype)).itemsize
    if offset % ALIGNMENT:
        return None
    view = R.memory.view(x, relax.ShapeExpr(shape), str(call.ty.dtype), relax.prim_value(offset))
    typed = Call(view.op, view.args, view.attrs, view.ty_args, ret_ty=call.ty)
    return with_source(typed, sources_of(call))
