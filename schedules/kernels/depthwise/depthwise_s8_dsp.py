# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolutions on SMLAD of the DSP extension: four channels at a time, requantised by `qdq`.

Data of four channels is a word, which SXTB16 widens; PKHBT and PKHTB join the values of a channel at two taps to the
operand of an SMLAD, whose weights are such pairs already. A border is a copy in the workspace.
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

NAME = "depthwise_s8_dsp"

MOST_TAPS = 49
"""Most taps, which are unrolled."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel: none."""


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept depthwise convolutions of 8-bit data by constant int8 weights, on cores with DSP and an FPU."""
    product = product_s8.converted_product_of(workload, NAME)
    if isinstance(product, Diagnostic):
        return product
    if core.isa.name != DSP.name or not core.isa.has_fpu:
        return missing_feature(NAME, "dsp and vfp2sp", core)
    if product.groups == 1 or product.columns > 1 or any(length > 1 for _, length in product.rows.segments):
        actual = f"{product.groups} groups of {product.columns} outputs"
        return declined(NAME, "not depthwise", "an input and an output each group", actual, unfit=True)
    if product.rows.depth > MOST_TAPS:
        return declined(NAME, "kernel is too large", f"{MOST_TAPS} taps", str(product.rows.depth))
    if product.groups % WORD and product.pad is None:
        reason = "the last word of channels would reach behind the data"
        return declined(NAME, reason, f"a multiple of {WORD}, or a border", str(product.groups))
    return KernelMatch(f"int8 depthwise convolution of {product.groups} channels, {product.rows.depth} taps")


def default(workload: Workload, core: Core) -> Params:
    """Return the only parameters."""
    return Params()


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the only parameters."""
    return (Params(),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the instructions of one call."""
    product = _product(workload)
    # Of two taps: two loads and four widenings of data, four joins, two loads and four products of weights.
    sums = 16 * _pairs(product) + 2 * WORD
    border = np.prod(product.data) / 2 if product.pad else 0.0
    return float(border + product.rows.count * _words(product) * (sums + WORD * INSTRUCTIONS))


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return weights as pairs of 16 bits [words, pairs of taps, 4], and offset and multiplier of each channel."""
    product = _product(workload)
    rest = _words(product) * WORD - product.groups
    weights = weights_by_column(workload, constants, product)[:, 0, :].astype("<i2")
    offsets, multipliers = product_s8.offsets_and_multipliers(workload, constants, product)
    padded = np.pad(weights, ((0, rest), (0, 2 * _pairs(product) - product.rows.depth)))
    pairs = np.ascontiguousarray(padded).view("<i4").reshape(-1, WORD, _pairs(product))
    return (
        np.ascontiguousarray(pairs.transpose(0, 2, 1)).reshape(-1),
        np.pad(offsets, (0, rest)),
        np.pad(multipliers, (0, rest)).astype("float32"),
    )


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product = _product(workload)
    channels = _words(product) * WORD
    constants = [((channels * _pairs(product),), "int32"), ((channels,), "int32"), ((channels,), "float32")]
    arguments = [*((operand.shape, operand.dtype) for operand in workload.inputs), *constants]
    arguments.append((workload.output_shape, workload.output_dtype))
    symbol = "_".join(("arm_depthwise_s8_dsp", *(step.name for step in workload.epilogue)))
    with kernel_function(symbol, arguments) as function:
        data = workload.operands[0]
        x = function.buffers[data.index]
        if product.pad is not None:
            x = copies.padded(x, data.shape, product.pad.widths, product.pad.value)
        emitter = _Emitter(product, x, *function.buffers[-4:])
        whole, rest = divmod(product.groups, WORD)
        with T.serial(i64(0), i64(product.rows.count)) as row:
            start, target = T.Bind(product.rows.offset(row)), T.Bind(product.target(row))
            if whole:
                with T.serial(i64(0), i64(whole)) as word:
                    emitter.channels(start, target, word, WORD)
            if rest:
                emitter.channels(start, target, i64(whole), rest)
    assert function.prim_func is not None
    return function.prim_func


class _Emitter:
    """Emits the code of four channels of a pixel."""

    def __init__(
        self,
        product: IntegerProduct,
        x: tirx.Buffer,
        weights: tirx.Buffer,
        offsets: tirx.Buffer,
        multipliers: tirx.Buffer,
        y: tirx.Buffer,
    ) -> None:
        self._product, self._x, self._weights = product, x, weights
        self._offsets, self._multipliers, self._y = offsets, multipliers, y

    def channels(self, start: ir.Expr, target: ir.Expr, word: ir.Expr, count: int) -> None:
        """Emit the outputs of the first `count` of four channels."""
        first = T.Bind(word * WORD)
        for channel, total in enumerate(self._sums(T.Bind(start + first), word, first)[:count]):
            multiplier = load(self._multipliers, first + channel, 1)
            value = requantized(total, multiplier, self._product.to)
            T.buffer_store(self._y, value, [target + first + channel])

    def _sums(self, start: ir.Expr, word: ir.Expr, first: ir.Expr) -> list[ir.Expr]:
        product, pairs = self._product, _pairs(self._product)
        segments = [offset for offset, _ in product.rows.segments]
        sums = [load(self._offsets, first + channel, 1) for channel in range(WORD)]
        panel = T.Bind(word * (pairs * WORD))
        for pair in range(pairs):
            # A last tap without a partner is its own, with a weight of 0.
            taps = [segments[min(2 * pair + i, len(segments) - 1)] for i in range(2)]
            a, b = (word_of(self._x, start + tap, flipped=product.flipped) for tap in taps)
            for odd in (False, True):
                one, other = (T.Bind(dsp.sxtb16(each, odd=odd)) for each in (a, b))
                for high, join in ((0, dsp.pkhbt), (2, dsp.pkhtb)):
                    channel = high + odd
                    weights = load(self._weights, panel + (pair * WORD + channel), 1)
                    sums[channel] = T.Bind(dsp.smlad(T.Bind(join(one, other)), weights, sums[channel]))
        return sums


def _product(workload: Workload) -> IntegerProduct:
    return taken(product_s8.converted_product_of(workload, NAME), workload)


def _words(product: IntegerProduct) -> int:
    """Return the number of groups of four channels, the last of which may be in part."""
    return -(-product.groups // WORD)


def _pairs(product: IntegerProduct) -> int:
    """Return the number of pairs of taps."""
    return -(-product.rows.depth // 2)
