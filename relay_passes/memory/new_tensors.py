# SPDX-License-Identifier: Apache-2.0
"""Allocation of small tensors of static size, such as outputs, by a faster function than that of the runtime.

    y = relax.builtin.alloc_tensor((1, 10), "float32")    →    y = NEW_TENSOR(40, float32, 1, 10)

The runtime's function takes 1,600 more instructions to allocate and free a tensor and its storage.
"""

import math

from tvm import DataType, IRModule, relax, tirx
from tvm.ir import Call
from tvm_ffi import structural_map

from relay_passes.ir.sources import relax_functions

NEW_TENSOR = "__vmtir__new_tensor"
"""Name of a function that is linked to a model and takes a tensor's bytes, its DLDataType as an integer, and its
sizes. It is no kernel: the virtual machine's own functions have this prefix."""

_ALLOC_TENSOR = "relax.builtin.alloc_tensor"

# Larger tensors are allocated by the runtime, which reuses their memory. malloc may return so many bytes to
# the system, and new pages then cost more than this function saves.
_MOST_BYTES = 1 << 16


def allocate_directly(mod: IRModule) -> IRModule:
    """Replace the runtime's allocation of small tensors of static sizes."""
    out = mod.clone()
    for gvar, func in relax_functions(mod):
        out.update_func(gvar, structural_map(func, [(Call, _direct)]))
    return out


def _direct(call: Call) -> Call:
    if getattr(call.op, "name", "") != _ALLOC_TENSOR:
        return call
    sizes = call.ty.shape
    if not all(isinstance(size, tirx.IntImm) for size in sizes):
        return call
    dtype = DataType(str(call.ty.dtype))
    bits = dtype.bits * dtype.lanes
    length = math.prod(int(size) for size in sizes) * -(-bits // 8)
    if bits % 8 or length > _MOST_BYTES:
        return call
    kind = dtype.type_code | dtype.bits << 8 | dtype.lanes << 16
    args = [relax.prim_value(number) for number in (length, kind, *map(int, sizes))]
    function = relax.ExternFunc(NEW_TENSOR, relax.FuncType.opaque_func(ret=call.ty))
    return Call(function, args, span=call.span, ret_ty=call.ty)
