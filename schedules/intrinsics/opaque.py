# SPDX-License-Identifier: Apache-2.0
"""Addresses whose dependence on loop variables is hidden from LLVM.

LLVM's loop strength reduction considers several formulas for each address of an innermost loop, and compares their
combinations. In a loop with a hundred loads this is three quarters of the time of code generation, and mostly does not
change the addresses. Addresses at a constant distance from an opaque address are not considered: the distance becomes
the immediate offset of a load.
"""

from contextlib import AbstractContextManager
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.operands import check, check_flat
from schedules.tir.emit import importing

_OFFSET, _ADDRESS = "arm_opaque_offset", "arm_opaque_address"

# The intrinsic returns its argument. LLVM removes the call between loop strength reduction and instruction selection.
_DEFINITION = f"""
declare ptr @llvm.launder.invariant.group.p0(ptr)

define linkonce_odr hidden ptr @{_ADDRESS}(ptr %address) alwaysinline {{
  %opaque = call ptr @llvm.launder.invariant.group.p0(ptr %address)
  ret ptr %opaque
}}

define linkonce_odr hidden i64 @{_OFFSET}(i64 %offset) alwaysinline {{
  %address = inttoptr i64 %offset to ptr
  %opaque = call ptr @llvm.launder.invariant.group.p0(ptr %address)
  %result = ptrtoint ptr %opaque to i64
  ret i64 %result
}}
"""


def opaques() -> AbstractContextManager[Any]:
    """Open a scope in which `opaque_offset` and `opaque_view` may be emitted."""
    return importing(_DEFINITION)


def opaque_offset(offset: ir.Expr) -> ir.Var:
    """Bind an int64 equal to `offset` that LLVM cannot simplify, and so adds to a buffer's address only once."""
    check("opaque_offset", (offset, "int64"))
    return T.Bind(tirx.call_extern("int64", _OFFSET, offset))


def opaque_view(buffer: tirx.Buffer, offset: ir.Expr) -> tirx.Buffer:
    """Emit a view of a flat buffer from element `offset` on, whose address LLVM increments in a loop.

    The PrimFunc must not write to the buffer, because LLVM assumes that a view does not alias its buffer.
    """
    return T.decl_buffer(buffer.shape, buffer.dtype, data=opaque_address(buffer, offset), layout=None)


def opaque_address(buffer: tirx.Buffer, offset: ir.Expr) -> ir.Var:
    """Bind the address of element `offset` of a flat buffer, which LLVM increments in a loop."""
    check_flat("opaque_address", buffer, str(buffer.dtype))
    kind = ir.PointerType(ir.PrimType(str(buffer.dtype)))
    address = tirx.call_extern(kind, _ADDRESS, tirx.address_of(buffer[offset]))
    return T.Bind(address, var=tirx.Var("view", kind))
