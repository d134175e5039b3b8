# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on VMLADAVA of Helium: implicit GEMM, requantised by `qdq`.

A row of A is read in vectors of 16 bytes: in place where it is contiguous, else from a copy that ends in zeros. Up to
four vectors of a row stay in registers while weights stream past; longer rows are read again for each four columns.
Each sum begins with its column's offset. Sixteen sums are rounded and narrowed together: VQMOVNB and VQMOVNT interleave
their operands, for which columns are permuted at compile time. A pointwise convolution of 125 x 64 x 64 takes 108,392
instructions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import MVE, Core
from schedules.intrinsics import mve
from schedules.intrinsics.opaque import opaque_view
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues.requantize_mve import (
    COLUMNS,
    INSTRUCTIONS,
    LANES,
    VECTOR,
    in_order,
    requantized,
    store_columns,
)
from schedules.kernels.gemm.converted_product import ConvertedKernel, Operands
from schedules.kernels.gemm.converted_product import Params as Params
from schedules.kernels.gemm.product_s8 import IntegerProduct, flip
from schedules.tir.emit import i64, load

NAME = "gemm_s8_mve"

TOGETHER = 4
"""Columns whose sums are computed together for a row that is too long for registers."""

HELD = 4
"""Vectors of a row that stay in registers: of eight, weights take one and sums of the requantisation the others."""

PAIRED = 2
"""Columns that share an address: a load reaches 112 bytes, and LLVM keeps more addresses on the stack."""


class _Vmladava(ConvertedKernel):
    name, suffix, isa, needs, step = NAME, "mve", MVE, "mve.fp", COLUMNS

    def has(self, core: Core) -> bool:
        return core.isa.rounds

    def cost(self, workload: Workload, product: IntegerProduct) -> float:
        chunks, blocks = _chunks(product), self.padded_columns(product) // COLUMNS
        # A load of weights and a product for each vector, the row's loads, and start and end of each sum.
        again = 0 if chunks <= HELD else COLUMNS // TOGETHER * (chunks + 4)
        sums = COLUMNS * (2 * chunks + 2) + again
        segments = product.rows.segments
        staged = 0 if _in_place(product) else sum(2 * -(-length // VECTOR) + 4 for _, length in segments)
        return product.rows.count * (blocks * (sums + INSTRUCTIONS) + staged + 6)

    def order(self, columns: int) -> Array:
        return in_order(columns)

    def packed(self, product: IntegerProduct, weights: Array) -> Array:
        depth = _chunks(product) * VECTOR
        rows = np.pad(weights, ((0, 0), (0, depth - product.rows.depth)))[in_order(len(weights))]
        if _chunks(product) <= HELD:
            return rows
        return rows.reshape(-1, TOGETHER, depth // VECTOR, VECTOR).transpose(0, 2, 1, 3)

    def emit(self, workload: Workload, operands: Operands) -> None:
        _Emitter(**vars(operands)).rows()


@dataclass(frozen=True)
class _Emitter(Operands):
    """Emits the code of a product."""

    def rows(self) -> None:
        """Emit all rows."""
        product, chunks = self.product, _chunks(self.product)
        with T.serial(i64(0), i64(product.rows.count)) as row:
            start = T.Bind(product.rows.offset(row))
            if not _in_place(product):
                source, start = self.staged(start, chunks * VECTOR), i64(0)
            else:
                source = self.x
            target = T.Bind(product.target(row))
            held = [self._row(source, start, i) for i in range(chunks)] if chunks <= HELD else []
            whole, rest = divmod(product.columns, COLUMNS)
            if whole:
                with T.serial(i64(0), i64(whole)) as block:
                    self._store(self._sums(source, start, held, block), block, target, COLUMNS)
            if rest:
                self._store(self._sums(source, start, held, i64(whole)), i64(whole), target, rest)

    def _row(self, source: tirx.Buffer, start: ir.Expr, chunk: ir.Expr | int) -> ir.Expr:
        return T.Bind(flip(load(source, start + chunk * VECTOR, VECTOR), self.product.flipped))

    def _sums(
        self, source: tirx.Buffer, start: ir.Expr, held: Sequence[ir.Expr], block: ir.Expr
    ) -> tirx.Buffer:
        """Emit the sums of sixteen columns, in the order of the packed constants."""
        acc = T.alloc_buffer((COLUMNS,), "int32", layout=None)
        if held:
            for column in range(COLUMNS):
                if column % PAIRED == 0:
                    first = T.Bind((block * COLUMNS + column) * (_chunks(self.product) * VECTOR))
                    view = opaque_view(self.weights, first)
                total = load(self.offsets, block * COLUMNS + column, 1)
                for chunk, vector in enumerate(held):
                    at = i64((column % PAIRED * _chunks(self.product) + chunk) * VECTOR)
                    total = T.Bind(mve.vmladava(total, vector, load(view, at, VECTOR)))
                T.buffer_store(acc, total, [i64(column)])
            return acc
        with T.serial(i64(0), i64(COLUMNS // TOGETHER)) as four:
            part = T.alloc_buffer((TOGETHER,), "int32", layout=None)
            first = T.Bind(block * COLUMNS + four * TOGETHER)
            for column in range(TOGETHER):
                T.buffer_store(part, load(self.offsets, first + column, 1), [i64(column)])
            panel = T.Bind(first * (_chunks(self.product) * VECTOR))
            with T.serial(i64(0), i64(_chunks(self.product))) as chunk:
                vector = self._row(source, start, chunk)
                at = T.Bind(panel + chunk * (TOGETHER * VECTOR))
                for column in range(TOGETHER):
                    weights = load(self.weights, at + column * VECTOR, VECTOR)
                    total = mve.vmladava(load(part, i64(column), 1), vector, weights)
                    T.buffer_store(part, total, [i64(column)])
            for column in range(TOGETHER):
                T.buffer_store(acc, load(part, i64(column), 1), [four * TOGETHER + column])
        return acc

    def _store(self, acc: tirx.Buffer, block: ir.Expr, target: ir.Expr, count: int) -> None:
        """Emit requantisation and store of sixteen sums, of which `count` are columns of the product."""
        fours = [i64(four * LANES) for four in range(COLUMNS // LANES)]
        sums = [load(acc, four, LANES) for four in fours]
        multipliers = [load(self.multipliers, block * COLUMNS + four, LANES) for four in fours]
        value = requantized(sums, multipliers, self.product.to)
        start = T.Bind(target + block * COLUMNS)
        store_columns(self.y, value, start, count, self.product.to.dtype)


def _chunks(product: IntegerProduct) -> int:
    """Return the number of vectors of a row."""
    return -(-product.rows.depth // VECTOR)


def _in_place(product: IntegerProduct) -> bool:
    """Whether a row is read where it is: contiguous, in whole vectors."""
    return len(product.rows.segments) == 1 and product.rows.depth % VECTOR == 0


_KERNEL = _Vmladava()
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
