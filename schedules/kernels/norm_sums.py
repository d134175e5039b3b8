# SPDX-License-Identifier: Apache-2.0
"""The sums of a row of 8-bit values and of their squares, in integers."""

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.emit import i64, load, store
from schedules.intrinsics.sdot import sdot
from schedules.intrinsics.smull import sadalp, smull
from schedules.intrinsics.vector import high, low
from schedules.kernels import row_vectors
from schedules.kernels.cost import VECTOR

LANES = 4
"""Words of a vector register."""


def sums_of(source: tirx.Buffer, start: ir.Expr, length: int, *, dot: bool) -> tuple[ir.Expr, ir.Expr]:
    """Sums of the values, less 128 if they are uint8, and of their squares: int32."""
    sums = T.alloc_buffer((2 * LANES,), "int32", layout=None)
    for part in range(2):
        store(sums, tirx.Broadcast(tirx.IntImm("int32", 0), LANES), i64(part * LANES), LANES)
    flip = tirx.Broadcast(tirx.IntImm("int8", -128), VECTOR)

    def add(at: ir.Expr, _index: ir.Expr, count: int) -> None:
        values = tirx.reinterpret("int8x16", load(source, start + at, VECTOR))
        if str(source.dtype) == "uint8":
            values = T.Bind(values ^ flip)
        values = T.Bind(row_vectors.fresh(values, count, 0))
        for part, value in enumerate(_added(sums, values, dot=dot)):
            store(sums, value, i64(part * LANES), LANES)

    row_vectors.each(length, VECTOR, 1, add)
    total, squares = (
        tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.add.v4i32", _part(sums, part))
        for part in range(2)
    )
    return T.Bind(total), T.Bind(squares)


def _part(sums: tirx.Buffer, part: int) -> ir.Expr:
    return sums.vload([i64(part * LANES)], f"int32x{LANES}")


def _added(sums: tirx.Buffer, values: ir.Expr, *, dot: bool) -> tuple[ir.Expr, ir.Expr]:
    """Both sums with 16 values, int8, added."""
    total, squares = _part(sums, 0), _part(sums, 1)
    if dot:
        ones = tirx.Broadcast(tirx.IntImm("int8", 1), VECTOR)
        return T.Bind(sdot(total, values, ones)), T.Bind(sdot(squares, values, values))
    pairs = tirx.call_llvm_pure_intrin("int16x8", "llvm.aarch64.neon.saddlp.v8i16.v16i8", values)
    halves = (T.Bind(low(values)), T.Bind(high(values)))
    for half in halves:
        squares = sadalp(squares, smull(half, half))
    return T.Bind(sadalp(total, pairs)), T.Bind(squares)
