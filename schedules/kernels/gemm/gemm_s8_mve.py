# SPDX-License-Identifier: Apache-2.0
"""int8 convolutions and linear layers on VMLADAVA of Helium: implicit GEMM, requantised by `qdq`.

A row of A is read in vectors of 16 bytes: in place where it is contiguous, else from a copy that ends in zeros. Up to
four vectors of a row stay in registers while weights stream past; longer rows are read again for each four columns.
Each sum begins with its column's offset. Sixteen sums are rounded and narrowed together: VQMOVNB and VQMOVNT interleave
their operands, for which columns are permuted at compile time. A pointwise convolution of 125 x 64 x 64 takes 108,768
instructions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import MVE, Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import mve
from schedules.intrinsics.opaque import opaque_view, opaques
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.epilogues.requantize_mve import (
    COLUMNS,
    INSTRUCTIONS,
    LANES,
    VECTOR,
    in_order,
    requantized,
    store_columns,
)
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.product import weights_by_column
from schedules.kernels.gemm.product_s8 import IntegerProduct, flip
from schedules.tir.emit import i64, kernel_function, load

NAME = "gemm_s8_mve"

TOGETHER = 4
"""Columns whose sums are computed together for a row that is too long for registers."""

HELD = 4
"""Vectors of a row that stay in registers: of eight, weights take one and sums of the requantisation the others."""

PAIRED = 2
"""Columns that share an address: a load reaches 112 bytes, and LLVM keeps more addresses on the stack."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel: none."""


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept products of one group of 8-bit data by constant int8 weights, on cores with MVE and its floats."""
    product = product_s8.converted_product_of(workload, NAME)
    if isinstance(product, Diagnostic):
        return product
    if core.isa.name != MVE.name or not core.isa.rounds:
        return missing_feature(NAME, "mve.fp", core)
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
    """Return the instructions of one call; a vector instruction takes one cycle behind one of another unit."""
    product = _product(workload)
    chunks, blocks = _chunks(product), _blocks(product)
    held = chunks <= HELD
    # A load of weights and a product for each vector, the row's loads, and start and end of each sum.
    sums = COLUMNS * (2 * chunks + 2) + (0 if held else COLUMNS // TOGETHER * (chunks + 4))
    staged = (
        0 if _in_place(product) else sum(2 * -(-length // VECTOR) + 4 for _, length in product.rows.segments)
    )
    return product.rows.count * (blocks * (sums + INSTRUCTIONS) + staged + 6)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the weights, and offset and multiplier of each column, in the order of the sums."""
    product = _product(workload)
    columns, depth = _blocks(product) * COLUMNS, _chunks(product) * VECTOR
    (weights,) = weights_by_column(workload, constants, product)
    offsets, multipliers = product_s8.offsets_and_multipliers(workload, constants, product)
    order = in_order(columns)
    rest = columns - product.columns
    packed = np.pad(weights, ((0, rest), (0, depth - product.rows.depth)))[order]
    if _chunks(product) > HELD:
        fours = packed.reshape(columns // TOGETHER, TOGETHER, depth // VECTOR, VECTOR)
        packed = fours.transpose(0, 2, 1, 3)
    return (
        np.ascontiguousarray(packed).reshape(-1),
        np.pad(offsets, (0, rest))[order],
        np.pad(multipliers, (0, rest))[order].astype("float32"),
    )


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product = _product(workload)
    columns = _blocks(product) * COLUMNS
    constants = [
        ((columns * _chunks(product) * VECTOR,), "int8"),
        ((columns,), "int32"),
        ((columns,), "float32"),
    ]
    arguments = [*((operand.shape, operand.dtype) for operand in workload.inputs), *constants]
    arguments.append((workload.output_shape, workload.output_dtype))
    symbol = "_".join(
        (workload.composite.replace(".", "_"), "mve", *(step.name for step in workload.epilogue))
    )
    with kernel_function(symbol, arguments) as function, opaques():
        x = function.buffers[workload.operands[0].index]
        _Emitter(product, workload.operands[0].shape, x, *function.buffers[-4:]).emit()
    assert function.prim_func is not None
    return function.prim_func


class _Emitter:
    """Emits the code of a product."""

    def __init__(
        self,
        product: IntegerProduct,
        shape: Sequence[int],
        x: tirx.Buffer,
        weights: tirx.Buffer,
        offsets: tirx.Buffer,
        multipliers: tirx.Buffer,
        y: tirx.Buffer,
    ) -> None:
        self._product, self._shape = product, shape
        self._chunks = _chunks(product)
        self._x, self._weights, self._offsets, self._multipliers, self._y = (
            x,
            weights,
            offsets,
            multipliers,
            y,
        )

    def emit(self) -> None:
        product = self._product
        pad = product.pad
        x = self._x
        if pad is not None:
            x = copies.padded(x, self._shape, pad.widths, pad.value)
        with T.serial(i64(0), i64(product.rows.count)) as row:
            start = T.Bind(product.rows.offset(row))
            if not _in_place(product):
                source, start = self._staged(x, start), i64(0)
            else:
                source = x
            target = T.Bind(product.target(row))
            held = [self._row(source, start, i) for i in range(self._chunks)] if self._chunks <= HELD else []
            whole, rest = divmod(product.columns, COLUMNS)
            if whole:
                with T.serial(i64(0), i64(whole)) as block:
                    self._store(self._sums(source, start, held, block), block, target, COLUMNS)
            if rest:
                self._store(self._sums(source, start, held, i64(whole)), i64(whole), target, rest)

    def _staged(self, x: tirx.Buffer, start: ir.Expr) -> tirx.Buffer:
        """Emit a contiguous copy of a row, with zeros up to a whole vector."""
        depth = self._chunks * VECTOR
        row = T.alloc_buffer((depth,), str(x.dtype), layout=None)
        at = 0
        for offset, length in self._product.rows.segments:
            copies.copy(x, start + offset, row, i64(at), length)
            at += length
        # Weights are 0 there, whatever the row holds; but no memory is read that nothing has written.
        copies.fill(row, i64(at), depth - at, 0)
        return row

    def _row(self, source: tirx.Buffer, start: ir.Expr, chunk: ir.Expr | int) -> ir.Expr:
        return T.Bind(flip(load(source, start + chunk * VECTOR, VECTOR), self._product.flipped))

    def _sums(
        self, source: tirx.Buffer, start: ir.Expr, held: Sequence[ir.Expr], block: ir.Expr
    ) -> tirx.Buffer:
        """Emit the sums of sixteen columns, in the order of the packed constants."""
        acc = T.alloc_buffer((COLUMNS,), "int32", layout=None)
        if held:
            for column in range(COLUMNS):
                if column % PAIRED == 0:
                    first = T.Bind((block * COLUMNS + column) * (self._chunks * VECTOR))
                    view = opaque_view(self._weights, first)
                total = load(self._offsets, block * COLUMNS + column, 1)
                for chunk, vector in enumerate(held):
                    at = i64((column % PAIRED * self._chunks + chunk) * VECTOR)
                    total = T.Bind(mve.vmladava(total, vector, load(view, at, VECTOR)))
                T.buffer_store(acc, total, [i64(column)])
            return acc
        with T.serial(i64(0), i64(COLUMNS // TOGETHER)) as four:
            part = T.alloc_buffer((TOGETHER,), "int32", layout=None)
            first = T.Bind(block * COLUMNS + four * TOGETHER)
            for column in range(TOGETHER):
                T.buffer_store(part, load(self._offsets, first + column, 1), [i64(column)])
            panel = T.Bind(first * (self._chunks * VECTOR))
            with T.serial(i64(0), i64(self._chunks)) as chunk:
                vector = self._row(source, start, chunk)
                at = T.Bind(panel + chunk * (TOGETHER * VECTOR))
                for column in range(TOGETHER):
                    weights = load(self._weights, at + column * VECTOR, VECTOR)
                    total = mve.vmladava(load(part, i64(column), 1), vector, weights)
                    T.buffer_store(part, total, [i64(column)])
            for column in range(TOGETHER):
                T.buffer_store(acc, load(part, i64(column), 1), [four * TOGETHER + column])
        return acc

    def _store(self, acc: tirx.Buffer, block: ir.Expr, target: ir.Expr, count: int) -> None:
        """Emit requantisation and store of sixteen sums, of which `count` are columns of the product."""
        fours = [i64(four * LANES) for four in range(COLUMNS // LANES)]
        sums = [load(acc, four, LANES) for four in fours]
        multipliers = [load(self._multipliers, block * COLUMNS + four, LANES) for four in fours]
        value = requantized(sums, multipliers, self._product.to)
        start = T.Bind(target + block * COLUMNS)
        store_columns(self._y, value, start, count, self._product.to.dtype)


def _product(workload: Workload) -> IntegerProduct:
    return taken(product_s8.converted_product_of(workload, NAME), workload)


def _chunks(product: IntegerProduct) -> int:
    """Return the number of vectors of a row."""
    return -(-product.rows.depth // VECTOR)


def _blocks(product: IntegerProduct) -> int:
    """Return the number of groups of sixteen columns, the last of which may be in part."""
    return -(-product.columns // COLUMNS)


def _in_place(product: IntegerProduct) -> bool:
    """Whether a row is read where it is: contiguous, in whole vectors."""
    return len(product.rows.segments) == 1 and product.rows.depth % VECTOR == 0
