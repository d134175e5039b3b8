# SPDX-License-Identifier: Apache-2.0
"""Scheduling barriers: LLVM's instruction schedulers move no loads across a pinned value or a barrier.

Schedulers for in-order cores move loads and products forward and sums to the end, until a tile that would fit the
register file spills. An empty `asm sideeffect` whose output is its input takes no instruction; neither loads nor other
such statements are moved across it, and LLVM does not unroll loops that contain one.

A barrier does this for all values at once: no loaded value is kept in a register across it. LLVM unrolls short
consecutive loops to straight-line code, and without a barrier would keep (and spill) whole rows between the loops.
"""

from contextlib import AbstractContextManager
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.operands import check
from schedules.tir.emit import importing

# dtype → LLVM's type, and the constraint of its registers
_PINNED = {"int32x4": ("<4 x i32>", "w"), "int32": ("i32", "r")}

_BARRIER = "arm_barrier"

_DEFINITION = f"""
define linkonce_odr hidden void @{_BARRIER}() alwaysinline {{
  call void asm sideeffect "", ""()
  ret void
}}
"""


def _definition(dtype: str) -> str:
    kind, registers = _PINNED[dtype]
    return f"""
define linkonce_odr hidden {kind} @arm_pin_{dtype}({kind} %value) alwaysinline {{
  %pinned = call {kind} asm sideeffect "", "={registers},0"({kind} %value)
  ret {kind} %pinned
}}
"""


def pins(dtype: str = "int32x4") -> AbstractContextManager[Any]:
    """Open a scope in which `pinned`, of values of a dtype, and `barrier` may be emitted."""
    return importing(_definition(dtype) + _DEFINITION)


def pinned(value: ir.Expr, dtype: str = "int32x4") -> ir.Expr:
    """Emit a value of a dtype whose computation LLVM may not move across other loads and pinned values."""
    check("pinned", (value, dtype))
    return tirx.call_extern(dtype, f"arm_pin_{dtype}", value)


def barrier() -> None:
    """Emit a barrier, across which LLVM keeps no loaded value in a register."""
    T.evaluate(tirx.call_extern("void", _BARRIER))
