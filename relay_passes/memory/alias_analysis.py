# SPDX-License-Identifier: Apache-2.0
"""Alias analysis of a planned function's outputs, and copies of outputs that are constants."""

from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, TupleGetItem, Type, Var

from relay_passes.ir.sources import bindings_of
from relay_passes.memory.plan_arena import VIEWS

_COPY = "vm.builtin.to_device"  # the runtime copies the tensor to new memory
_CPU = (1, 0)  # device type kDLCPU, device 0


def origins_of(main: relax.Function) -> list[Expr]:
    """Return the origin of each tensor that `main` returns: a parameter, a constant, or the call that allocates it."""
    bound = {binding.var: binding.value for binding in bindings_of(main)}

    def followed(expr: Expr) -> Expr:
        while True:
            value = bound.get(expr, expr) if isinstance(expr, Var) else expr
            if isinstance(value, Call) and getattr(value.op, "name", "") in VIEWS:
                value = value.args[0]
            if isinstance(value, TupleGetItem):
                whole = followed(value.tuple_value)
                value = whole.fields[value.index] if isinstance(whole, relax.Tuple) else value
            if value.same_as(expr):
                return value
            expr = value

    result = followed(main.body.body)
    return [followed(field) for field in result.fields] if isinstance(result, relax.Tuple) else [result]


def copy_of(value: Expr) -> Call:
    """Return a call that copies a tensor."""
    args = [value, *(relax.prim_value(part) for part in _CPU)]
    return Call(relax.ExternFunc(_COPY), args, ret_ty=value.ty)


def copy_constants(mod: IRModule) -> IRModule:
    """Make `main` return copies of constants, so that a caller that writes to a result does not change the model.

    Args:
        mod: The planned module.
    """
    main = mod["main"]
    origins = origins_of(main)
    if not any(isinstance(origin, GenericConst) for origin in origins):
        return mod
    *blocks, last = main.body.blocks or [relax.BindingBlock([])]
    bindings = list(last.bindings)
    result = main.body.body

    def bound(value: Expr, ty: Type) -> Var:
        bindings.append(relax.VarBinding(Var("own", ty), value))
        return bindings[-1].var

    types = list(main.ret_ty.fields) if isinstance(main.ret_ty, relax.TupleType) else None
    fields = [result] if types is None else [bound(TupleGetItem(result, k), ty) for k, ty in enumerate(types)]
    own = [
        bound(copy_of(field), field.ty) if isinstance(origin, GenericConst) else field
        for field, origin in zip(fields, origins, strict=True)
    ]
    returned = own[0] if types is None else bound(relax.Tuple(own), main.ret_ty)
    body = relax.SeqExpr([*blocks, relax.BindingBlock(bindings)], returned)
    out = mod.clone()
    out.update_func(
        mod.get_global_var("main"), relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    )
    return relax.transform.Normalize()(out)
