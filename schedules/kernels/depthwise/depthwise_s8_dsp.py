# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolutions on SMLAD of the DSP extension: four channels at a time, with requantisation.

Data of four channels is a word, which SXTB16 widens; PKHBT and PKHTB join the values of a channel at two taps to the
operand of an SMLAD, whose weights are such pairs already.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import ir
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import DSP, THUMB, Core
from schedules.intrinsics import dsp
from schedules.intrinsics.dsp import WORD
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues.requantize_dsp import INSTRUCTIONS, requantized, word_of
from schedules.kernels.gemm.converted_product import ConvertedKernel, Operands
from schedules.kernels.gemm.converted_product import Params as Params
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.tir.emit import load

NAME = "depthwise_s8_dsp"


class _Smlad(ConvertedKernel):
    name, suffix, isa, needs, step = NAME, "depthwise_dsp", DSP, "dsp and vfp2sp", WORD
    depthwise = True

    def runs_on(self, core: Core) -> bool:
        return core.isa.name != THUMB.name and core.isa.has_fpu

    def cost(self, workload: Workload, product: IntegerProduct) -> float:
        # Of two taps: two loads and four widenings of data, four joins, two loads and four products of weights.
        sums = 16 * _pairs(product) + 2 * WORD
        words = self.padded_columns(product) // WORD
        return product.rows.count * words * (sums + WORD * INSTRUCTIONS)

    def packed(self, product: IntegerProduct, weights: Array) -> Array:
        """Return weights as pairs of 16 bits [words of channels, pairs of taps, 4]."""
        rest = 2 * _pairs(product) - product.rows.depth
        halves = np.ascontiguousarray(np.pad(weights.astype("<i2"), ((0, 0), (0, rest))))
        return halves.view("<i4").reshape(-1, WORD, _pairs(product)).transpose(0, 2, 1)

    def definitions(self) -> AbstractContextManager[Any]:
        return dsp.definitions()

    def emit(self, workload: Workload, operands: Operands) -> None:
        emitter = _Emitter(**vars(operands))
        emitter.each_channels(WORD, emitter.channels)


@dataclass(frozen=True)
class _Emitter(Operands):
    """Emits the code of four channels of a pixel."""

    def channels(self, start: ir.Expr, target: ir.Expr, word: ir.Expr, count: int) -> None:
        """Emit the outputs of the first `count` of four channels."""
        first = T.Bind(word * WORD)
        for channel, total in enumerate(self._sums(T.Bind(start + first), word, first)[:count]):
            multiplier = load(self.multipliers, first + channel, 1)
            value = requantized(total, multiplier, self.product.to, self.product.form)
            T.buffer_store(self.y, value, [target + first + channel])

    def _sums(self, start: ir.Expr, word: ir.Expr, first: ir.Expr) -> list[ir.Expr]:
        product, pairs = self.product, _pairs(self.product)
        segments = [offset for offset, _ in product.rows.segments]
        sums = [load(self.offsets, first + channel, 1) for channel in range(WORD)]
        panel = T.Bind(word * (pairs * WORD))
        for pair in range(pairs):
            # A last tap without a partner is its own, with a weight of 0.
            taps = [segments[min(2 * pair + i, len(segments) - 1)] for i in range(2)]
            a, b = (word_of(self.x, start + tap, flipped=product.flipped) for tap in taps)
            for odd in (False, True):
                one, other = (T.Bind(dsp.sxtb16(each, odd=odd)) for each in (a, b))
                for high, join in ((0, dsp.pkhbt), (2, dsp.pkhtb)):
                    channel = high + odd
                    weights = load(self.weights, panel + (pair * WORD + channel), 1)
                    sums[channel] = T.Bind(dsp.smlad(T.Bind(join(one, other)), weights, sums[channel]))
        return sums


def _pairs(product: IntegerProduct) -> int:
    """Return the number of pairs of taps."""
    return -(-product.rows.depth // 2)


_KERNEL = _Smlad()
matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build
