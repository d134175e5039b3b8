# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolution on SMULL and SMLAL, for cores without dotprod: eight channels, columns carried.

The products of two taps are summed in 16 bits, if the weights allow it, and then added to 32-bit sums (SADDW). Borders
have separate code, with constants instead of loads: there is no padded copy.

If the data or the results are int16, data and weights are widened to 16 bits and products summed in 32 bits (SMLAL), on
every core.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.pin import pinned, pins
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.reload import reloads
from schedules.intrinsics.smull import smlal16
from schedules.intrinsics.vector import high, low
from schedules.kernels.common import threads
from schedules.kernels.common.contract import Array, KernelMatch
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.depthwise import band_loops
from schedules.kernels.depthwise.accumulators_s8 import headers_of, pack_headers, requantized
from schedules.kernels.depthwise.band_loops import COLUMN_OVERHEAD, BandEmitter, bands, is_wide, starts_of
from schedules.kernels.depthwise.input_rows_s8 import DepthwiseWindow
from schedules.kernels.depthwise.instructions_s8 import CHANNELS, HALVES, Mlal
from schedules.kernels.gemm.product_s8 import IntegerProduct, flip, requantization_cost
from schedules.kernels.tiles.int16_chains import chain_of
from schedules.kernels.tiles.mlal_tile import LEAST
from schedules.tir.emit import kernel_function, load

NAME = "depthwise_s8_mlal"

BAND = 2
"""Output rows that are computed together: what they share of three input rows stays in registers."""

UNROLL = 3
"""The most output columns of one loop iteration."""

KEPT_COLUMNS = 2
"""Columns that are carried over and stay in registers beside the weights."""


@dataclass(frozen=True)
class Params:
    """Tiling parameters of the kernel.

    Attributes:
        unroll: Output columns of one loop iteration.
        chain: Number of products that are summed in 16 bits before they are widened: 1 is exact for all weights, 2
            unless both weights of a sum are -128.
        reload: Whether constants that an instruction overwrites are loaded before each use instead of copied.
        parallel: Whether bands of rows are spread over the runtime's threads.
    """

    unroll: int
    chain: int = 1
    reload: bool = True
    parallel: bool = False


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept small depthwise convolutions of int8 or int16 with one output per input channel, on cores with NEON."""
    return band_loops.matches(workload, core, NAME, "neon", wide=True)


def default(workload: Workload, core: Core) -> Params:
    """Return parameters with two output columns per iteration if few input columns are carried, else one.

    Three columns may spill.
    """
    carried = workload.operands[1].shape[2] - ConvolutionAttributes.of(workload).strides[1]
    return candidates(workload, core)[1 if 0 < carried <= KEPT_COLUMNS else 0]


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return parameters with one to three output columns per iteration; those of long calls are parallel."""
    chain = 1 if is_wide(workload) else chain_of(workload)
    parallel = estimate(workload, Params(1, chain), core) >= threads.PARALLEL_CYCLES
    return tuple(Params(unroll, chain, not core.in_order, parallel) for unroll in range(1, UNROLL + 1))


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1; only one pipe executes 16-bit products."""
    return max(cost(workload, params).cycles(core), _wide_products(workload))


def _wide_products(workload: Workload) -> float:
    """Return the number of instructions that multiply int16 data."""
    taps = math.prod(workload.operands[1].shape[1:3])
    return math.prod(workload.output_shape) / LANES * taps if is_wide(workload) else 0.0


def cost(workload: Workload, params: Params) -> Cost:
    """Return the cost of one call: loads, products, additions, requantisation and stores."""
    product, window = _read(workload, params)
    rows, columns = window.output
    (height, width), (down, across) = window.kernel, window.strides
    taps = height * width
    products = HALVES * taps if is_wide(workload) else taps + HALVES * -(-taps // params.chain)
    outputs = window.band * CHANNELS
    loads = ((window.band - 1) * down + height) * min(width, across)
    column = arithmetic(window.band * (products + 1.5)) + requantization_cost(
        product, outputs, reload=params.reload
    )
    # Loads of weights, if there are too many for registers.
    column += scalar(taps if taps > band_loops.MOST_TAPS else 0)
    column += scalar(loads + COLUMN_OVERHEAD / params.unroll)
    count = -(-rows // window.band) * window.data[0]
    return column * (count * len(starts_of(window)) * columns)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the weights [block][tap][8 channels], taps column by column, and the blocks' headers; both flat.

    Raises:
        ValueError: Two weights of -128 are in one 16-bit sum (`params.chain` is 2).
    """
    product, window = _read(workload, params)
    w = constants[workload.operands[1].index][..., 0].transpose(0, 2, 1).reshape(window.data[3], -1)
    if params.chain > 1 and np.any((w[:, 1::2] == LEAST) & (w[:, : w.shape[1] // 2 * 2 : 2] == LEAST)):
        raise ValueError(f"{NAME}: two weights of -128 are in one 16-bit sum, which overflows; use chain=1")
    channels = np.array([range(start, start + CHANNELS) for start in starts_of(window)])
    weights = np.ascontiguousarray(w[channels].transpose(0, 2, 1)).astype(_weights_dtype(workload))
    return weights.ravel(), pack_headers(workload, headers_of(product), constants, channels)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product, window = _read(workload, params)
    size = len(starts_of(window)) * CHANNELS
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [
        ((size * window.kernel[0] * window.kernel[1],), _weights_dtype(workload)),
        ((size // CHANNELS * headers_of(product).bytes,), "int8"),
    ]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function("arm_depthwise_s8_mlal", arguments) as function, pins(), reloads():
        block = partial(
            _WideBlock if is_wide(workload) else _SmlalBlock,
            params.chain,
            product,
            window,
            params.unroll,
            params.reload,
            headers_of(product),
            function.buffers,
        )
        bands(window, params.parallel, block)
    return function.prim_func


class _SmlalBlock(BandEmitter):
    """Emitter of eight channels of one band by SMULL and SMLAL."""

    lanes = CHANNELS

    def __init__(self, chain: int, *where: Any) -> None:
        super().__init__(*where)
        self.engine, self.parts = Mlal(chain), len(self.valid)
        taps = self.window.kernel[0] * self.window.kernel[1]
        self.weights = [load(self.w, (where[-1] * taps + tap) * CHANNELS, CHANNELS) for tap in range(taps)]

    def column(self, place: ir.Expr | None) -> list[ir.Expr]:
        """Return the rows of one input column, int8x8 each."""
        rows = (self.row(place, row) for row in range(self.parts))
        return [T.Bind(flip(value, self.product.flipped)) for value in rows]

    def sums(self, columns: Iterator[Sequence[ir.Expr]]) -> list[list[ir.Expr]]:
        """Emit the accumulators of each row, from an iterator over the input columns."""
        (height, width), chain = self.window.kernel, self.engine.group
        # The offsets are loaded for each column (2 LDP of 157 instructions): if they stayed in registers, LLVM would
        # spill a vector on Cortex-A53.
        totals, data = [self.header.offsets()] * self.rows, []
        for column, values in enumerate(columns):
            for tap in range(column * height, (column + 1) * height):
                data.append(values[tap - column * height :: self.window.strides[0]])
                if len(data) == chain or tap == height * width - 1:
                    weights = self.weights[tap + 1 - len(data) :]
                    for row, total in enumerate(totals):
                        met = [each[row] for each in data]
                        sums = self.engine.add(total, weights, met, tuple(range(len(data))))
                        totals[row] = [T.Bind(pinned(each)) for each in sums]
                    data.clear()
        return totals


class _WideBlock(_SmlalBlock):
    """Emitter of eight channels of one band with data and weights of 16 bits."""

    dtype = "int16"

    def column(self, place: ir.Expr | None) -> list[ir.Expr]:
        """Return the rows of one input column, int16x8 each."""
        rows = (self.row(place, row) for row in range(self.parts))
        return [T.Bind(tirx.Cast(f"int16x{CHANNELS}", value)) for value in rows]

    def sums(self, columns: Iterator[Sequence[ir.Expr]]) -> list[list[ir.Expr]]:
        """Emit the accumulators of each row, from an iterator over the input columns."""
        height, stride = self.window.kernel[0], self.window.strides[0]
        totals = self.header.starts_of(self.rows)
        for column, values in enumerate(columns):
            for row, total in enumerate(totals):
                for tap in range(height):
                    factors = values[row * stride + tap], self.weights[column * height + tap]
                    total = [smlal16(total[v], *map(half, factors)) for v, half in enumerate((low, high))]
                totals[row] = [T.Bind(pinned(each)) for each in total]
        return totals


def _weights_dtype(workload: Workload) -> str:
    return "int16" if is_wide(workload) else "int8"


def _read(workload: Workload, params: Params) -> tuple[IntegerProduct, DepthwiseWindow]:
    product = requantized(band_loops.product_of(workload, NAME), reload=params.reload)
    return product, band_loops.window_of(workload, product, BAND)
