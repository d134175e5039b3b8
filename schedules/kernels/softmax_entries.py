# SPDX-License-Identifier: Apache-2.0
"""The table entries of a row of 8-bit values, by their distances from the greatest, and the sum of them."""

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.emit import i64, load, store
from schedules.intrinsics import sve
from schedules.kernels import copies
from schedules.kernels.cost import VECTOR

LANES = 4
"""Words of a vector register."""

UNROLL = 8
"""Elements of one iteration of the sum."""


def _vectors(data: tirx.Buffer, at: ir.Expr, length: int, step, rest: float) -> None:  # type: ignore[no-untyped-def]
    """Emits `step` for every 16 values of a row: (their vector, offset in the row, how many are real)."""
    whole, left = divmod(length, VECTOR)
    if whole:
        with T.serial(i64(0), i64(whole)) as outer:
            step(load(data, at + outer * VECTOR, VECTOR), outer * VECTOR, VECTOR)
    if left:
        stage = T.alloc_buffer((VECTOR,), data.dtype, layout=None)
        copies.fill(stage, i64(0), VECTOR, rest)
        copies.copy(data, at + whole * VECTOR, stage, i64(0), left)
        step(load(stage, i64(0), VECTOR), i64(whole * VECTOR), left)


def greatest(data: tirx.Buffer, at: ir.Expr, length: int) -> ir.Expr:
    """The greatest value of a row."""
    dtype = str(data.dtype)
    least = int(np.iinfo(dtype).min)
    top = T.alloc_buffer((VECTOR,), dtype, layout=None)
    store(top, tirx.Broadcast(tirx.IntImm(dtype, least), VECTOR), i64(0), VECTOR)

    def step(values: ir.Expr, _at: ir.Expr, _count: int) -> None:
        store(top, tirx.max(top.vload([i64(0)], f"{dtype}x{VECTOR}"), values), i64(0), VECTOR)

    _vectors(data, at, length, step, least)
    name = "smax" if dtype == "int8" else "umax"
    vector = top.vload([i64(0)], f"{dtype}x{VECTOR}")
    return T.Bind(tirx.call_llvm_pure_intrin(dtype, f"llvm.vector.reduce.{name}.v16i8", vector))


def distances(data: tirx.Buffer, at: ir.Expr, length: int, top: ir.Expr) -> tirx.Buffer:
    """Each value's distance from the greatest, uint8, filled up to whole vectors."""
    found = T.alloc_buffer((-(-length // VECTOR) * VECTOR,), "uint8", layout=None)
    highest = tirx.Broadcast(tirx.reinterpret("uint8", top), VECTOR)

    def step(values: ir.Expr, offset: ir.Expr, _count: int) -> None:
        store(found, highest - tirx.reinterpret("uint8x16", values), offset, VECTOR)

    _vectors(data, at, length, step, 0)
    return found


def entries(
    distances: tirx.Buffer, length: int, table: tirx.Buffer, total: tirx.Buffer, *, gather: bool
) -> tirx.Buffer:
    """The table entry of each value, int32, filled up to whole vectors; adds S to `total`, int64 [1]."""
    kept = T.alloc_buffer((-(-length // VECTOR) * VECTOR,), "int32", layout=None)

    def add(first: ir.Expr, count: int) -> None:
        found = [load(table, tirx.Cast("int64", load(distances, first + u, 1)), 1) for u in range(count)]
        for u, entry in enumerate(found):
            store(kept, entry, first + u, 1)
        terms = [tirx.Cast("int64", entry) for entry in found]
        while len(terms) > 1:
            # Neighbours first: one addition an iteration waits for the last.
            terms = [sum(terms[u + 1 : u + 2], start=terms[u]) for u in range(0, len(terms), 2)]
        store(total, total.vload([i64(0)], "int64") + terms[0], i64(0), 1)

    done = length // LANES * LANES if gather else 0
    if done:
        _gathered(distances, done, table, kept, total)
    whole, rest = divmod(length - done, UNROLL)
    if whole:
        with T.serial(i64(0), i64(whole)) as outer:
            add(outer * UNROLL, UNROLL)
    if rest:
        add(i64(length - rest), rest)
    return kept


def _gathered(
    distances: tirx.Buffer, count: int, table: tirx.Buffer, entries: tirx.Buffer, total: tirx.Buffer
) -> None:
    """The entries of the first `count` values, a multiple of four, and their sum."""
    sums = T.alloc_buffer((LANES,), "int64", layout=None)
    store(sums, tirx.Broadcast(i64(0), LANES), i64(0), LANES)

    def four(first: ir.Expr, u: int) -> None:
        entry = T.Bind(sve.gathered(table, T.Bind(sve.widened(distances, first))))
        store(entries, entry, first, LANES)
        pairs = tirx.call_llvm_pure_intrin("int64x2", "llvm.aarch64.neon.saddlp.v2i64.v4i32", entry)
        place = i64(u % 2 * (LANES // 2))
        store(sums, sums.vload([place], "int64x2") + pairs, place, LANES // 2)

    whole = count // VECTOR
    with T.serial(i64(0), i64(whole)) as outer:
        for u in range(LANES):
            four(outer * VECTOR + u * LANES, u)
    for u in range(count % VECTOR // LANES):
        four(i64(whole * VECTOR + u * LANES), u)
    store(
        total,
        tirx.call_llvm_pure_intrin("int64", "llvm.vector.reduce.add.v4i64", sums.vload([i64(0)], "int64x4")),
        i64(0),
        1,
    )
