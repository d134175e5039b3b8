# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on SMLAD of the DSP extension: implicit GEMM, with requantisation.

Two rows of A are widened to pairs of 16 bits once, in a buffer whose order lets LDRD read a pair of both rows; weights
are widened as they are read. A tile of two rows by two columns takes 15 instructions for a word of k, and no register
is spilled. Sums are converted to float and rounded by VCVTR, which all FPUs of Cortex-M have.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import DSP, THUMB, Core
from schedules.intrinsics import dsp
from schedules.intrinsics.dsp import WORD
from schedules.intrinsics.opaque import opaque_address
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues.requantize_dsp import INSTRUCTIONS, requantized, word_of
from schedules.kernels.gemm.converted_product import ConvertedKernel, Operands
from schedules.kernels.gemm.converted_product import Params as Params
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.tir.emit import i64, load

NAME = "gemm_s8_dsp"

ROWS = COLUMNS = 2
"""Sides of a tile."""

UNROLLED = 8
"""Words of k of one iteration."""


class _Smlad(ConvertedKernel):
    name, suffix, isa, needs, step = NAME, "dsp", DSP, "dsp and vfp2sp", COLUMNS

    def runs_on(self, core: Core) -> bool:
        return core.isa.name != THUMB.name and core.isa.has_fpu

    def cost(self, workload: Workload, product: IntegerProduct) -> float:
        words = _words(product)
        tiles = self.padded_columns(product) // COLUMNS * -(-product.rows.count // ROWS)
        # Of a word: loads of both rows, one load and four widenings of both columns, products, and the loop.
        inside = ROWS + 1 + 2 * COLUMNS + 2 * ROWS * COLUMNS + 6 / UNROLLED
        return product.rows.count * words * 6 + tiles * (words * inside + ROWS * COLUMNS * INSTRUCTIONS)

    def packed(self, product: IntegerProduct, weights: Array) -> Array:
        """Return words [pairs of columns, words, 2]."""
        depth = _words(product) * WORD
        rows = np.ascontiguousarray(np.pad(weights, ((0, 0), (0, depth - product.rows.depth))))
        return rows.view("<i4").reshape(-1, COLUMNS, depth // WORD).transpose(0, 2, 1)

    def definitions(self) -> AbstractContextManager[Any]:
        return dsp.definitions()

    def emit(self, workload: Workload, operands: Operands) -> None:
        operands.each_rows(ROWS, _Emitter(**vars(operands)).rows)


@dataclass(frozen=True)
class _Emitter(Operands):
    """Emits the code of some rows of a product."""

    def rows(self, starts: Sequence[ir.Expr], targets: Sequence[ir.Expr]) -> None:
        """Emit the outputs of some rows, given the offsets of each in data and output."""
        words = _words(self.product)
        wide = T.alloc_buffer((words * len(starts) * 2,), "int32", layout=None)
        source, segments = self.x, self.product.rows.segments
        if any(length % WORD for _, length in segments):
            source = self.staged(starts, words * WORD)
            starts = [i64(row * words * WORD) for row in range(len(starts))]
            segments = ((0, words * WORD),)
        at = 0
        for offset, length in segments:
            self._widen(wide, at, source, [start + offset for start in starts], length // WORD)
            at += length // WORD
        whole, rest = divmod(self.product.columns, COLUMNS)
        if whole:
            with T.serial(i64(0), i64(whole)) as pair:
                self._tile(wide, targets, pair, COLUMNS)
        if rest:
            self._tile(wide, targets, i64(whole), rest)

    def _widen(
        self, wide: tirx.Buffer, to: int, source: tirx.Buffer, starts: Sequence[ir.Expr], words: int
    ) -> None:
        """Emit words of each row, from word `to` on, as pairs [words, 2, rows]: bytes 0 and 2, then bytes 1 and 3."""
        with T.serial(i64(0), i64(words)) as word:
            for row, start in enumerate(starts):
                value = word_of(source, start + word * WORD, flipped=self.product.flipped)
                for half, odd in enumerate((False, True)):
                    at = (word + to) * (len(starts) * 2) + (half * len(starts) + row)
                    T.buffer_store(wide, dsp.sxtb16(value, odd=odd), [at])

    def _tile(self, wide: tirx.Buffer, targets: Sequence[ir.Expr], pair: ir.Expr, count: int) -> None:
        """Emit the sums of all rows by two columns, and the outputs of `count` of these."""
        rows, words = len(targets), _words(self.product)
        acc = T.alloc_buffer((rows * COLUMNS,), "int32", layout=None)
        first = T.Bind(pair * COLUMNS)
        for column in range(COLUMNS):
            offset = load(self.offsets, first + column, 1)
            for row in range(rows):
                T.buffer_store(acc, offset, [i64(row * COLUMNS + column)])
        panel = T.Bind(first * words)
        whole, rest = divmod(words, UNROLLED)
        if whole:
            with T.serial(i64(0), i64(whole)) as block:
                self._products(acc, wide, panel, T.Bind(block * UNROLLED), UNROLLED)
        if rest:
            self._products(acc, wide, panel, i64(whole * UNROLLED), rest)
        for column in range(count):
            multiplier = load(self.multipliers, first + column, 1)
            for row, target in enumerate(targets):
                value = requantized(
                    load(acc, i64(row * COLUMNS + column), 1), multiplier, self.product.to, self.product.form
                )
                T.buffer_store(self.y, value, [target + first + column])

    def _products(
        self, acc: tirx.Buffer, wide: tirx.Buffer, panel: ir.Expr, word: ir.Expr, count: int
    ) -> None:
        """Emit the products of `count` words from `word` on."""
        rows = int(acc.shape[0]) // COLUMNS
        data = opaque_address(wide, word * (rows * 2))
        weights = opaque_address(self.weights, panel + word * COLUMNS)
        for step in range(count):
            w = dsp.ldrd(weights, step * COLUMNS)
            x = [value for row in range(rows) for value in dsp.ldrd(data, (step * rows + row) * 2)]
            for half, odd in enumerate((False, True)):
                factors = [T.Bind(dsp.sxtb16(word, odd=odd)) for word in w]
                for row in range(rows):
                    for column, factor in enumerate(factors):
                        at = i64(row * COLUMNS + column)
                        total = dsp.smlad(x[half * rows + row], factor, load(acc, at, 1))
                        T.buffer_store(acc, total, [at])


def _words(product: IntegerProduct) -> int:
    """Return the number of words of a row."""
    return -(-product.rows.depth // WORD)


_KERNEL = _Smlad()
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
