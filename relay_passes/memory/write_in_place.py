# SPDX-License-Identifier: Apache-2.0
"""Kernels that change an operand write to the operand's memory if nothing else reads it, and else to a copy.

    n = alloc_tensor(…); k(x, state, n)    →    k(x, state, state)      `state` is a parameter that only `k` reads
    n = alloc_tensor(…); k(x, y, n)        →    n = copy(y); k(x, y, n)         anything else

The attribute `CHANGED` of a function lists its parameters that it writes to. `copying` makes a function from it whose
callers keep their tensors.
"""

from collections import Counter

from tvm import IRModule, relax
from tvm.ir import Call, Expr, GlobalVar, Var
from tvm_ffi import structural_map, structural_walk

from relay_passes.ir.sources import bindings_of, relax_functions
from relay_passes.memory.alias_analysis import copy_of

CHANGED = "changed_parameters"
"""Attribute of a function: the indices of the parameters that it writes to."""


def write_in_place(mod: IRModule, attribute: str) -> IRModule:
    """Let kernels change their operands.

    Args:
        mod: Module after CallTIRRewrite.
        attribute: Attribute of kernels that lists, for each operand that is changed, its position and that of the
            result which it becomes.
    """
    kernels = {
        gv: list(map(int, f.attrs[attribute])) for gv, f in mod.functions_items() if attribute in f.attrs
    }
    if not kernels:
        return mod
    out = mod.clone()
    for gv, func in relax_functions(mod):
        out.update_func(gv, _changed(func, {gv.name_hint: places for gv, places in kernels.items()}))
    return out


def copying(func: relax.Function) -> relax.Function:
    """Return a copy of a function that copies the parameters which it would change, and changes the copies."""
    copies = {func.params[int(index)]: copy_of(func.params[int(index)]) for index in func.attrs[CHANGED]}
    new: dict[Expr, Expr] = {param: Var(f"{param.name}_copy", param.ty) for param in copies}
    body = structural_map(func.body, [(Var, lambda var: new.get(var, var))])
    first = relax.BindingBlock([relax.VarBinding(new[param], copy) for param, copy in copies.items()])
    body = relax.SeqExpr([first, *body.blocks], body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs).without_attr(CHANGED)


def _changed(func: relax.Function, kernels: dict[str, list[int]]) -> relax.Function:
    uses: Counter[Var] = Counter()
    structural_walk(func.body, [(Var, lambda var: uses.update([var]))])
    new: dict[Expr, Expr] = {}
    copied: dict[Var, Call] = {}
    for binding in bindings_of(func):
        call = binding.value
        places = (
            kernels.get(call.op.name_hint)
            if isinstance(call, Call) and isinstance(call.op, GlobalVar)
            else None
        )
        for operand, result in zip(places[::2], places[1::2], strict=True) if places else ():
            before, after = call.args[operand], call.args[result]
            if any(before.same_as(param) for param in func.params) and uses[before] == 1:
                new[after] = before
            else:
                copied[after] = copy_of(before)
    if not new and not copied:
        return func

    def block(old: relax.BindingBlock) -> relax.BindingBlock:
        kept = (binding for binding in old.bindings if binding.var not in new)
        return relax.BindingBlock(
            [
                relax.VarBinding(binding.var, copied[binding.var], binding.span)
                if binding.var in copied
                else binding
                for binding in kept
            ]
        )

    body = structural_map(func.body, [(relax.BindingBlock, block)])
    body = structural_map(body, [(Var, lambda var: new.get(var, var))])
    changed = [
        index for index, param in enumerate(func.params) if any(param.same_as(to) for to in new.values())
    ]
    made = relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)
    return made.with_attr(CHANGED, changed) if changed else made
