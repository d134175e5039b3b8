# SPDX-License-Identifier: Apache-2.0
"""Loads of up to four vectors by one instruction (LD1), into named consecutive registers.

LD1 loads four vectors in the time of two LDP, and increments its address register, while LDP needs offsets or an ADD.
LLVM assigns a tuple of registers to the result of LD1, and copies or spills the whole tuple when one of them is
overwritten. If the registers are named, and free, it copies nothing.
"""

from contextlib import AbstractContextManager
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.operands import check_flat
from schedules.intrinsics.registers import LANES, REGISTERS, VECTOR
from schedules.tir.emit import importing, take

QUAD = 4
"""Vectors of the largest load."""

LAST = REGISTERS - QUAD
"""The first of the last four registers, which a stream's vectors go to."""

_FIRST = range(0, LAST + 1, 2)
"""Registers that the first of four vectors may go to: even ones, as the accumulators of a row are in pairs."""

_WORDS, _BYTES = "<4 x i32>", "<16 x i8>"


def _joined(count: int, element: str, lanes: int) -> list[str]:
    """Return lines of LLVM IR that concatenate vectors %v0 to %v[count - 1] and return the result."""
    lines, whole, size = [], "%v0", lanes
    for v in range(1, count):
        # Both operands of shufflevector must have the same type, so the next vector is padded first.
        wide = ", ".join(f"i32 {lane if lane < lanes else 'poison'}" for lane in range(size))
        order = ", ".join(f"i32 {lane}" for lane in range(size + lanes))
        own = f"<{lanes} x {element}> %v{v}"
        lines.append(f"%x{v} = shufflevector {own}, <{lanes} x {element}> poison, <{size} x i32> <{wide}>")
        lines.append(
            f"%w{v} = shufflevector <{size} x {element}> {whole}, <{size} x {element}> %x{v}, "
            f"<{size + lanes} x i32> <{order}>"
        )
        whole, size = f"%w{v}", size + lanes
    return [*lines, f"ret <{size} x {element}> {whole}"]


def _parts(types: str, count: int) -> list[str]:
    return [f"%v{v} = extractvalue {{ {types} }} %all, {v}" for v in range(count)]


def _registers(first: int, count: int, shape: str) -> tuple[str, str]:
    """Return the register list of LD1, and the output constraints of its inline assembly."""
    names = [f"v{first + v}" for v in range(count)]
    return ", ".join(f"{name}.{shape}" for name in names), ",".join(f"={{{name}}}" for name in names)


def _quad(first: int) -> str:
    """Return LLVM IR of a function that loads four vectors into the registers from `first` on.

    The memory must be constant, because the assembly is not declared to read memory.
    """
    types = ", ".join([_WORDS] * QUAD)
    operand, outputs = _registers(first, QUAD, "4s")
    load = f'asm sideeffect "ld1 {{ {operand} }}, [${QUAD}]", "{outputs},r"(ptr %from)'
    return "\n".join(
        [
            f"define linkonce_odr hidden <{QUAD * LANES} x i32> @arm_quad{first}(ptr %from) alwaysinline {{",
            f"%all = call {{ {types} }} {load}",
            *_parts(types, QUAD),
            *_joined(QUAD, "i32", LANES),
            "}",
        ]
    )


def _stream(count: int) -> str:
    types = ", ".join([_BYTES] * count + ["ptr"])
    operand, outputs = _registers(LAST, count, "16b")
    code = f"ld1 {{ {operand} }}, [${count}], #{count * VECTOR}"
    return "\n".join(
        [
            f"define linkonce_odr hidden <{count * VECTOR} x i8> @arm_stream{count}(ptr %cursor) alwaysinline {{",
            "%from = load ptr, ptr %cursor",
            f'%all = call {{ {types} }} asm sideeffect "{code}", "{outputs},=r,{count}"(ptr %from)',
            f"%next = extractvalue {{ {types} }} %all, {count}",
            "store ptr %next, ptr %cursor",
            *_parts(types, count),
            *_joined(count, "i8", VECTOR),
            "}",
        ]
    )


_BEGIN = """
define linkonce_odr hidden i32 @arm_stream(ptr %cursor, ptr %from) alwaysinline {
store ptr %from, ptr %cursor
ret i32 0
}
"""

_DEFINITIONS = "\n".join(
    [
        *(_quad(first) for first in _FIRST),
        *(_stream(count) for count in range(1, QUAD + 1)),
        _BEGIN,
    ]
)


def quads() -> AbstractContextManager[Any]:
    """Open a scope in which `quad` and `VectorStream` may be used."""
    return importing(_DEFINITIONS)


def quad(buffer: tirx.Buffer, offset: ir.Expr, first: int) -> list[ir.Expr]:
    """Emit a load, which LLVM does not move, of four int32x4 from `offset` of a flat buffer on.

    Args:
        buffer: Flat buffer, int32 or int8, which must never be written.
        offset: Offset of the first vector.
        first: Number of the register of the first vector, an even number.
    """
    if first not in _FIRST:
        raise ValueError(f"register {first} is not one of {', '.join(map(str, _FIRST))}")
    check_flat("quad", buffer, "int32", "int8")
    name = f"arm_quad{first}"
    found = T.Bind(tirx.call_extern(f"int32x{QUAD * LANES}", name, tirx.address_of(buffer[offset])))
    return [take(found, v * LANES, LANES) for v in range(QUAD)]


class VectorStream:
    """A stream of consecutive vectors of a flat int8 buffer; each load increments a cursor.

    Vectors are loaded into the last four registers. The buffer must never be written.
    """

    def __init__(self, buffer: tirx.Buffer, offset: ir.Expr) -> None:
        """Start the stream at `offset` of `buffer`."""
        check_flat("VectorStream", buffer, "int8")
        # No scope "local": on CPUs TVM would allocate it from the workspace pool, and LLVM would keep it in memory.
        self._cursor = T.alloc_buffer((1,), "int64", layout=None)
        begin = ("arm_stream", tirx.address_of(self._cursor[0]), tirx.address_of(buffer[offset]))
        T.evaluate(tirx.call_extern("int32", *begin))

    def next(self, count: int) -> list[ir.Expr]:
        """Emit the load of the next `count` vectors (1 to 4), int8x16."""
        if not 1 <= count <= QUAD:
            raise ValueError(f"a load of {count} vectors; LD1 loads 1 to {QUAD}")
        cursor = tirx.address_of(self._cursor[0])
        found = T.Bind(tirx.call_extern(f"int8x{count * VECTOR}", f"arm_stream{count}", cursor))
        return [found] if count == 1 else [take(found, v * VECTOR, VECTOR) for v in range(count)]
