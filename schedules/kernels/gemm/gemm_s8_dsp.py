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
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import dsp
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.epilogues.requantize_dsp import INSTRUCTIONS, WORD, requantized, word_of
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.product import weights_by_column
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.tir.emit import i64, kernel_function, load

NAME = "gemm_s8_dsp"

ROWS = COLUMNS = 2
"""Sides of a tile."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel: none."""


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept products of one group of 8-bit data by constant int8 weights, on cores with DSP and an FPU."""
    product = product_s8.converted_product_of(workload, NAME)
    if isinstance(product, Diagnostic):
        return product
    if core.isa.name != DSP.name or not core.isa.has_fpu:
        return missing_feature(NAME, "dsp and vfp2sp", core)
    if product.groups > 1:
        return declined(NAME, "convolution has groups", "1", str(product.groups))
    return KernelMatch(f"int8 product {product}")


def default(workload: Workload, core: Core) -> Params:
    """Return the only parameters."""
    return Params()


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the only parameters."""
    return (Params(),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the instructions of one call."""
    product = _product(workload)
    words, tiles = _words(product), _pairs(product.columns) * -(-product.rows.count // ROWS)
    # Of a word: loads of two rows, a load and two widenings of each column, two products of each accumulator, the loop.
    inside = ROWS + COLUMNS * 3 + 2 * ROWS * COLUMNS + 2
    return product.rows.count * words * 6 + tiles * (words * inside + ROWS * COLUMNS * INSTRUCTIONS)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the weights as words [pairs of columns, words, 2], and offset and multiplier of each column."""
    product = _product(workload)
    columns, depth = _pairs(product.columns) * COLUMNS, _words(product) * WORD
    (weights,) = weights_by_column(workload, constants, product)
    offsets, multipliers = product_s8.offsets_and_multipliers(workload, constants, product)
    rest = columns - product.columns
    packed = np.pad(weights, ((0, rest), (0, depth - product.rows.depth)))
    words = np.ascontiguousarray(packed).view("<i4").reshape(-1, COLUMNS, depth // WORD)
    return (
        np.ascontiguousarray(words.transpose(0, 2, 1)).reshape(-1),
        np.pad(offsets, (0, rest)),
        np.pad(multipliers, (0, rest)).astype("float32"),
    )


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product = _product(workload)
    columns = _pairs(product.columns) * COLUMNS
    constants = [((columns * _words(product),), "int32"), ((columns,), "int32"), ((columns,), "float32")]
    arguments = [*((operand.shape, operand.dtype) for operand in workload.inputs), *constants]
    arguments.append((workload.output_shape, workload.output_dtype))
    symbol = "_".join(
        (workload.composite.replace(".", "_"), "dsp", *(step.name for step in workload.epilogue))
    )
    with kernel_function(symbol, arguments) as function:
        data = workload.operands[0]
        x = function.buffers[data.index]
        if product.pad is not None:
            x = copies.padded(x, data.shape, product.pad.widths, product.pad.value)
        emitter = _Emitter(product, x, *function.buffers[-4:])
        whole, rest = divmod(product.rows.count, ROWS)
        if whole:
            with T.serial(i64(0), i64(whole)) as pair:
                emitter.rows(T.Bind(pair * ROWS), ROWS)
        if rest:
            emitter.rows(i64(whole * ROWS), rest)
    assert function.prim_func is not None
    return function.prim_func


class _Emitter:
    """Emits the code of some rows of a product."""

    def __init__(
        self,
        product: IntegerProduct,
        x: tirx.Buffer,
        weights: tirx.Buffer,
        offsets: tirx.Buffer,
        multipliers: tirx.Buffer,
        y: tirx.Buffer,
    ) -> None:
        self._product, self._words = product, _words(product)
        self._x, self._weights, self._offsets, self._multipliers, self._y = (
            x,
            weights,
            offsets,
            multipliers,
            y,
        )

    def rows(self, first: ir.Expr, count: int) -> None:
        """Emit `count` rows from row `first` on."""
        product, words = self._product, self._words
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
        product, depth = self._product, self._words * WORD
        source = self._x
        if len(product.rows.segments) > 1 or product.rows.depth % WORD:
            source, at = T.alloc_buffer((depth,), str(self._x.dtype), layout=None), 0
            for offset, length in product.rows.segments:
                copies.copy(self._x, start + offset, source, i64(at), length)
                at += length
            # Weights are 0 there, whatever the row holds; but no memory is read that nothing has written.
            copies.fill(source, i64(at), depth - at, 0)
            start = i64(0)
        with T.serial(i64(0), i64(self._words)) as word:
            value = word_of(source, start + word * WORD, flipped=product.flipped)
            for half, odd in enumerate((False, True)):
                T.buffer_store(wide, dsp.sxtb16(value, odd=odd), [to + word * 2 + i64(half)])

    def _tile(self, wide: tirx.Buffer, targets: Sequence[ir.Expr], pair: ir.Expr, count: int) -> None:
        """Emit the sums of all rows by two columns, and the outputs of `count` of these."""
        rows = len(targets)
        acc = T.alloc_buffer((rows * COLUMNS,), "int32", layout=None)
        first = T.Bind(pair * COLUMNS)
        for column in range(COLUMNS):
            offset = load(self._offsets, first + column, 1)
            for row in range(rows):
                T.buffer_store(acc, offset, [i64(row * COLUMNS + column)])
        panel = T.Bind(first * self._words)
        with T.serial(i64(0), i64(self._words)) as word:
            data = [
                [load(wide, word * 2 + i64(row * self._words * 2 + half), 1) for half in range(2)]
                for row in range(rows)
            ]
            for column in range(COLUMNS):
                weights = load(self._weights, panel + word * COLUMNS + column, 1)
                halves = [T.Bind(dsp.sxtb16(weights, odd=odd)) for odd in (False, True)]
                for row in range(rows):
                    at = i64(row * COLUMNS + column)
                    total = load(acc, at, 1)
                    for half in range(2):
                        total = T.Bind(dsp.smlad(data[row][half], halves[half], total))
                    T.buffer_store(acc, total, [at])
        for column in range(count):
            multiplier = load(self._multipliers, first + column, 1)
            for row, target in enumerate(targets):
                value = requantized(load(acc, i64(row * COLUMNS + column), 1), multiplier, self._product.to)
                T.buffer_store(self._y, value, [target + first + column])


def _product(workload: Workload) -> IntegerProduct:
    return taken(product_s8.converted_product_of(workload, NAME), workload)


def _words(product: IntegerProduct) -> int:
    """Return the number of words of a row."""
    return -(-product.rows.depth // WORD)


def _pairs(count: int) -> int:
    return -(-count // COLUMNS)
