# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on VMLADAVA of Helium: implicit GEMM, with requantisation.

A row of A is read in vectors of 16 bytes: in place where its pieces are whole vectors, else from a copy that ends in
zeros. A tile is two rows by two columns: four loads and four products for each vector of k, which overlap on the core.
Sixteen sums of a row are rounded and narrowed together: VQMOVNB and VQMOVNT interleave their operands, for which
columns are permuted at compile time.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import MVE, Core
from schedules.intrinsics import mve
from schedules.intrinsics.opaque import opaque_offset, opaque_view
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

ROWS = TOGETHER = 2
"""Rows and columns of a tile. Its accumulators are general registers with even numbers, of which a loop has six."""

UNROLLED = 12
"""Most vectors of k without a loop: with two columns of weights, their loads reach that far from one address."""

STAGED = 64
"""Most vectors of a contiguous row that is copied nevertheless, so that outputs may overwrite it: 2 KB of two rows."""


class _Vmladava(ConvertedKernel):
    name, suffix, isa, needs, step = NAME, "mve", MVE, "mve.fp", COLUMNS

    def runs_on(self, core: Core) -> bool:
        return core.isa.name == MVE.name and core.isa.rounds

    def cost(self, workload: Workload, product: IntegerProduct) -> float:
        runs, blocks = _Runs.of(product), self.padded_columns(product) // COLUMNS
        tile = runs.vectors * (ROWS + TOGETHER + ROWS * TOGETHER) + 4 * runs.count + 2 * ROWS * TOGETHER + 4
        staged = (
            sum(2 * -(-length // VECTOR) + 4 for _, length in product.rows.segments) if runs.staged else 0
        )
        sums = COLUMNS // TOGETHER * tile / ROWS
        return product.rows.count * (blocks * (sums + INSTRUCTIONS) + staged + 6)

    def order(self, columns: int) -> Array:
        return in_order(columns)

    def packed(self, product: IntegerProduct, weights: Array) -> Array:
        """Return words [pairs of columns, vectors, 2, 4]."""
        depth = _Runs.of(product).vectors * VECTOR
        rows = np.pad(weights, ((0, 0), (0, depth - product.rows.depth)))[in_order(len(weights))]
        pairs = rows.reshape(-1, TOGETHER, depth // VECTOR, VECTOR).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(pairs).view("<i4")

    def reads_first(self, product: IntegerProduct) -> bool:
        return _Runs.of(product).staged or product.columns <= COLUMNS

    def emit(self, workload: Workload, operands: Operands) -> None:
        emitter = _Emitter(**vars(operands), runs=_Runs.of(operands.product))
        operands.each_rows(ROWS, emitter.rows)


@dataclass(frozen=True)
class _Runs:
    """The vectors of a row: `count` runs of `length` vectors, whose starts are `step` elements apart.

    A row that is `staged` is a copy, whose runs follow each other.
    """

    count: int
    length: int
    step: int
    staged: bool

    @property
    def vectors(self) -> int:
        """Number of vectors of a row."""
        return self.count * self.length

    @classmethod
    def of(cls, product: IntegerProduct) -> "_Runs":
        """Return the vectors of the rows of a product."""
        segments = product.rows.segments
        lengths = {length for _, length in segments}
        steps = {b - a for (a, _), (b, _) in itertools.pairwise(segments)}
        vectors = min(lengths) // VECTOR
        if len(lengths) == len(steps) == 1 and vectors <= UNROLLED and min(lengths) % VECTOR == 0:
            return cls(len(segments), vectors, min(steps), staged=False)
        vectors = -(-product.rows.depth // VECTOR)
        count = -(-vectors // UNROLLED)
        length = -(-vectors // count)
        staged = vectors <= STAGED or len(segments) > 1 or count * length * VECTOR > product.rows.depth
        return cls(count, length, length * VECTOR, staged)


@dataclass(frozen=True)
class _Emitter(Operands):
    """Emits the code of a product, whose rows are the vectors `runs`."""

    runs: _Runs

    def rows(self, starts: Sequence[ir.Expr], targets: Sequence[ir.Expr]) -> None:
        """Emit the outputs of some rows, given the offsets of each in data and output."""
        source = self.x
        if self.runs.staged:
            source = self.staged(starts, self.runs.vectors * VECTOR)
            starts = [i64(row * self.runs.vectors * VECTOR) for row in range(len(starts))]
        whole, rest = divmod(self.product.columns, COLUMNS)
        if whole:
            with T.serial(i64(0), i64(whole)) as block:
                self._block(source, starts, targets, block, COLUMNS)
        if rest:
            self._block(source, starts, targets, i64(whole), rest)

    def _block(
        self,
        source: tirx.Buffer,
        starts: Sequence[ir.Expr],
        targets: Sequence[ir.Expr],
        block: ir.Expr,
        count: int,
    ) -> None:
        """Emit the outputs of sixteen columns, of which `count` are columns of the product."""
        sums = T.alloc_buffer((len(starts) * COLUMNS,), "int32", layout=None)
        with T.serial(i64(0), i64(COLUMNS // TOGETHER)) as pair:
            found = self._sums(source, starts, T.Bind(block * (COLUMNS // TOGETHER) + pair))
            # LLVM unrolls this loop if there is none in it. It would then keep the sums of known places in general
            # registers, spill them, and move them to vectors one by one.
            place = T.Bind(pair * TOGETHER)
            if self.runs.count == 1:
                place = opaque_offset(place)
            for row in range(len(starts)):
                for column in range(TOGETHER):
                    total = load(found, i64(row * TOGETHER + column), 1)
                    T.buffer_store(sums, total, [place + row * COLUMNS + column])
        first = T.Bind(block * COLUMNS)
        fours = range(0, COLUMNS, LANES)
        for row, target in enumerate(targets):
            acc = [
                T.Bind(load(sums, i64(row * COLUMNS + four), LANES) + load(self.offsets, first + four, LANES))
                for four in fours
            ]
            multipliers = [load(self.multipliers, first + four, LANES) for four in fours]
            value = requantized(acc, multipliers, self.product.to, self.product.form)
            store_columns(self.y, value, T.Bind(target + first), count, self.product.to.dtype)

    def _sums(self, source: tirx.Buffer, starts: Sequence[ir.Expr], pair: ir.Expr) -> tirx.Buffer:
        """Emit the sums of all rows by two columns."""
        rows, runs = len(starts), self.runs
        acc = T.alloc_buffer((rows * TOGETHER,), "int32", layout=None)
        for place in range(rows * TOGETHER):
            T.buffer_store(acc, tirx.IntImm("int32", 0), [i64(place)])
        with T.serial(i64(0), i64(runs.count)) as run:
            panel = (pair * runs.count + run) * (runs.length * TOGETHER * LANES)
            weights = opaque_view(self.weights, panel)
            data = [opaque_offset(start + run * runs.step) for start in starts]
            for vector in range(runs.length):
                x = [
                    T.Bind(flip(load(source, start + vector * VECTOR, VECTOR), self.product.flipped))
                    for start in data
                ]
                w = [_bytes(weights, vector * TOGETHER + column) for column in range(TOGETHER)]
                for row in range(rows):
                    for column in range(TOGETHER):
                        at = i64(row * TOGETHER + column)
                        T.buffer_store(acc, mve.vmladava(load(acc, at, 1), x[row], w[column]), [at])
        return acc


def _bytes(words: tirx.Buffer, vector: int) -> ir.Expr:
    """Emit the load of a vector of 16 bytes as four words: such a load reaches 508 bytes, one of bytes 112."""
    return T.Bind(tirx.reinterpret("int8x16", load(words, i64(vector * LANES), LANES)))


_KERNEL = _Vmladava()
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
