# SPDX-License-Identifier: Apache-2.0
"""Scheduling barriers: LLVM's instruction schedulers do not move loads across a pinned value or a barrier.

Schedulers for cores that issue in order bring loads and products forward and leave sums for the end, until a tile
that fits the register file spills. An empty `asm sideeffect` whose output is its input takes no instruction; loads
and further ones stay on their side of it, and loops that hold one are not unrolled.

A barrier does the same for all values at once: what was loaded before it is not kept for what follows. LLVM unrolls
short loops that follow each other to straight code, and would keep whole rows from one to the next, on the stack.
"""

from contextlib import AbstractContextManager
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.operands import check
from schedules.tir.emit import importing

_NAME = "arm_pin_int32x4"

_BARRIER = "arm_barrier"

_DEFINITION = f"""
define linkonce_odr hidden <4 x i32> @{_NAME}(<4 x i32> %value) alwaysinline {{
  %pinned = call <4 x i32> asm sideeffect "", "=w,0"(<4 x i32> %value)
  ret <4 x i32> %pinned
}}

define linkonce_odr hidden void @{_BARRIER}() alwaysinline {{
  call void asm sideeffect "", ""()
  ret void
}}
"""


def pins() -> AbstractContextManager[Any]:
    """Open a scope in which `pinned` and `barrier` may be emitted."""
    return importing(_DEFINITION)


def pinned(value: ir.Expr) -> ir.Expr:
    """Emit an int32x4 whose computation LLVM may not move across other loads and pinned values."""
    check("pinned", (value, "int32x4"))
    return tirx.call_extern("int32x4", _NAME, value)


def barrier() -> None:
    """Emit a barrier, across which LLVM keeps no loaded value."""
    T.evaluate(tirx.call_extern("void", _BARRIER))
