# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on SMLAD of the DSP extension: implicit GEMM, requantised by `qdq`.

Two rows of A are widened to pairs of 16 bits once, in a buffer; weights are widened as they are read, for two rows at
once. A tile of two rows by two columns has four accumulators, two words of each row and two of a column in registers.
Sums are converted to float and rounded by VCVTR, which all FPUs of Cortex-M have. A pointwise convolution of
125 x 64 x 64 takes 777,032 instructions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import DSP, Core
from schedules.intrinsics import dsp
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues.requantize_dsp import INSTRUCTIONS, WORD, requantized, word_of
from schedules.kernels.gemm.converted_product import ConvertedKernel, Operands
from schedules.kernels.gemm.converted_product import Params as Params
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.tir.emit import i64, load

NAME = "gemm_s8_dsp"

ROWS = COLUMNS = 2
"""Sides of a tile."""


class _Smlad(ConvertedKernel):
    name, suffix, isa, needs, step = NAME, "dsp", DSP, "dsp and vfp2sp", COLUMNS

    def has(self, core: Core) -> bool:
        return core.isa.has_fpu

    def cost(self, workload: Workload, product: IntegerProduct) -> float:
        words = _words(product)
        tiles = self.padded_columns(product) // COLUMNS * -(-product.rows.count // ROWS)
        # Of a word: loads of two rows, a load and two widenings of each column, two products of each sum, the loop.
        inside = ROWS + COLUMNS * 3 + 2 * ROWS * COLUMNS + 2
        return product.rows.count * words * 6 + tiles * (words * inside + ROWS * COLUMNS * INSTRUCTIONS)

    def packed(self, product: IntegerProduct, weights: Array) -> Array:
        """Return words [pairs of columns, words, 2]."""
        depth = _words(product) * WORD
        rows = np.ascontiguousarray(np.pad(weights, ((0, 0), (0, depth - product.rows.depth))))
        return rows.view("<i4").reshape(-1, COLUMNS, depth // WORD).transpose(0, 2, 1)

    def emit(self, workload: Workload, operands: Operands) -> None:
        emitter = _Emitter(**vars(operands))
        whole, rest = divmod(operands.product.rows.count, ROWS)
        if whole:
            with T.serial(i64(0), i64(whole)) as pair:
                emitter.rows(T.Bind(pair * ROWS), ROWS)
        if rest:
            emitter.rows(i64(whole * ROWS), rest)


@dataclass(frozen=True)
class _Emitter(Operands):
    """Emits the code of some rows of a product."""

    def rows(self, first: ir.Expr, count: int) -> None:
        """Emit `count` rows from row `first` on."""
        product, words = self.product, _words(self.product)
        wide = T.alloc_buffer((count * words * 2,), "int32", layout=None)
        for row in range(count):
            self._widen(wide, i64(row * words * 2), T.Bind(product.rows.offset(first + row)))
        targets = [T.Bind(product.target(first + row)) for row in range(count)]
        whole, rest = divmod(product.columns, COLUMNS)
        if whole:
            with T.serial(i64(0), i64(whole)) as pair:
                self._tile(wide, targets, pair, COLUMNS)
        if rest:
            self._tile(wide, targets, i64(whole), rest)

    def _widen(self, wide: tirx.Buffer, to: ir.Expr, start: ir.Expr) -> None:
        """Emit the row at `start` as words of pairs: bytes 0 and 2, then bytes 1 and 3, of each four."""
        product, depth = self.product, _words(self.product) * WORD
        source = self.x
        if len(product.rows.segments) > 1 or product.rows.depth % WORD:
            source = self.staged(start, depth)
            start = i64(0)
        with T.serial(i64(0), i64(_words(self.product))) as word:
            value = word_of(source, start + word * WORD, flipped=product.flipped)
            for half, odd in enumerate((False, True)):
                T.buffer_store(wide, dsp.sxtb16(value, odd=odd), [to + word * 2 + i64(half)])

    def _tile(self, wide: tirx.Buffer, targets: Sequence[ir.Expr], pair: ir.Expr, count: int) -> None:
        """Emit the sums of all rows by two columns, and the outputs of `count` of these."""
        rows = len(targets)
        acc = T.alloc_buffer((rows * COLUMNS,), "int32", layout=None)
        first = T.Bind(pair * COLUMNS)
        for column in range(COLUMNS):
            offset = load(self.offsets, first + column, 1)
            for row in range(rows):
                T.buffer_store(acc, offset, [i64(row * COLUMNS + column)])
        panel = T.Bind(first * _words(self.product))
        with T.serial(i64(0), i64(_words(self.product))) as word:
            data = [
                [load(wide, word * 2 + i64(row * _words(self.product) * 2 + half), 1) for half in range(2)]
                for row in range(rows)
            ]
            for column in range(COLUMNS):
                weights = load(self.weights, panel + word * COLUMNS + column, 1)
                halves = [T.Bind(dsp.sxtb16(weights, odd=odd)) for odd in (False, True)]
                for row in range(rows):
                    at = i64(row * COLUMNS + column)
                    total = load(acc, at, 1)
                    for half in range(2):
                        total = T.Bind(dsp.smlad(data[row][half], halves[half], total))
                    T.buffer_store(acc, total, [at])
        for column in range(count):
            multiplier = load(self.multipliers, first + column, 1)
            for row, target in enumerate(targets):
                value = requantized(load(acc, i64(row * COLUMNS + column), 1), multiplier, self.product.to)
                T.buffer_store(self.y, value, [target + first + column])


def _words(product: IntegerProduct) -> int:
    """Return the number of words of a row."""
    return -(-product.rows.depth // WORD)


_KERNEL = _Smlad()
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
