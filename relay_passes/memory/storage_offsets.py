# SPDX-License-Identifier: Apache-2.0
"""Buffer offsets: kernels accept tensors that start at an offset in their storage."""

from tvm import IRModule, tirx
from tvm.ir import Call, Expr, Var
from tvm.tirx.buffer import BufferType
from tvm_ffi import structural_map


def accept_offsets(mod: IRModule) -> IRModule:
    """Make the offset of each buffer parameter a variable; by default, TVM's PrimFuncs require an offset of 0.

    Args:
        mod: Module whose PrimFuncs access their parameters by the buffers only, or have offsets already. If they pass a
            parameter's data to a call, such as a sort of the runtime, the call gets the data from the offset on.
    """
    out = mod.clone()
    for gv, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            out.update_func(gv, _with_offsets(func))
    return out


def _with_offsets(func: tirx.PrimFunc) -> tirx.PrimFunc:
    changed = {param: _unknown(param) for param in func.params if _begins_at_zero(param)}
    if not changed:
        return func
    body = structural_map(func.body, [(Var, lambda var: changed.get(var, var)), (Call, _from_offset)])
    params = [changed.get(param, param) for param in func.params]
    return tirx.PrimFunc(params, body, func.ret_type, attrs=func.attrs)


def _from_offset(call: Call) -> Expr:
    """Return a call that creates a tensor of an argument's data, starting at the argument's offset."""
    if getattr(call.op, "name", "") != "tirx.tvm_stack_make_array":
        return call
    data, *others = call.args
    if getattr(getattr(data, "op", None), "name", "") != "tirx.buffer_data":
        return call
    buffer = data.args[0]
    begin = tirx.address_of(buffer[(0,) * len(buffer.ty.shape)])
    return Call(call.op, [begin, *others], call.attrs, call.ty_args, call.span, call.ty)


def _begins_at_zero(param: Var) -> bool:
    return isinstance(param.ty, BufferType) and isinstance(param.ty.elem_offset, tirx.IntImm)


def _unknown(buffer: Var) -> Var:
    ty = buffer.ty
    return tirx.decl_buffer(
        ty.shape,
        str(ty.dtype),
        buffer.name,
        strides=list(ty.strides) or None,
        elem_offset=tirx.Var(f"{buffer.name}_offset", "int64"),
        scope=str(ty.storage_scope),
        data_alignment=int(ty.data_alignment),
        offset_factor=1,
        layout=None,
    )
