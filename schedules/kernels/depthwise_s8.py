# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolution on SDOT: four input rows at a time, eight channels, columns carried in registers.

Four rows of one column are interleaved to [channel][4 rows], so that one SDOT takes four kernel rows of four
channels; with weights (w0 w1 w2 0) and (0 w0 w1 w2) the same data serves two output rows of a 3 x 3 kernel. Borders are
code with constants where the data would be: there is no padded copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load, store
from schedules.intrinsics.sdot import FEATURE, sdot
from schedules.intrinsics.vector import high, low, zip_halves
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import product_s8, threads, tiling
from schedules.kernels.cost import VECTOR, Cost, arithmetic, requantization, scalar
from schedules.kernels.product_s8 import Product, flip
from schedules.kernels.requantize_tile import requantize16
from schedules.kernels.windows import GROUP, Window
from schedules.workload import Workload

NAME = "depthwise_s8"

CHANNELS = 8
"""Channels that are computed together; the last eight overlap those before them where eight does not divide them."""

HALVES = 2
"""Vectors of four channels' accumulators."""

COLUMN_OVERHEAD = 6
"""Scalar instructions and moves of a column."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        unroll: Output columns of one loop iteration.
        parallel: Whether bands of rows are spread over the runtime's threads.
    """

    unroll: int
    parallel: bool = False


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes depthwise convolutions with one output a channel, on cores with dotprod."""
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
    if FEATURE not in core.features:
        return Rejection(NAME, "the core lacks a feature", FEATURE, core.name)
    height, width = workload.operands[1].shape[1:3]
    return Match(f"int8 depthwise {height} x {width} of {channels} channels")


def default(workload: Workload, core: Core) -> Params:
    """Two columns for 3 x 3, whose weights stay in registers with them; one for larger kernels."""
    height, width = workload.operands[1].shape[1:3]
    unroll = 2 if height <= GROUP and width <= 3 else 1
    return next(params for params in candidates(workload, core) if params.unroll == unroll)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """One to four columns; calls that are worth it in tasks for the threads."""
    found = []
    for unroll in range(1, 5):
        params = Params(unroll)
        if estimate(workload, params, core) >= threads.PARALLEL_CYCLES:
            params = Params(unroll, parallel=True)
        found.append(params)
    return tuple(found)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core with all loads in L1."""
    return cost(workload, params).cycles(core)


def cost(workload: Workload, params: Params) -> Cost:
    """Instructions of one call; borders are taken to cost what the middle does."""
    product = _product(workload)
    window = _window(workload, product)
    new_columns = min(window.kernel[1], window.strides[1]) * len(window.groups)
    # Of a group of rows four loads and four permutations.
    column = (scalar(GROUP) + arithmetic(GROUP * (2 if product.flipped else 1))) * new_columns
    # Accumulators start as copies; of an output row eight channels are requantised and stored.
    column += arithmetic(HALVES * (len(list(window.products())) + window.band))
    column += requantization(window.band * CHANNELS, product.form, product.to) + arithmetic(
        window.band * 3 / 2
    )
    column += scalar(COLUMN_OVERHEAD / params.unroll)
    bands = -(-window.output[0] // window.band) * window.data[0]
    return column * (bands * len(_starts(window)) * window.output[1])


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Weights [block][product][8 channels][4 rows]; offsets and multipliers [block][8 channels]; all flat."""
    product = _product(workload)
    window = _window(workload, product)
    w = constants[workload.operands[1].index][:, :, :, 0].transpose(1, 2, 0)
    offset, m = product_s8.offsets_and_multipliers(workload, constants, product)
    channels = np.array([range(start, start + CHANNELS) for start in _starts(window)])
    products = list(window.products())
    weights = np.zeros((len(channels), len(products), CHANNELS, GROUP), np.int8)
    for index, (_, column, _, taps) in enumerate(products):
        for row, tap in enumerate(taps):
            if tap is not None:
                weights[:, index, :, row] = w[tap, column][channels]
    return weights.ravel(), offset[channels].ravel(), m[channels].ravel()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    product = _product(workload)
    window = _window(workload, product)
    blocks = len(_starts(window))
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [((blocks * len(list(window.products())) * CHANNELS * GROUP,), "int8")]
    arguments += [((blocks * CHANNELS,), "int32"), ((blocks * CHANNELS,), "float32")]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function("arm_depthwise_s8", arguments) as function:
        _Emitter(product, window, params, function.buffers).bands()
    return function.prim_func


class _Emitter:
    """Emits the parts of one kernel, from bands of rows inwards."""

    def __init__(
        self, product: Product, window: Window, params: Params, buffers: Sequence[tirx.Buffer]
    ) -> None:
        self.product, self.window, self.params = product, window, params
        self.x = buffers[0]
        self.w, self.offset, self.m, self.output = buffers[-4:]
        self.pitch = window.data[2] * window.data[3]

    def bands(self) -> None:
        """A task is one band of output rows; bands at the borders are code of their own."""
        runs = self.window.runs()
        bands = sum(count for _, count, _ in runs)
        images = self.window.data[0]

        def one(task: ir.Expr) -> None:
            if images == 1:
                self.run(runs, i64(0), task)
            else:
                self.run(runs, T.Bind(tirx.floordiv(task, bands)), T.Bind(tirx.floormod(task, bands)))

        tiling.each(images * bands, self.params.parallel, one)

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
        window = kernel.window
        self.start = [load(kernel.offset, block * CHANNELS + 4 * v, 4) for v in range(HALVES)]
        self.m = [load(kernel.m, block * CHANNELS + 4 * v, 4) for v in range(HALVES)]
        products = list(window.products())
        self.weights = {}
        for index, (row, column, group, _) in enumerate(products):
            if row < rows:
                at = (block * len(products) + index) * (CHANNELS * GROUP)
                self.weights[row, column, group] = [
                    load(kernel.w, at + VECTOR * v, VECTOR) for v in range(HALVES)
                ]
        self.used = sorted({group for row in range(rows) for group, _ in window.cover(row)})

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
        carried, parts = max(0, width - stride), HALVES * len(self.used)
        state = T.alloc_buffer((max(1, carried) * parts * VECTOR,), "int8", layout=None)

        def keep(column: int, values: Sequence[ir.Expr]) -> None:
            for part, value in enumerate(values):
                store(state, value, i64((column * parts + part) * VECTOR), VECTOR)

        for column in range(carried):
            keep(column, self.column(i64(first * stride - window.pads[1] + column)))
        with T.serial(i64(0), i64(trips)) as trip:
            x = T.Bind(trip * unroll + first)
            left = T.Bind(x * stride - window.pads[1])
            columns = [
                [load(state, i64((column * parts + part) * VECTOR), VECTOR) for part in range(parts)]
                for column in range(carried)
            ]
            for step in range(unroll):
                while len(columns) < step * stride + width:
                    columns.append(self.column(left + len(columns)))
                self.outputs(x + step, columns[step * stride : step * stride + width])
            for column in range(carried):
                keep(column, columns[unroll * stride + column])

    def column(self, place: ir.Expr | None) -> list[ir.Expr]:
        """The groups of one input column, interleaved: two vectors each; None is a column of the border."""
        kernel = self.kernel
        channels, dtype = kernel.window.data[3], str(kernel.x.dtype)
        pad = kernel.product.pad
        border = tirx.Broadcast(tirx.IntImm(dtype, int(pad.value) if pad else 0), CHANNELS)
        loaded: dict[int, ir.Expr] = {}

        def row(index: int) -> ir.Expr:
            # Rows that no kernel row meets are any rows.
            index = min(index, len(self.valid) - 1)
            if index not in loaded:
                inside = place is not None and self.valid[index]
                at = self.source + ((i64(0) if place is None else place) * channels + index * kernel.pitch)
                loaded[index] = load(kernel.x, at, CHANNELS) if inside else border
            return loaded[index]

        found = []
        for group in self.used:
            first = kernel.window.groups[group]
            upper, lower = (T.Bind(_zip(row(first + i), row(first + i + 1))) for i in (0, 2))
            found += [T.Bind(flip(v, kernel.product.flipped)) for v in zip_halves(upper, lower, "int16x8")]
        return found

    def outputs(self, x: ir.Expr, columns: Sequence[Sequence[ir.Expr]]) -> None:
        """One output column of the band."""
        kernel, window = self.kernel, self.kernel.window
        acc = []
        for row in range(self.rows):
            total = list(self.start)
            for column, values in enumerate(columns):
                for group, _ in window.cover(row):
                    weights, part = self.weights[row, column, group], HALVES * self.used.index(group)
                    for v in range(HALVES):
                        total[v] = T.Bind(sdot(total[v], weights[v], values[part + v]))
            acc.append(total)
        channels, line = window.data[3], window.output[1] * window.data[3]
        for row in range(0, self.rows, 2):
            below = min(row + 1, self.rows - 1)
            quarter = [*acc[row], *acc[below]]
            values = T.Bind(requantize16(kernel.product.form, quarter, [*self.m, *self.m], kernel.product.to))
            at = self.target + (x * channels + row * line)
            store(kernel.output, low(values), at, CHANNELS)
            if below > row:
                store(kernel.output, high(values), at + line, CHANNELS)


def _zip(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """8 + 8 bytes, alternating."""
    order = [index for lane in range(CHANNELS) for index in (lane, lane + CHANNELS)]
    return tirx.Shuffle([a, b], order)


def _product(workload: Workload) -> Product:
    return taken(product_s8.product_of(workload, NAME), workload)


def _window(workload: Workload, product: Product) -> Window:
    shape = workload.operands[0].shape
    (_, (top, bottom), (left, right), _) = product.pad.widths if product.pad else ((0, 0),) * 4
    height, width = workload.operands[1].shape[1:3]
    strides = product_s8.pair(workload, "strides")
    return Window(
        (shape[0], shape[1], shape[2], shape[3]), (height, width), strides, (top, left, bottom, right)
    )


def _starts(window: Window) -> list[int]:
    """First channel of each block of eight."""
    channels = window.data[3]
    return [min(start, channels - CHANNELS) for start in range(0, channels, CHANNELS)]
