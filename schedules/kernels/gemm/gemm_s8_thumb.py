# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on Cortex-M without SIMD: implicit GEMM, with requantisation in integers.

Data and weights are moved to uint8, since LDRB has an immediate offset on all cores, and LDRSB has none on an M0+:

    sum(x * w) = sum(x' * w') - 128 * sum(x') - 128 * sum(w') + 128 * 128 * k    x' = x + 128, w' = w + 128

The sum of a row of data is computed while the row is copied, the other terms at compile time. A tile is one row by two
columns, whose accumulators, factors and addresses are in the eight registers that an M0+ computes with.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import THUMB, Core
from schedules.intrinsics import thumb
from schedules.intrinsics.opaque import opaque_address
from schedules.intrinsics.pin import pinned, pins
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues import requantize_thumb
from schedules.kernels.gemm.converted_product import ConvertedKernel, Operands
from schedules.kernels.gemm.converted_product import Params as Params
from schedules.kernels.gemm.product_s8 import FLIP, IntegerProduct
from schedules.tir.emit import i64, load

NAME = "gemm_s8_thumb"

COLUMNS = 2
"""Columns of a tile."""

UNROLLED = 16
"""Elements of k of one iteration: LDRB of an M0+ reaches 31 bytes, those of two columns."""

MOST_DEPTH = 1 << 14
"""Greatest k, for which sums of products of uint8 fit int32."""


class ThumbKernel(ConvertedKernel):
    """A kernel whose requantisation is that of `requantize_thumb`."""

    isa, needs = THUMB, "thumb"
    scales, most_bits = 2, requantize_thumb.MOST_BITS

    def runs_on(self, core: Core) -> bool:
        """Accept each core; one with SIMD and an FPU has faster kernels."""
        return True

    def scaled(self, product: IntegerProduct, multipliers: Array) -> Array:
        """Return multiplier and fixed-point multiplier of each column."""
        return requantize_thumb.scales(multipliers, product.form)

    @contextmanager
    def definitions(self) -> Iterator[None]:
        """Open the scopes of the requantisation, and of pinned sums and loads by bytes."""
        with requantize_thumb.definitions(), pins("int32"), thumb.loads():
            yield


@dataclass(frozen=True)
class ThumbOperands(Operands):
    """The buffers of such a kernel; `accumulator` is the exponent that bounds its sums."""

    accumulator: int

    @classmethod
    def of(cls, workload: Workload, operands: Operands) -> Self:
        """Return the buffers with the bound of a workload."""
        assert workload.magnitude is not None
        return cls(**vars(operands), accumulator=workload.magnitude.accumulator)

    def store(self, total: ir.Expr, column: ir.Expr, target: ir.Expr) -> None:
        """Emit the requantisation of a sum of a column, and its store."""
        constants = [load(self.multipliers, column * 2 + i64(n), 1) for n in range(2)]
        to, form = self.product.to, self.product.form
        value = requantize_thumb.requantized(total, constants, to, form, self.accumulator)
        T.buffer_store(self.y, value, [target])


class _Thumb(ThumbKernel):
    name, suffix, step, most_depth = NAME, "thumb", COLUMNS, MOST_DEPTH

    def cost(self, workload: Workload, product: IntegerProduct) -> float:
        depth, columns = _depth(product), self.padded_columns(product)
        inside = depth * (1 + 3 * COLUMNS) + 5 * depth / UNROLLED
        tiles = columns // COLUMNS * (inside + COLUMNS * requantize_thumb.INSTRUCTIONS)
        return product.rows.count * (tiles + 8 * depth)

    def packed(self, product: IntegerProduct, weights: Array) -> Array:
        """Return weights plus 128 as uint8 [pairs of columns, k, 2]; those behind the last k are 0."""
        moved = (weights.astype(np.int16) + FLIP).astype(np.uint8)
        rows = np.pad(moved, ((0, 0), (0, _depth(product) - product.rows.depth)))
        return rows.reshape(-1, COLUMNS, _depth(product)).transpose(0, 2, 1)

    def initial(self, product: IntegerProduct, weights: Array, offsets: Array) -> Array:
        moved = weights.astype(np.int64).sum(-1) + FLIP * product.rows.depth
        found: Array = (offsets - FLIP * moved + FLIP * FLIP * product.rows.depth).astype(np.int32)
        return found

    def emit(self, workload: Workload, operands: Operands) -> None:
        operands.each_rows(1, _Emitter.of(workload, operands).row)


@dataclass(frozen=True)
class _Emitter(ThumbOperands):
    """Emits the code of a product."""

    def row(self, starts: Sequence[ir.Expr], targets: Sequence[ir.Expr]) -> None:
        """Emit the outputs of a row, given its offsets in data and output."""
        (start,), (target,) = starts, targets
        data, base = self._moved(start)
        whole, rest = divmod(self.product.columns, COLUMNS)
        if whole:
            with T.serial(i64(0), i64(whole)) as pair:
                self._tile(data, base, target, pair, COLUMNS)
        if rest:
            self._tile(data, base, target, i64(whole), rest)

    def _moved(self, start: ir.Expr) -> tuple[tirx.Buffer, ir.Expr]:
        """Emit a copy of a row as uint8; return it, and -128 times its sum."""
        depth, at = _depth(self.product), 0
        row = T.alloc_buffer((depth,), "uint8", layout=None)
        total = T.alloc_buffer((1,), "int32", layout=None)
        T.buffer_store(total, tirx.IntImm("int32", 0), [i64(0)])
        for offset, length in self.product.rows.segments:
            with T.serial(i64(0), i64(length)) as element:
                value = load(self.x, start + offset + element, 1)
                if not self.product.flipped:
                    value = T.Bind(tirx.reinterpret("uint8", value) ^ tirx.IntImm("uint8", FLIP))
                T.buffer_store(row, value, [element + i64(at)])
                T.buffer_store(total, load(total, i64(0), 1) + tirx.Cast("int32", value), [i64(0)])
            at += length
        for element in range(at, depth):
            T.buffer_store(row, tirx.IntImm("uint8", 0), [i64(element)])
        return row, T.Bind(load(total, i64(0), 1) * tirx.IntImm("int32", -FLIP))

    def _tile(self, data: tirx.Buffer, base: ir.Expr, target: ir.Expr, pair: ir.Expr, count: int) -> None:
        """Emit the sums of two columns, and the outputs of `count` of these."""
        depth, first = _depth(self.product), T.Bind(pair * COLUMNS)
        acc = T.alloc_buffer((COLUMNS,), "int32", layout=None)
        for column in range(COLUMNS):
            T.buffer_store(acc, load(self.offsets, first + column, 1) + base, [i64(column)])
        with T.serial(i64(0), i64(depth // UNROLLED)) as block:
            row = opaque_address(data, block * UNROLLED)
            weights = opaque_address(self.weights, (first * depth) + block * (UNROLLED * COLUMNS))
            for element in range(UNROLLED):
                x = thumb.ldrb(row, element)
                for column in range(COLUMNS):
                    w = thumb.ldrb(weights, element * COLUMNS + column)
                    # LLVM would compute one sum after the other, and spill the data that they share.
                    total = pinned(T.Bind(load(acc, i64(column), 1) + x * w), "int32")
                    T.buffer_store(acc, total, [i64(column)])
        for column in range(count):
            self.store(load(acc, i64(column), 1), first + column, target + first + column)


def _depth(product: IntegerProduct) -> int:
    """Return k with the elements behind the last."""
    return -(-product.rows.depth // UNROLLED) * UNROLLED


_KERNEL = _Thumb()
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
