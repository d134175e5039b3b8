# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolution on SMULL and SMLAL, for cores without dotprod: eight channels, columns carried.

Two taps are summed in 16 bits, where the weights allow it, and then added to 32 bits (SADDW). Borders are code with
constants where the data would be: there is no padded copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load, store
from schedules.intrinsics.pin import pinned, pins
from schedules.intrinsics.smull import saddw, smlal, smull
from schedules.intrinsics.vector import high, low
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import product_s8, threads
from schedules.kernels.chains import chain_of
from schedules.kernels.cost import Cost, arithmetic, requantization, scalar
from schedules.kernels.mlal_tile import LEAST
from schedules.kernels.product_s8 import Product, flip
from schedules.kernels.requantize_tile import requantize16
from schedules.kernels.windows import Window
from schedules.workload import Workload

NAME = "depthwise_s8_mlal"

CHANNELS = 8
"""Channels that are computed together; the last eight overlap those before them where eight does not divide them."""

LANES = 4
"""int32 lanes of a vector register."""

HALVES = CHANNELS // LANES
"""Vectors of the accumulators of eight channels."""

COLUMN_OVERHEAD = 6
"""Scalar instructions and moves of a column."""


KEPT_WEIGHTS = 9
"""Taps whose weights stay in registers beside the data."""

UNROLL = 3
"""The most output columns of one loop iteration."""


class Rows(Window):
    """Bands of two output rows: what they share of three input rows stays in registers."""

    @property
    def band(self) -> int:
        """Output rows that are computed together."""
        return 2


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
    """Takes depthwise convolutions with one output a channel, on every core with NEON."""
    product = product_s8.product_of(workload, NAME)
    if isinstance(product, Rejection):
        return product
    channels = product.data[-1]
    if workload.composite != "arm.conv2d_s8" or product.groups != channels or product.columns != 1:
        grouped = f"{product.groups} groups of {product.columns} outputs for {channels} channels"
        return Rejection(NAME, "not depthwise", "a group and an output each channel", grouped)
    dilation = product_s8.pair(workload, "dilation")
    if dilation != (1, 1):
        return Rejection(NAME, "kernel is dilated", "(1, 1)", str(dilation))
    if channels < CHANNELS:
        return Rejection(NAME, "too few channels", f"{CHANNELS} or more", str(channels))
    if not core.neon:
        return Rejection(NAME, "the core lacks a feature", "neon", core.name)
    height, width = workload.operands[1].shape[1:3]
    return Match(f"int8 depthwise {height} x {width} of {channels} channels")


def default(workload: Workload, core: Core) -> Params:
    """As many columns as the carried ones take to be the same registers again; one where weights are not kept."""
    height, width = workload.operands[1].shape[1:3]
    carried = width - product_s8.pair(workload, "strides")[1]
    unroll = carried + 1 if height * width <= KEPT_WEIGHTS and 0 < carried <= UNROLL - 1 else 1
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
    product = _product(workload)
    window = _window(workload, product)
    rows, columns = window.output
    (height, width), (down, across) = window.kernel, window.strides
    taps = height * width
    sums = HALVES * -(-taps // params.chain)
    outputs = window.band * CHANNELS
    loads = ((window.band - 1) * down + height) * min(width, across)
    column = arithmetic(window.band * (taps + sums + 1.5)) + requantization(outputs, product.form, product.to)
    column += scalar(loads + COLUMN_OVERHEAD / params.unroll)
    bands = -(-rows // window.band) * window.data[0]
    return column * (bands * len(_starts(window)) * columns)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Weights [block][tap][8 channels]; offsets and multipliers [block][8 channels]; all flat.

    Raises:
        ValueError: Two weights of -128 meet, and `params.chain` is 2.
    """
    product = _product(workload)
    window = _window(workload, product)
    w = constants[workload.operands[1].index][:, :, :, 0].reshape(window.data[3], -1)
    if params.chain > 1 and np.any((w[:, 1::2] == LEAST) & (w[:, : w.shape[1] // 2 * 2 : 2] == LEAST)):
        raise ValueError(f"{NAME}: two weights of -128 meet, whose products do not fit; take chain 1")
    offset, m = product_s8.offsets_and_multipliers(workload, constants, product)
    channels = np.array([range(start, start + CHANNELS) for start in _starts(window)])
    weights = np.ascontiguousarray(w[channels].transpose(0, 2, 1))
    return weights.ravel(), offset[channels].ravel(), m[channels].ravel()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    product = _product(workload)
    window = _window(workload, product)
    size = len(_starts(window)) * CHANNELS
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [
        ((size * window.kernel[0] * window.kernel[1],), "int8"),
        ((size,), "int32"),
        ((size,), "float32"),
    ]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function("arm_depthwise_s8_mlal", arguments) as function, pins():
        _Emitter(product, window, params, function.buffers).bands()
    return function.prim_func


class _Emitter:
    """Emits the parts of one kernel, from bands of rows inwards."""

    def __init__(
        self, product: Product, window: Rows, params: Params, buffers: Sequence[tirx.Buffer]
    ) -> None:
        self.product, self.window, self.params = product, window, params
        self.x, self.w, self.offset, self.m, self.output = buffers
        self.pitch = window.data[2] * window.data[3]

    def bands(self) -> None:
        """A task is one band of output rows; bands at the borders are code of their own."""
        runs = self.window.runs()
        bands = sum(count for _, count, _ in runs)
        images = self.window.data[0]
        with (T.parallel if self.params.parallel else T.serial)(i64(0), i64(images * bands)) as task:
            if images == 1:
                self.run(runs, i64(0), task)
            else:
                self.run(runs, T.Bind(tirx.floordiv(task, bands)), T.Bind(tirx.floormod(task, bands)))

    def run(
        self, runs: Sequence[tuple[int, int, tuple[int, tuple[bool, ...]]]], image: ir.Expr, band: ir.Expr
    ) -> None:
        """Finds the kind of a band."""
        first, count, (rows, valid) = runs[0]
        if len(runs) == 1:
            self.band(image, band, rows, valid)
            return
        with T.If(band < first + count):
            with T.Then():
                self.band(image, band, rows, valid)
            with T.Else():
                self.run(runs[1:], image, band)

    def band(self, image: ir.Expr, band: ir.Expr, rows: int, valid: tuple[bool, ...]) -> None:
        """All columns of a band, eight channels after eight."""
        window = self.window
        _, height, _, channels = window.data
        out_h, out_w = window.output
        top = band * (window.band * window.strides[0]) - window.pads[0]
        source = T.Bind((image * height + top) * self.pitch)
        target = T.Bind((image * out_h + band * window.band) * (out_w * channels))
        with T.serial(i64(0), i64(len(_starts(window)))) as block:
            start = T.Bind(tirx.min(block * CHANNELS, i64(channels - CHANNELS)))
            _Block(self, rows, valid, (source + start, target + start), block).columns()


class _Block:
    """Eight channels of one band."""

    def __init__(
        self,
        kernel: _Emitter,
        rows: int,
        valid: tuple[bool, ...],
        where: tuple[ir.Expr, ir.Expr],
        block: ir.Expr,
    ) -> None:
        self.kernel, self.rows, self.valid, (self.source, self.target) = kernel, rows, valid, where
        taps = kernel.window.kernel[0] * kernel.window.kernel[1]
        at = block * CHANNELS
        self.start = [load(kernel.offset, at + LANES * v, LANES) for v in range(HALVES)]
        self.m = [load(kernel.m, at + LANES * v, LANES) for v in range(HALVES)]
        self.weights = [load(kernel.w, at * taps + CHANNELS * tap, CHANNELS) for tap in range(taps)]

    def columns(self) -> None:
        """Border columns unrolled, the others in a loop that carries what neighbours share."""
        window, unroll = self.kernel.window, self.kernel.params.unroll
        first, last = window.inner_columns()
        trips = (last - first) // unroll
        loop_end = first + trips * unroll if trips > 1 else first
        self.unrolled(range(first))
        if trips > 1:
            self.loop(first, trips)
        self.unrolled(range(loop_end, window.output[1]))

    def unrolled(self, outputs: range) -> None:
        """Output columns as straight code; what lies outside of the data is a constant."""
        window = self.kernel.window
        known: dict[int, list[ir.Expr]] = {}
        for x in outputs:
            places = [x * window.strides[1] - window.pads[1] + column for column in range(window.kernel[1])]
            for place in places:
                if place not in known:
                    known[place] = self.column(i64(place) if 0 <= place < window.data[2] else None)
            self.outputs(i64(x), [known[place] for place in places])

    def loop(self, first: int, trips: int) -> None:
        """`trips` iterations of `unroll` output columns from `first`."""
        window, unroll = self.kernel.window, self.kernel.params.unroll
        stride, width = window.strides[1], window.kernel[1]
        carried, parts = max(0, width - stride), len(self.valid)
        state = T.alloc_buffer((max(1, carried) * parts * CHANNELS,), "int8", layout=None)

        def keep(column: int, values: Sequence[ir.Expr]) -> None:
            for part, value in enumerate(values):
                store(state, value, i64((column * parts + part) * CHANNELS), CHANNELS)

        for column in range(carried):
            keep(column, self.column(i64(first * stride - window.pads[1] + column)))
        with T.serial(i64(0), i64(trips)) as trip:
            x = T.Bind(trip * unroll + first)
            left = T.Bind(x * stride - window.pads[1])
            columns = [
                [load(state, i64((column * parts + part) * CHANNELS), CHANNELS) for part in range(parts)]
                for column in range(carried)
            ]
            for step in range(unroll):
                while len(columns) < step * stride + width:
                    columns.append(self.column(left + len(columns)))
                self.outputs(x + step, columns[step * stride : step * stride + width])
            for column in range(carried):
                keep(column, columns[unroll * stride + column])

    def column(self, place: ir.Expr | None) -> list[ir.Expr]:
        """The rows of one input column, int8x8 each; None is a column of the border."""
        kernel = self.kernel
        channels, pad = kernel.window.data[3], kernel.product.pad
        border = tirx.IntImm(str(kernel.x.dtype), int(pad.value) if pad else 0)
        found = []
        for row, inside in enumerate(self.valid):
            if inside and place is not None:
                value = load(kernel.x, self.source + (place * channels + row * kernel.pitch), CHANNELS)
            else:
                value = tirx.Broadcast(border, CHANNELS)
            found.append(T.Bind(flip(value, kernel.product.flipped)))
        return found

    def outputs(self, x: ir.Expr, columns: Sequence[Sequence[ir.Expr]]) -> None:
        """One output column of the band."""
        kernel, window = self.kernel, self.kernel.window
        height, width = window.kernel
        totals = []
        for row in range(self.rows):
            top = row * window.strides[0]
            data = [columns[tap % width][top + tap // width] for tap in range(height * width)]
            totals.append(self.sums(data))
        channels, line = window.data[3], window.output[1] * window.data[3]
        below = self.rows - 1
        values = requantize16(
            kernel.product.form, [*totals[0], *totals[below]], [*self.m, *self.m], kernel.product.to
        )
        at, values = self.target + x * channels, T.Bind(values)
        store(kernel.output, low(values), at, CHANNELS)
        if below:
            store(kernel.output, high(values), at + line, CHANNELS)

    def sums(self, data: Sequence[ir.Expr]) -> list[ir.Expr]:
        """The accumulators of one output row."""
        chain, total = self.kernel.params.chain, list(self.start)
        for first in range(0, len(data), chain):
            products = T.Bind(smull(data[first], self.weights[first]))
            for tap in range(first + 1, min(first + chain, len(data))):
                products = T.Bind(smlal(products, data[tap], self.weights[tap]))
            sums = [saddw(total[0], low(products)), saddw(total[1], high(products))]
            total = [T.Bind(pinned(each)) for each in sums]
        return total


def _product(workload: Workload) -> Product:
    return taken(product_s8.product_of(workload, NAME), workload)


def _window(workload: Workload, product: Product) -> Rows:
    shape = workload.operands[0].shape
    (_, (top, bottom), (left, right), _) = product.pad.widths if product.pad else ((0, 0),) * 4
    height, width = workload.operands[1].shape[1:3]
    strides = product_s8.pair(workload, "strides")
    return Rows(
        (shape[0], shape[1], shape[2], shape[3]), (height, width), strides, (top, left, bottom, right)
    )


def _starts(window: Window) -> list[int]:
    """First channel of each block of eight."""
    channels = window.data[3]
    return [min(start, channels - CHANNELS) for start in range(0, channels, CHANNELS)]
