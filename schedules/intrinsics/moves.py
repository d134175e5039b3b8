# SPDX-License-Identifier: Apache-2.0
"""Copies of contiguous bytes on Cortex-M, as loops that LLVM neither unrolls nor turns into calls of memcpy.

Of a copy in TensorIR, LLVM takes vectors of bytes apart where there are no vector registers, and unrolls loops on
Helium until it keeps all addresses, and then vectors, on the stack.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.tir.emit import i64, importing, load


@dataclass(frozen=True)
class Register:
    """The registers that a copy passes through.

    Attributes:
        dtype: LLVM's type of one.
        bytes: Size of one in bytes.
        together: Number of registers that are loaded before the first of them is stored.
    """

    dtype: str
    bytes: int
    together: int

    def definition(self, count: int) -> str:
        """Return the definition of a function that copies `count` registers a number of times: to, from, times."""
        loads, stores = [], []
        for n in range(count):
            at, to = f"%at{n} = getelementptr i8, ptr %from", f"%to{n} = getelementptr i8, ptr %to"
            loads += [f"{at}, i32 {n * self.bytes}", f"%v{n} = load {self.dtype}, ptr %at{n}, align 1"]
            stores += [f"{to}, i32 {n * self.bytes}", f"store {self.dtype} %v{n}, ptr %to{n}, align 1"]
        body = "\n  ".join(loads + stores)
        step = count * self.bytes
        return f"""
define linkonce_odr hidden void @{self.name(count)}(ptr %first_to, ptr %first_from, i32 %times) alwaysinline {{
entry:
  br label %loop
loop:
  %to = phi ptr [ %first_to, %entry ], [ %next_to, %loop ]
  %from = phi ptr [ %first_from, %entry ], [ %next_from, %loop ]
  %left = phi i32 [ %times, %entry ], [ %less, %loop ]
  {body}
  %next_to = getelementptr i8, ptr %to, i32 {step}
  %next_from = getelementptr i8, ptr %from, i32 {step}
  %less = sub i32 %left, 1
  %done = icmp eq i32 %less, 0
  br i1 %done, label %end, label %loop, !llvm.loop !0
end:
  ret void
}}
"""

    @property
    def instructions(self) -> float:
        """Instructions of a copy for each byte: loads, stores, two additions and the end of the loop."""
        return (2 * self.together + 4) / (self.together * self.bytes)

    def name(self, count: int) -> str:
        """Return the name of the function that copies `count` registers at a time."""
        return f"arm_move_{count * self.bytes}"


WORD = Register("i32", 4, 4)
"""A general register."""

BYTE = Register("i8", 1, 4)
"""A general register, on cores whose words have to be aligned."""

VECTOR = Register("<16 x i8>", 16, 2)
"""A vector register of Helium."""

_METADATA = """
!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.disable"}
"""


def moves(register: Register) -> AbstractContextManager[Any]:
    """Open a scope in which `move` may be emitted for a kind of register."""
    sizes = {register.together, 1}
    return importing("".join(register.definition(count) for count in sizes) + _METADATA)


def move(
    register: Register, source: tirx.Buffer, start: ir.Expr, target: tirx.Buffer, to: ir.Expr, count: int
) -> None:
    """Emit a copy of `count` bytes between flat buffers, in ascending order, through registers of a kind."""
    done = 0
    for together in (register.together, 1):
        step = together * register.bytes
        times = (count - done) // step
        if times:
            addresses = [
                tirx.address_of(buffer[first + i64(done)])
                for buffer, first in ((target, to), (source, start))
            ]
            name = register.name(together)
            T.evaluate(tirx.call_extern("void", name, *addresses, tirx.IntImm("int32", times)))
        done += times * step
    for at in range(done, count):
        T.buffer_store(target, load(source, start + at, 1), [to + at])
