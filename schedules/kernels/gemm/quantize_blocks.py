# SPDX-License-Identifier: Apache-2.0
"""Quantisation of rows in blocks of 32, as `schedules.numerics.blocks` defines it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.narrow import fcvtns
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector import combine
from schedules.kernels.common import threads
from schedules.numerics.blocks import BLOCK, LARGEST, SMALLEST_SCALE
from schedules.tir.emit import i64, load, splat, store

INSTRUCTIONS = 54
"""Instructions of a block: 8 loads, |x|, products and conversions, 15 for the maximum, 12 for the scale."""


@dataclass(frozen=True)
class QuantizedBlock:
    """32 elements of a row, quantised to int8.

    Attributes:
        halves: Its integers, two int8x16.
        scale: float32.
        total: Sum of the integers, int32; None if no caller needs it.
    """

    halves: tuple[ir.Expr, ir.Expr]
    scale: ir.Expr
    total: ir.Expr | None

    @property
    def scaled_total(self) -> ir.Expr:
        """The sum of the values that the integers stand for, float32."""
        assert self.total is not None
        return T.Bind(tirx.Cast("float32", self.total) * self.scale)

    def shifted(self, shift: int) -> ir.Expr:
        """What a shift of all weights adds to the sum of products, the bits of an int32 as float32."""
        assert self.total is not None
        # TVM cannot reinterpret the constant 0.
        return (
            T.Bind(tirx.reinterpret("float32", self.total * tirx.IntImm("int32", shift)))
            if shift
            else _f32(0)
        )


def each_block(
    x: tirx.Buffer,
    size: tuple[int, int],
    write: Callable[[ir.Expr, ir.Expr, QuantizedBlock], None],
    *,
    parallel: bool,
    sums: bool,
    a64: bool,
) -> None:
    """Emit the quantisation of all rows.

    Args:
        x: Flat float32.
        size: Number of rows, and elements of a row.
        write: Emits the stores of (row, block of the row, the quantised block).
        parallel: Whether threads share the rows.
        sums: Whether `write` needs the sums of blocks.
        a64: Whether the target has FCVTNS.
    """
    rows, depth = size
    whole = depth // BLOCK

    def row(index: ir.Expr) -> None:
        start = T.Bind(index * depth)
        with T.serial(i64(0), i64(whole)) as block:
            at = T.Bind(start + block * BLOCK)
            parts = [load(x, at + first, LANES) for first in range(0, BLOCK, LANES)]
            write(index, block, _quantized(parts, sums=sums, a64=a64))
        if rest := depth % BLOCK:
            padded = T.alloc_buffer((BLOCK,), "float32", layout=None)
            for first in range(0, BLOCK, LANES):
                store(padded, splat(0.0, "float32", LANES), i64(first), LANES)
            with T.serial(i64(0), i64(rest)) as k:
                store(padded, load(x, start + whole * BLOCK + k, 1), k, 1)
            parts = [load(padded, i64(first), LANES) for first in range(0, BLOCK, LANES)]
            write(index, i64(whole), _quantized(parts, sums=sums, a64=a64))

    threads.each(rows, parallel, row)


def _quantized(parts: Sequence[ir.Expr], *, sums: bool, a64: bool) -> QuantizedBlock:
    """Emit the quantisation of a block, given as eight vectors."""

    def vector(name: str, *operands: ir.Expr) -> ir.Var:
        return T.Bind(tirx.call_llvm_pure_intrin("float32x4", f"llvm.{name}.v4f32", *operands))

    sizes: list[ir.Expr] = [vector("fabs", part) for part in parts]
    while len(sizes) > 1:
        sizes = [vector("maximum", a, b) for a, b in zip(sizes[::2], sizes[1::2], strict=True)]
    most = T.Bind(tirx.call_llvm_pure_intrin("float32", "llvm.vector.reduce.fmaximum.v4f32", sizes[0]))
    scale = T.Bind(tirx.Div(most, _f32(LARGEST)))
    known = T.Bind(tirx.Select(scale <= _f32(float(np.finfo(np.float32).max)), scale, _f32(math.nan)))
    inverse = T.Bind(tirx.Select(known >= _f32(SMALLEST_SCALE), tirx.Div(_f32(1), known), _f32(0)))
    products = [T.Bind(part * tirx.Broadcast(inverse, LANES)) for part in parts]
    integers = [T.Bind(fcvtns(p) if a64 else tirx.Cast("int32x4", vector("roundeven", p))) for p in products]
    low, high = (
        T.Bind(tirx.Cast("int8x16", combine(combine(a, b), combine(c, d))))
        for a, b, c, d in (integers[:LANES], integers[LANES:])
    )
    if not sums:
        return QuantizedBlock((low, high), known, None)
    while len(integers) > 1:
        integers = [T.Bind(a + b) for a, b in zip(integers[::2], integers[1::2], strict=True)]
    total = T.Bind(tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.add.v4i32", integers[0]))
    return QuantizedBlock((low, high), known, total)


def _f32(value: float) -> tirx.FloatImm:
    return tirx.FloatImm("float32", float(value))
