# SPDX-License-Identifier: Apache-2.0
"""Loads of two or more vectors (by LDP) that LLVM neither moves nor hoists out of a loop.

Accumulators are overwritten. LLVM would load their initial values before a loop, keep them in registers, and copy them
in the loop, by one instruction per vector on a vector pipe. An LDP in the loop loads two vectors, on the load pipes.
"""

from contextlib import AbstractContextManager
from typing import Any

from tvm import ir, tirx

from schedules.intrinsics.operands import check_flat
from schedules.tir.emit import importing

_NAME = "arm_reload"

_LANES = 4
"""int32 of a vector."""

COUNTS = (2, 4, 8)
"""Numbers of vectors that a reload may load. Its address is in a register of its own: LLVM folds no offset into it."""


def _definition(vectors: int) -> str:
    """Return LLVM IR of a function that loads `vectors` vectors.

    The memory must be constant: LLVM is not told that the assembly reads it.
    """
    types = f"{{ {', '.join(['<4 x i32>'] * vectors)} }}"
    places = ["", *(f", #{16 * v}" for v in range(2, vectors, 2))]
    loads = [f"ldp ${{{2 * i}:q}}, ${{{2 * i + 1}:q}}, [${vectors}{at}]" for i, at in enumerate(places)]
    code, outputs = r"\0A".join(loads), ",".join(["=w"] * vectors)
    lines = [f'%all = call {types} asm sideeffect "{code}", "{outputs},r"(ptr %from)']
    parts, size = [f"%v{v}" for v in range(vectors)], _LANES
    lines += [f"{part} = extractvalue {types} %all, {v}" for v, part in enumerate(parts)]
    while len(parts) > 1:
        lanes = ", ".join(f"i32 {lane}" for lane in range(2 * size))
        for a, b in zip(parts[::2], parts[1::2], strict=True):
            operands = f"<{size} x i32> {a}, <{size} x i32> {b}, <{2 * size} x i32> <{lanes}>"
            lines.append(f"{a}w = shufflevector {operands}")
        parts, size = [f"{part}w" for part in parts[::2]], 2 * size
    head = f"define linkonce_odr hidden <{size} x i32> @{_NAME}{vectors}(ptr %from) alwaysinline {{"
    return "\n".join([head, *lines, f"ret <{size} x i32> {parts[0]}", "}", ""])


def reloads() -> AbstractContextManager[Any]:
    """Open a scope in which `reloaded` may be emitted."""
    return importing("\n".join(_definition(count) for count in COUNTS))


def reloaded(buffer: tirx.Buffer, offset: ir.Expr, vectors: int = 2) -> ir.Expr:
    """Emit a load, which LLVM does not move, of `vectors` int32x4 from `offset` of a flat buffer on.

    The buffer is int32 or int8, and must never be written.
    """
    if vectors not in COUNTS:
        raise ValueError(f"reload of {vectors} vectors; expected one of {', '.join(map(str, COUNTS))}")
    check_flat("reloaded", buffer, "int32", "int8")
    name = f"{_NAME}{vectors}"
    return tirx.call_extern(f"int32x{_LANES * vectors}", name, tirx.address_of(buffer[offset]))
