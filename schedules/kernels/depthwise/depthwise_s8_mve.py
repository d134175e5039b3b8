# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolutions on Helium: sixteen channels at a time, with requantisation.

VMULLB and VMULLT multiply the even and odd channels to 16 bits. The products of two taps are added there, which cannot
overflow where no weight is -128, and are then widened and added to 32 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import MVE, Core
from schedules.intrinsics import mve
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
from schedules.tir.emit import i64, load, store

NAME = "depthwise_s8_mve"

LEAST = 127
"""Greatest |weight| of which two products with int8 fit 16 bits together."""


class _Vmull(ConvertedKernel):
    name, suffix, isa, needs, step = NAME, "depthwise_mve", MVE, "mve.fp", COLUMNS
    depthwise = True

    def runs_on(self, core: Core) -> bool:
        return core.isa.name == MVE.name and core.isa.rounds

    def cost(self, workload: Workload, product: IntegerProduct) -> float:
        sums = 4 * product.rows.depth + 10 * len(_taps(workload, product)) + LANES
        blocks = self.padded_columns(product) // COLUMNS
        return product.rows.count * (blocks * (sums + INSTRUCTIONS) + 4)

    def order(self, columns: int) -> Array:
        return in_order(columns)

    def packed(self, product: IntegerProduct, weights: Array) -> Array:
        """Return weights [blocks of channels, taps, 16]."""
        return weights.reshape(-1, COLUMNS, product.rows.depth).transpose(0, 2, 1)

    def emit(self, workload: Workload, operands: Operands) -> None:
        emitter = _Emitter(**vars(operands), taps=_taps(workload, operands.product))
        emitter.each_channels(COLUMNS, emitter.channels)


@dataclass(frozen=True)
class _Emitter(Operands):
    """Emits the code of sixteen channels of a pixel, with the taps whose products are added in 16 bits."""

    taps: Sequence[range]

    def channels(self, start: ir.Expr, target: ir.Expr, block: ir.Expr, count: int) -> None:
        """Emit the outputs of the first `count` of sixteen channels."""
        first, to = T.Bind(block * COLUMNS), self.product.to
        acc = self._sums(start + first, block)
        scales = [load(self.multipliers, first + i64(LANES * i), LANES) for i in range(LANES)]
        store_columns(
            self.y, requantized(acc, scales, to, self.product.form), T.Bind(target + first), count, to.dtype
        )

    def _sums(self, start: ir.Expr, block: ir.Expr) -> list[ir.Expr]:
        """Emit the sums of sixteen channels, four vectors in the order of the packed constants."""
        product, depth = self.product, self.product.rows.depth
        segments = [offset for offset, _ in product.rows.segments]
        start, panel = T.Bind(start), T.Bind(block * (depth * VECTOR))
        acc = T.alloc_buffer((COLUMNS,), "int32", layout=None)
        for four in range(LANES):
            store(acc, load(self.offsets, block * COLUMNS + LANES * four, LANES), i64(LANES * four), LANES)
        for taps in self.taps:
            halves: list[ir.Expr] = []
            for tap in taps:
                data = T.Bind(flip(load(self.x, start + segments[tap], VECTOR), product.flipped))
                weight = load(self.weights, panel + tap * VECTOR, VECTOR)
                products = [T.Bind(mve.vmull(data, weight, odd=odd)) for odd in (False, True)]
                halves = (
                    [T.Bind(a + b) for a, b in zip(halves, products, strict=True)] if halves else products
                )
            wide = [mve.vmovl(half, odd=odd) for half in halves for odd in (False, True)]
            for four, value in enumerate(wide):
                store(acc, load(acc, i64(LANES * four), LANES) + value, i64(LANES * four), LANES)
        return [load(acc, i64(LANES * four), LANES) for four in range(LANES)]


def _taps(workload: Workload, product: IntegerProduct) -> list[range]:
    """Return the taps whose products are added in 16 bits: two each, or one if a weight may be -128."""
    depth, limit = product.rows.depth, workload.magnitude
    step = 2 if limit is not None and limit.weight <= LEAST else 1
    return [range(first, min(first + step, depth)) for first in range(0, depth, step)]


_KERNEL = _Vmull()
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
