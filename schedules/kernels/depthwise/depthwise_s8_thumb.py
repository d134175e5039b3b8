# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolutions on Cortex-M without SIMD: one channel at a time, with requantisation in integers."""

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues import requantize_thumb
from schedules.kernels.gemm.converted_product import Operands
from schedules.kernels.gemm.converted_product import Params as Params
from schedules.kernels.gemm.gemm_s8_thumb import ThumbKernel, ThumbOperands
from schedules.kernels.gemm.product_s8 import FLIP, IntegerProduct
from schedules.tir.emit import i64, load

NAME = "depthwise_s8_thumb"


class _Thumb(ThumbKernel):
    name, suffix, step = NAME, "depthwise_thumb", 1
    depthwise = True

    def cost(self, workload: Workload, product: IntegerProduct) -> float:
        outputs = product.rows.count * product.groups
        return outputs * (6 * product.rows.depth + requantize_thumb.INSTRUCTIONS + 8)

    def packed(self, product: IntegerProduct, weights: Array) -> Array:
        """Return weights [channels, taps]."""
        return weights

    def emit(self, workload: Workload, operands: Operands) -> None:
        operands.each_channels(1, _Emitter.of(workload, operands).channel)


@dataclass(frozen=True)
class _Emitter(ThumbOperands):
    """Emits the code of a channel of a pixel."""

    def channel(self, start: ir.Expr, target: ir.Expr, channel: ir.Expr, count: int) -> None:
        """Emit the output of a channel, given the pixel's offsets in data and output."""
        product = self.product
        depth, first = product.rows.depth, T.Bind(start + channel)
        total = load(self.offsets, channel, 1)
        for tap, (offset, _) in enumerate(product.rows.segments):
            x = load(self.x, first + offset, 1)
            if product.flipped:
                x = T.Bind(tirx.reinterpret("int8", x ^ tirx.IntImm("uint8", FLIP)))
            w = load(self.weights, channel * depth + i64(tap), 1)
            total = T.Bind(total + tirx.Cast("int32", x) * tirx.Cast("int32", w))
        self.store(total, channel, T.Bind(target + channel))


_KERNEL = _Thumb()
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
