# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolution on SMULL and SMLAL, for cores without dotprod: eight channels, columns carried.

Two taps are summed in 16 bits, where the weights allow it, and then added to 32 bits (SADDW). Borders are code with
constants where the data would be: there is no padded copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import kernel_function, load, store
from schedules.intrinsics.pin import pins
from schedules.intrinsics.vector import high, low
from schedules.kernel import Array, Match, Rejection
from schedules.kernels import depthwise_bands, product_s8, threads
from schedules.kernels.chains import chain_of
from schedules.kernels.cost import Cost, arithmetic, requantization, scalar
from schedules.kernels.depthwise_bands import COLUMN_OVERHEAD, Block, bands, starts_of
from schedules.kernels.depthwise_engines import CHANNELS, HALVES, Mlal
from schedules.kernels.mlal_tile import LEAST
from schedules.kernels.product_s8 import Product, flip
from schedules.kernels.requantize_tile import requantize16
from schedules.kernels.windows import Window
from schedules.workload import Workload

NAME = "depthwise_s8_mlal"

LANES = 4
"""int32 lanes of a vector register."""

BAND = 2
"""Output rows that are computed together: what they share of three input rows stays in registers."""

UNROLL = 3
"""The most output columns of one loop iteration."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        unroll: Output columns of one loop iteration.
        chain: Products that are summed in 16 bits before they are widened: 2 is exact only for weights of which no
            two that meet are -128, 1 for all.
        parallel: Whether bands of rows are spread over the runtime's threads.
    """

    unroll: int
    chain: int = 1
    parallel: bool = False


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes small depthwise convolutions with one output a channel, on every core with NEON."""
    return depthwise_bands.matches(workload, core, NAME, "neon")


def default(workload: Workload, core: Core) -> Params:
    """As many columns as the carried ones take to be the same registers again."""
    carried = workload.operands[1].shape[2] - product_s8.pair(workload, "strides")[1]
    unroll = carried + 1 if 0 < carried <= UNROLL - 1 else 1
    return candidates(workload, core)[unroll - 1]


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """One to three columns; calls that are worth it in tasks for the threads."""
    chain = chain_of(workload)
    parallel = cost(workload, Params(1, chain)).cycles(core) >= threads.PARALLEL_CYCLES
    return tuple(Params(unroll, chain, parallel) for unroll in range(1, UNROLL + 1))


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core with all loads in L1."""
    return cost(workload, params).cycles(core)


def cost(workload: Workload, params: Params) -> Cost:
    """Instructions of one call: of each column and eight channels loads, products, sums, requantisation, stores."""
    product, window = _read(workload)
    rows, columns = window.output
    (height, width), (down, across) = window.kernel, window.strides
    taps = height * width
    sums = HALVES * -(-taps // params.chain)
    outputs = window.band * CHANNELS
    loads = ((window.band - 1) * down + height) * min(width, across)
    column = arithmetic(window.band * (taps + sums + 1.5)) + requantization(outputs, product.form, product.to)
    column += scalar(loads + COLUMN_OVERHEAD / params.unroll)
    count = -(-rows // window.band) * window.data[0]
    return column * (count * len(starts_of(window)) * columns)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Weights [block][tap][8 channels]; offsets and multipliers [block][8 channels]; all flat.

    Raises:
        ValueError: Two weights of -128 meet, and `params.chain` is 2.
    """
    product, window = _read(workload)
    w = constants[workload.operands[1].index][:, :, :, 0].reshape(window.data[3], -1)
    if params.chain > 1 and np.any((w[:, 1::2] == LEAST) & (w[:, : w.shape[1] // 2 * 2 : 2] == LEAST)):
        raise ValueError(f"{NAME}: two weights of -128 meet, whose products do not fit; take chain 1")
    offset, m = product_s8.offsets_and_multipliers(workload, constants, product)
    channels = np.array([range(start, start + CHANNELS) for start in starts_of(window)])
    weights = np.ascontiguousarray(w[channels].transpose(0, 2, 1))
    return weights.ravel(), offset[channels].ravel(), m[channels].ravel()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    product, window = _read(workload)
    size = len(starts_of(window)) * CHANNELS
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [
        ((size * window.kernel[0] * window.kernel[1],), "int8"),
        ((size,), "int32"),
        ((size,), "float32"),
    ]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function("arm_depthwise_s8_mlal", arguments) as function, pins():
        block = partial(_Block, product, window, params, function.buffers)
        bands(window, params.parallel, block)
    return function.prim_func


class _Block(Block):
    """See `depthwise_bands.Block`."""

    lanes = CHANNELS

    def __init__(
        self,
        product: Product,
        window: Window,
        params: Params,
        buffers: Sequence[tirx.Buffer],
        rows: int,
        valid: tuple[bool, ...],
        where: tuple[ir.Expr, ir.Expr],
        block: ir.Expr,
    ) -> None:
        self.product, self.window, self.rows, self.valid = product, window, rows, valid
        self.unroll, self.engine, self.parts = params.unroll, Mlal(params.chain), len(valid)
        (self.x, w, offset, m, self.output), (self.source, self.target) = buffers, where
        at, taps = block * CHANNELS, window.kernel[0] * window.kernel[1]
        self.start = [load(offset, at + LANES * v, LANES) for v in range(HALVES)]
        self.m = [load(m, at + LANES * v, LANES) for v in range(HALVES)]
        self.weights = [load(w, at * taps + CHANNELS * tap, CHANNELS) for tap in range(taps)]

    def column(self, place: ir.Expr | None) -> list[ir.Expr]:
        """The rows of one input column, int8x8 each."""
        channels, pad = self.window.data[3], self.product.pad
        border = tirx.IntImm(str(self.x.dtype), int(pad.value) if pad else 0)
        found = []
        for row, inside in enumerate(self.valid):
            if inside and place is not None:
                at = self.source + (place * channels + row * self.window.data[2] * channels)
                value = load(self.x, at, CHANNELS)
            else:
                value = tirx.Broadcast(border, CHANNELS)
            found.append(T.Bind(flip(value, self.product.flipped)))
        return found

    def outputs(self, x: ir.Expr, columns: Sequence[Sequence[ir.Expr]]) -> None:
        """Eight channels of one output column."""
        window, chain = self.window, self.engine.group
        height, width = window.kernel
        totals = []
        for row in range(self.rows):
            top, total = row * window.strides[0], list(self.start)
            data = [columns[tap % width][top + tap // width] for tap in range(height * width)]
            for first in range(0, len(data), chain):
                taps = tuple(range(first, min(first + chain, len(data))))
                total = self.engine.add(total, self.weights[first:], data[first:], taps)
            totals.append(total)
        channels, line = window.data[3], window.output[1] * window.data[3]
        below = self.rows - 1
        values = requantize16(
            self.product.form, [*totals[0], *totals[below]], [*self.m, *self.m], self.product.to
        )
        at, values = self.target + x * channels, T.Bind(values)
        store(self.output, low(values), at, CHANNELS)
        if below:
            store(self.output, high(values), at + line, CHANNELS)


def _read(workload: Workload) -> tuple[Product, Window]:
    product = depthwise_bands.product_of(workload, NAME)
    return product, depthwise_bands.window_of(workload, product, BAND)
