# SPDX-License-Identifier: Apache-2.0
"""A step from a decision tree node to a child by inline assembly, FCMP and CINC, so that LLVM emits no branch.

In a loop with several walks, LLVM turns `child + (value > threshold)` into a branch for out-of-order cores, as if it
were predictable; metadata that mark it as unpredictable are lost in earlier passes. Inline assembly keeps the two
instructions adjacent, which is no disadvantage on out-of-order cores.
"""

from contextlib import AbstractContextManager
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.operands import check
from schedules.tir.emit import importing

_TYPES = {"float32": ("float", "s"), "float64": ("double", "d")}

_FUNCTION = """
define linkonce_odr hidden i64 @arm_next_node_{dtype}({type} %value, {type} %threshold, i64 %child) alwaysinline {{
  %next = call i64 asm "fcmp ${{1:{register}}}, ${{2:{register}}}\\0Acinc $0, $3, gt", "=r,w,w,r,~{{cc}}"(
    {type} %value, {type} %threshold, i64 %child)
  ret i64 %next
}}
"""

_DEFINITION = "".join(
    _FUNCTION.format(dtype=dtype, type=name, register=register) for dtype, (name, register) in _TYPES.items()
)


def next_nodes() -> AbstractContextManager[Any]:
    """Open a scope in which `next_node` may be emitted."""
    return importing(_DEFINITION)


def next_node(value: ir.Expr, threshold: ir.Expr, child: ir.Expr) -> ir.Var:
    """Emit child + (value > threshold) as int64; the comparison is false for NaN."""
    dtype = str(value.ty.dtype)
    check("next_node", (value, dtype), (threshold, dtype), (child, "int64"))
    return T.Bind(tirx.call_extern("int64", f"arm_next_node_{dtype}", value, threshold, child))
