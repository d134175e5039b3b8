# SPDX-License-Identifier: Apache-2.0
"""Loops of a small int8 depthwise convolution: bands of output rows, eight channels at a time, columns innermost.

Input columns that the next output column reads, too, are carried in registers. Borders have separate code, with
constants instead of loads: there is no padded copy.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.kernels.common import threads
from schedules.kernels.common.contract import KernelMatch, declined, missing_feature, taken
from schedules.kernels.depthwise.accumulators_s8 import finish
from schedules.kernels.depthwise.geometry import is_depthwise
from schedules.kernels.depthwise.input_rows_s8 import DepthwiseWindow
from schedules.kernels.depthwise.instructions_s8 import CHANNELS
from schedules.kernels.epilogues.requantize import Form
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.packed_columns_s8 import Addends, Header, Headers
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.tir.emit import i64, load, store

MOST_ROWS = 4
"""Largest number of rows of a kernel: one group of SDOT."""

MOST_TAPS = 9
"""Most taps whose weights stay in registers beside the data."""

COLUMN_OVERHEAD = 6
"""Scalar instructions and moves of a column."""


MOST_WIDE_TAPS = 25
"""Most taps of int16 data: 25 weights of 16 bits are loaded again for each output."""


def is_wide(workload: Workload) -> bool:
    """Return whether the data or the results are int16."""
    return product_s8.WIDE in (workload.operands[0].dtype, workload.output_dtype)


def matches(
    workload: Workload, core: Core, name: str, feature: str, *, wide: bool = False
) -> KernelMatch | Diagnostic:
    """Accept small depthwise convolutions with one output per input channel, on cores with the given feature.

    Args:
        workload: Any workload.
        core: The core.
        name: Name of the kernel.
        feature: Feature that the core must have; for int16 data NEON suffices.
        wide: Whether the kernel takes data and results of int16.
    """
    wide = wide and is_wide(workload)
    product = product_s8.product_of(workload, name, wide=wide)
    if isinstance(product, Diagnostic):
        return product if is_depthwise(workload) else replace(product, unfit=True)
    channels = product.data[-1]
    if workload.composite != "arm.conv2d_s8" or product.groups != channels or product.columns != 1:
        grouped = f"{product.groups} groups of {product.columns} outputs for {channels} channels"
        return declined(name, "not depthwise", "a group and an output each channel", grouped, unfit=True)
    dilation = ConvolutionAttributes.of(workload).dilation
    if dilation != (1, 1):
        return declined(name, "kernel is dilated", "(1, 1)", str(dilation))
    if channels < CHANNELS:
        return declined(name, "too few channels", f"{CHANNELS} or more", str(channels))
    if product.shifted:
        return declined(name, "weights have nine bits", "int8", workload.operands[-1].dtype)
    height, width = workload.operands[1].shape[1:3]
    rows, taps = (MOST_WIDE_TAPS, MOST_WIDE_TAPS) if wide else (MOST_ROWS, MOST_TAPS)
    if height > rows or height * width > taps:
        limit = f"{rows} rows, {taps} taps"
        return declined(name, "kernel is too large", limit, f"{height} x {width}")
    if feature not in core.features and not (feature == "neon" and core.neon):
        return missing_feature(name, feature, core)
    return KernelMatch(
        f"{'int16 by int8' if wide else 'int8'} depthwise {height} x {width} of {channels} channels"
    )


def product_of(workload: Workload, name: str) -> IntegerProduct:
    """Return the product of a workload that the kernel `name` accepts; int16 data is not split into planes."""
    wide = is_wide(workload)
    product = taken(product_s8.product_of(workload, name, wide=wide), workload)
    return replace(product, planes=1, flipped=False) if wide else product


def window_of(workload: Workload, product: IntegerProduct, band: int | None = None) -> DepthwiseWindow:
    """Return the convolution of a workload that `matches` accepts; `band` is the number of output rows per band."""
    images, height, width, channels = workload.operands[0].shape
    (_, (top, bottom), (left, right), _) = product.pad.widths if product.pad else ((0, 0),) * 4
    tall, wide = workload.operands[1].shape[1:3]
    strides, pads = ConvolutionAttributes.of(workload).strides, (top, left, bottom, right)
    return DepthwiseWindow((images, height, width, channels), (tall, wide), strides, pads, band)


def starts_of(window: DepthwiseWindow) -> list[int]:
    """Return the first channel of each block of eight; the last block overlaps the one before it."""
    channels = window.data[3]
    return [min(start, channels - CHANNELS) for start in range(0, channels, CHANNELS)]


Emit = Callable[[ir.Expr, ir.Expr, int, tuple[bool, ...]], None]
"""Emits a band: its image, its index, how many output rows it has and which input rows are data."""


def bands(window: DepthwiseWindow, parallel: bool, block: Callable[..., "BandEmitter"]) -> None:
    """Emit the loops over all bands; bands at the borders have separate code.

    Args:
        window: The depthwise convolution.
        parallel: Whether the runtime's threads share the bands, and the channels of each.
        block: Returns the emitter of a block of eight channels of a band: (output rows, which input rows are data,
            offsets of the first input and output, index of the block).
    """
    images, height, width, channels = window.data
    out_h, out_w = window.output
    runs = window.runs()
    count = sum(count for _, count, _ in runs)
    blocks = len(starts_of(window))
    sizes = [float(rows) for _, count, (rows, _) in runs for _ in range(count)] * images
    parts = threads.parts_of(sizes, blocks) if parallel else 1

    def band(part: ir.Expr, image: ir.Expr, index: ir.Expr, rows: int, valid: tuple[bool, ...]) -> None:
        top = index * (window.band * window.strides[0]) - window.pads[0]
        source = T.Bind((image * height + top) * (width * channels))
        target = T.Bind((image * out_h + index * window.band) * (out_w * channels))
        first, stop = (i64(0), i64(blocks)) if parts == 1 else threads.part(part, blocks, parts)
        with T.serial(first, stop) as number:
            start = T.Bind(tirx.min(number * CHANNELS, i64(channels - CHANNELS)))
            block(rows, valid, (source + start, target + start), number).columns()

    def task(part: ir.Expr, index: ir.Expr) -> None:
        if images == 1:
            _by_kind(runs, i64(0), index, partial(band, part))
        else:
            image = T.Bind(tirx.floordiv(index, count))
            _by_kind(runs, image, T.Bind(tirx.floormod(index, count)), partial(band, part))

    threads.each_part(parts, images * count, parallel, task)


def _by_kind(
    runs: Sequence[tuple[int, int, tuple[int, tuple[bool, ...]]]], image: ir.Expr, band: ir.Expr, emit: Emit
) -> None:
    """Emit a branch for each run of equal bands, and the code of a band in each."""
    first, count, (rows, valid) = runs[0]
    if len(runs) == 1:
        emit(image, band, rows, valid)
        return
    with T.If(band < first + count):
        with T.Then():
            emit(image, band, rows, valid)
        with T.Else():
            _by_kind(runs[1:], image, band, emit)


class BandEmitter(ABC):
    """Emits the code for eight channels of one band.

    Attributes:
        parts: Number of vectors per input column.
        lanes: Number of elements per vector.
        dtype: Dtype of the elements.
    """

    parts: int
    lanes: int
    dtype: str = "int8"

    def __init__(
        self,
        product: IntegerProduct,
        window: DepthwiseWindow,
        unroll: int,
        reload: bool,
        headers: Headers,
        buffers: Sequence[tirx.Buffer],
        rows: int,
        valid: tuple[bool, ...],
        where: tuple[ir.Expr, ir.Expr],
        block: ir.Expr,
    ) -> None:
        """Store the convolution, the buffers and the offsets for the code of eight channels of one band.

        Args:
            product: The product, for its requantisation.
            window: The depthwise convolution.
            unroll: Output columns of one loop iteration.
            reload: Whether constants that an instruction overwrites are loaded for each instruction.
            headers: Layout of the blocks' headers.
            buffers: Buffers of the kernel: data, weights, headers, output.
            rows: Output rows of the band.
            valid: Which input rows of the band are data and not border.
            where: Offsets of the first input and the first output.
            block: Index of the channel block.
        """
        self.product, self.window, self.unroll, self.rows, self.valid = product, window, unroll, rows, valid
        (self.x, self.w, constants, self.output), (self.source, self.target) = buffers, where
        self.header = Header(headers, constants, block, 0, reload, headers.rows > 1)

    @abstractmethod
    def column(self, place: ir.Expr | None) -> list[ir.Expr]:
        """Emit the loads of one input column at `place`; None stands for a column of the border."""

    @abstractmethod
    def sums(self, columns: Iterator[Sequence[ir.Expr]]) -> list[list[ir.Expr]]:
        """Emit the sums of each output row; taking an input column from the iterator emits its loads."""

    def row(self, place: ir.Expr | None, row: int) -> ir.Expr:
        """Emit the load of eight channels of an input column in one row; the border's value outside of the data."""
        channels, pad = self.window.data[3], self.product.pad
        if place is None or not self.valid[row]:
            border = tirx.IntImm(str(self.x.dtype), int(pad.value) if pad else 0)
            return tirx.Broadcast(border, CHANNELS)
        return load(self.x, self.source + (place + row * self.window.data[2]) * channels, CHANNELS)

    def _outputs(self, x: ir.Expr, columns: Iterator[Sequence[ir.Expr]]) -> None:
        """Emit one output column of the band, from the input columns that it reads."""
        _, width = self.window.output
        places = [self.target + (x + row * width) * self.window.data[3] for row in range(self.rows)]
        finish(*self._requantize, self.product.to, self.sums(columns), self.output, places)

    def columns(self) -> None:
        """Emit all output columns, with separate code for each possible form of the requantisation."""
        self.header.requantized(self._columns)

    def _columns(self, form: Form, m: list[ir.Expr], addends: Addends | None) -> None:
        """Emit output columns at the border as straight-line code, and inner columns as a loop that carries inputs."""
        self._requantize = form, m, addends
        first, last = self.window.inner_columns()
        trips = (last - first) // self.unroll
        loop_end = first + trips * self.unroll if trips > 1 else first
        _, left, _, right = self.window.pads
        border, width = self.column(None), self.window.data[2]
        # Each of the three parts reuses the input columns that the previous part has loaded: in functions that threads
        # call, LLVM cannot tell that stores to the output leave the input unchanged, and would load the columns again.
        known = dict.fromkeys((*range(-left, 0), *range(width, width + right)), border)
        self._unrolled(range(first), known)
        if trips > 1:
            self._loop(first, trips, known)
        self._unrolled(range(loop_end, self.window.output[1]), known)

    def _unrolled(self, outputs: range, known: dict[int, list[ir.Expr]]) -> None:
        """Emit output columns as straight-line code; `known` has input columns by their positions."""
        for x in outputs:
            self._outputs(i64(x), self._met(known, i64(0), x * self.window.strides[1] - self.window.pads[1]))

    def _met(self, known: dict[int, list[ir.Expr]], left: ir.Expr, first: int) -> Iterator[Sequence[ir.Expr]]:
        """Yield the input columns that one output reads, loading those that are not in `known`.

        Columns are numbered from `first`, relative to position `left`; those that are loaded are added to `known`.
        """
        for place in range(first, first + self.window.kernel[1]):
            if place not in known:
                known[place] = self.column(left + place)
            yield known[place]

    def _loop(self, first: int, trips: int, known: dict[int, list[ir.Expr]]) -> None:
        """Emit a loop of `trips` iterations from output column `first` on; an iteration computes `unroll` columns.

        The first iteration takes input columns of `known`, to which those are added that the last one leaves.
        """
        unroll, lanes, parts = self.unroll, self.lanes, self.parts
        stride, width = self.window.strides[1], self.window.kernel[1]
        carried = max(0, width - stride)
        state = T.alloc_buffer((max(1, carried) * parts * lanes,), self.dtype, layout=None)

        def keep(column: int, values: Sequence[ir.Expr]) -> None:
            for part, value in enumerate(values):
                store(state, value, i64((column * parts + part) * lanes), lanes)

        def kept(column: int) -> list[ir.Expr]:
            return [load(state, i64((column * parts + part) * lanes), lanes) for part in range(parts)]

        begin = first * stride - self.window.pads[1]
        for column in range(carried):
            keep(column, known.get(begin + column) or self.column(i64(begin + column)))
        with T.serial(i64(0), i64(trips)) as trip:
            x = T.Bind(trip * unroll + first)
            left = T.Bind(x * stride - self.window.pads[1])
            columns = {column: kept(column) for column in range(carried)}
            for step in range(unroll):
                self._outputs(x + step, self._met(columns, left, step * stride))
            for column in range(carried):
                keep(column, columns[unroll * stride + column])
        known |= {begin + trips * unroll * stride + column: kept(column) for column in range(carried)}
