# SPDX-License-Identifier: Apache-2.0
"""Requantisation of sixteen accumulators on Helium.

VQMOVNB and VQMOVNT put their operands into even and odd lanes. Four vectors of accumulators, narrowed twice, are in the
order of `ORDER`, to which weights, offsets and multipliers are permuted at compile time.
"""

from collections.abc import Sequence

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics import mve
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues.requantize import Form, Requantization
from schedules.kernels.epilogues.tosa_rescale import PRODUCT_SHIFT
from schedules.tir.emit import i64, load, store

VECTOR, LANES = 16, 4
COLUMNS = 16
"""Number of accumulators that are requantised together."""

INSTRUCTIONS = COLUMNS // LANES * 6 + 8
"""Load, conversion, load and product of multipliers, rounding and addition for each vector; then the narrowing."""

ORDER = np.array([4 * lane + place for place in (0, 2, 1, 3) for lane in range(LANES)])
"""Column of the n-th of sixteen accumulators."""


def in_order(columns: int) -> Array:
    """Return the column of each accumulator, for whole blocks of sixteen columns."""
    order: Array = (np.arange(0, columns, COLUMNS)[:, None] + ORDER).ravel()
    return order


def requantized(
    acc: Sequence[ir.Expr], multipliers: Sequence[ir.Expr], to: Requantization, form: Form
) -> ir.Expr:
    """Emit sixteen outputs in the order of their columns, int8x16 or uint8x16.

    Args:
        acc: Four vectors int32x4 in the order of `ORDER`.
        multipliers: Four vectors float32x4, likewise; of the form "rescale" the bits of integers.
        to: Quantisation of the output.
        form: "convert" or "rescale".
    """
    rounded = []
    for four, multiplier in zip(acc, multipliers, strict=True):
        if form == "rescale":
            moved = _rescaled(four, T.Bind(tirx.reinterpret("int32x4", multiplier)), to.shift)
        else:
            moved = mve.vcvtn(T.Bind(tirx.Cast("float32x4", four) * multiplier))
        rounded.append(T.Bind(moved + tirx.Broadcast(tirx.IntImm("int32", to.zero_point), LANES)))
    return narrowed(rounded, to)


def _rescaled(acc: ir.Expr, m: ir.Expr, shift: int) -> ir.Expr:
    """Emit RESCALE of int32x4; VQDMULH and VQRDMULH are SQDMULH and SQRDMULH of `tosa_rescale`, which has the proof."""
    rest = shift - PRODUCT_SHIFT
    if rest > 0:
        return T.Bind(mve.vrshl(T.Bind(mve.vqdmulh(acc, m, rounded=False)), -rest))
    moved = acc << tirx.Broadcast(tirx.IntImm("int32", -rest), LANES) if rest else acc
    return T.Bind(mve.vqdmulh(T.Bind(moved), m, rounded=True))


def narrowed(rounded: Sequence[ir.Expr], to: Requantization) -> ir.Expr:
    """Emit sixteen saturated outputs in the order of their columns, of four vectors int32x4 in that of `ORDER`."""
    even, odd = (T.Bind(mve.vqmovn(rounded[i], rounded[i + 1])) for i in (0, 2))
    narrow = T.Bind(mve.vqmovn(even, odd, "uint8" if to.dtype == "uint8" else "int8"))
    info = np.iinfo(to.dtype)
    if to.low > info.min:
        narrow = T.Bind(tirx.max(narrow, tirx.Broadcast(tirx.IntImm(to.dtype, to.low), VECTOR)))
    if to.high < info.max:
        narrow = T.Bind(tirx.min(narrow, tirx.Broadcast(tirx.IntImm(to.dtype, to.high), VECTOR)))
    return narrow


def store_columns(buffer: tirx.Buffer, value: ir.Expr, start: ir.Expr, count: int, dtype: str) -> None:
    """Emit the store of the first `count` of sixteen outputs; nothing behind them is written."""
    if count == COLUMNS:
        store(buffer, value, start, VECTOR)
        return
    whole = T.alloc_buffer((VECTOR,), dtype, layout=None)
    store(whole, value, i64(0), VECTOR)
    for column in range(count):
        T.buffer_store(buffer, load(whole, i64(column), 1), [start + column])
