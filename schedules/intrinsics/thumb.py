# SPDX-License-Identifier: Apache-2.0
"""Loads of bytes at constant distances from an address.

The address is one that LLVM increments in a loop (`opaque.opaque_address`). An opaque offset would be a second variable
of the loop, of 64 bits, which take four instructions to add and compare.
"""

from contextlib import AbstractContextManager
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.tir.emit import importing

_DEFINITION = """
define linkonce_odr hidden i32 @arm_load_byte(ptr %address, i32 %offset) alwaysinline {
  %at = getelementptr i8, ptr %address, i32 %offset
  %byte = load i8, ptr %at
  %word = zext i8 %byte to i32
  ret i32 %word
}
"""


def loads() -> AbstractContextManager[Any]:
    """Open a scope in which `ldrb` may be emitted."""
    return importing(_DEFINITION)


def ldrb(address: ir.Var, at: int) -> ir.Expr:
    """Load the byte `at` from an address on as an int32, not negative: LDRB."""
    return T.Bind(tirx.call_extern("int32", "arm_load_byte", address, tirx.IntImm("int32", at)))
