# SPDX-License-Identifier: Apache-2.0
"""fp32 depthwise convolution: a patch of output pixels at a time, four channels after four.

A patch of some rows by some columns stays in accumulators while its input pixels are loaded once each, row by row; all
four channels of a pixel are one vector, and so are their weights. What would lie in the border is left out: patches at
the edges are code of their own, and there is no padded copy. The channels are the innermost loop, so that nothing in
it stays the same, and no register is held across it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load, store
from schedules.intrinsics.fmla import LANES, REGISTERS
from schedules.kernel import Array, Match, Rejection
from schedules.kernels import epilogue_f32, product_f32
from schedules.kernels.activation_f32 import Vector
from schedules.kernels.axes import Axis, Span
from schedules.kernels.fmla_tile import FMLA_PER_CYCLE
from schedules.kernels.threads import PARALLEL_CYCLES
from schedules.workload import Workload

NAME = "depthwise_f32"

PATCHES = ((2, 8), (2, 7), (2, 4), (1, 8), (1, 6), (1, 4), (1, 2))
"""(rows, columns) of the patches worth considering; larger ones put accumulators on the stack on some cores. Two rows
share hardly any input where the stride is more than 1."""

SPARE_REGISTERS = 3
"""What LLVM's schedulers let loads run ahead in."""

MOST_TAPS = 7
"""Largest height or width of a kernel: there is code for each way that it meets an edge."""

LOOP_OVERHEAD = 3
"""Instructions that close one loop iteration: the weights' pointer, the count, the branch."""


@dataclass(frozen=True)
class Params:
    """How the result is cut.

    Attributes:
        rows: Rows of a patch.
        columns: Columns of a patch.
        parallel: Whether bands of `rows` output rows are spread over the runtime's threads.
    """

    rows: int
    columns: int
    parallel: bool = False


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes depthwise convolutions with one output a channel."""
    product = product_f32.product_of(workload, NAME)
    if isinstance(product, Rejection):
        return product
    if workload.composite != "arm.conv2d":
        return Rejection(NAME, "composite is no convolution", "arm.conv2d", workload.composite)
    channels = workload.operands[0].shape[3]
    if (product.groups, product.columns) != (channels, 1):
        grouped = f"{product.groups} groups of {product.columns} outputs for {channels} channels"
        return Rejection(NAME, "not depthwise", "a group and an output each channel", grouped)
    dilation = product_f32.pair(workload, "dilation")
    if dilation != (1, 1):
        return Rejection(NAME, "kernel is dilated", "(1, 1)", str(dilation))
    if channels < LANES:
        return Rejection(NAME, "too few channels", f"{LANES} or more", str(channels))
    height, width = workload.operands[1].shape[1:3]
    if max(height, width) > MOST_TAPS:
        return Rejection(NAME, "kernel is too large", f"{MOST_TAPS} x {MOST_TAPS}", f"{height} x {width}")
    return Match(f"float32 depthwise {height} x {width} of {channels} channels")


def default(workload: Workload, core: Core) -> Params:
    """The candidate with the fewest instructions."""
    return min(candidates(workload, core), key=lambda params: instructions(workload, params))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Every patch whose accumulators, one row of input and one of weights fit the registers."""
    height, width = workload.operands[1].shape[1:3]
    down, across = product_f32.pair(workload, "strides")
    found = []
    for rows, columns in PATCHES:
        needed = rows * columns + (columns - 1) * across + 2 * width
        if needed <= REGISTERS - SPARE_REGISTERS and (rows == 1 or down == 1 < height):
            found.append((rows, columns))
    options = [Params(rows, columns) for rows, columns in found]
    return tuple(
        replace(params, parallel=estimate(workload, params, core) >= PARALLEL_CYCLES) for params in options
    )


def instructions(workload: Workload, params: Params) -> float:
    """Instructions of one call."""
    return _patches(workload, params)[0]


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core with all loads in L1: the slower of dispatch and FMLA pipes."""
    total, products = _patches(workload, params)
    return max(total / core.issue_width, products / FMLA_PER_CYCLE)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Weights [block][tap][4 channels] and bias [block][4 channels], flat; the last block overlaps the one before."""
    channels = workload.operands[0].shape[3]
    chosen = np.array([range(start, start + LANES) for start in _starts(channels)])
    w = constants[workload.operands[1].index].reshape(channels, -1)
    bias = product_f32.bias_of(workload, constants, channels)
    return w[chosen].transpose(0, 2, 1).ravel(), bias[chosen].ravel()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    blocks = len(_starts(workload.operands[0].shape[3]))
    _, height, width, _ = workload.operands[1].shape
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [((blocks * height * width * LANES,), "float32"), ((blocks * LANES,), "float32")]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = "_".join(("arm_depthwise_f32", *(step.name for step in workload.epilogue)))
    with kernel_function(name, arguments) as function:
        _Emitter(workload, params, function.buffers).bands()
    return function.prim_func


class _Emitter:
    """Emits the parts of one kernel, from bands of rows inwards."""

    def __init__(self, workload: Workload, params: Params, buffers: Sequence[tirx.Buffer]) -> None:
        residual = workload.step("residual")
        self.steps, self.parallel = workload.epilogue, params.parallel
        self.images, _, _, self.channels = workload.operands[0].shape
        self.down, self.across = _axes(workload, params)
        self.x = buffers[workload.operands[0].index]
        self.w, self.bias, self.output = buffers[-3:]
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None

    def bands(self) -> None:
        """A task is one band of output rows of one image."""
        bands = sum(span.count for span in self.down.spans)
        with (T.parallel if self.parallel else T.serial)(i64(0), i64(self.images * bands)) as task:
            image = i64(0) if self.images == 1 else T.Bind(tirx.floordiv(task, bands))
            band = task if self.images == 1 else T.Bind(tirx.floormod(task, bands))
            _by_span(self.down.spans, band, lambda span: self.band(image, band, span))

    def band(self, image: ir.Expr, band: ir.Expr, rows: Span) -> None:
        """The patches of a band, from left to right."""
        down, across, channels = self.down, self.across, self.channels
        top = image * down.size + band * (down.step * down.stride) - down.before
        source = T.Bind((top * across.size - across.before) * channels)
        row = image * down.outputs + band * down.step
        target = T.Bind(row * (across.outputs * channels))
        for columns in across.spans:
            with T.serial(i64(0), i64(columns.count)) as index:
                patch = index + columns.first
                left = T.Bind(source + patch * (across.step * across.stride * channels))
                to = T.Bind(target + patch * (across.step * channels))
                starts = _starts(channels)
                with T.serial(i64(0), i64(len(starts))) as block:
                    start = block * LANES if starts[-1] % LANES == 0 else tirx.min(block * LANES, starts[-1])
                    self.patch(rows, columns, block, T.Bind(left + start), T.Bind(to + start))

    def patch(self, rows: Span, columns: Span, block: ir.Expr, source: ir.Expr, target: ir.Expr) -> None:
        """Four channels of one patch; `source` and `target` are where its first input and output lie."""
        down, across = self.down, self.across
        line = across.size * self.channels
        acc = T.alloc_buffer((rows.outputs * columns.outputs * LANES,), "float32", layout=None)
        bias = load(self.bias, block * LANES, LANES)
        for index in range(rows.outputs * columns.outputs):
            store(acc, bias, i64(index * LANES), LANES)
        taps = block * (down.kernel * across.kernel * LANES)
        for y in (y for y, valid in enumerate(rows.valid) if valid):
            inputs = {
                x: load(self.x, source + (y * line + x * self.channels), LANES)
                for x, valid in enumerate(columns.valid)
                if valid
            }
            for row in range(rows.outputs):
                tap = y - row * down.stride
                if 0 <= tap < down.kernel:
                    at = taps + tap * across.kernel * LANES
                    self.row(acc, row * columns.outputs, columns.outputs, inputs, at)
        for row in range(rows.outputs):
            for column in range(columns.outputs):
                offset = target + (row * across.outputs + column) * self.channels
                place = (row * columns.outputs + column) * LANES
                epilogue_f32.finish(self.steps, acc, place, LANES, self.output, offset, self.residual)

    def row(
        self, acc: tirx.Buffer, first: int, count: int, inputs: dict[int, ir.Expr], taps: ir.Expr
    ) -> None:
        """One row of the kernel on one row of input, for one row of the patch: accumulators `first` and on."""
        for tap in range(self.across.kernel):
            weight = load(self.w, taps + tap * LANES, LANES)
            for column in range(count):
                value = inputs.get(column * self.across.stride + tap)
                if value is not None:
                    place = i64((first + column) * LANES)
                    total = acc.vload([place], "float32x4")
                    store(acc, Vector(LANES).fma(value, weight, total), place, LANES)


def _by_span(spans: Sequence[Span], index: ir.Expr, emit: Callable[[Span], None]) -> None:
    """Emits the code of each span, and the choice between them."""
    span = spans[0]
    if len(spans) == 1:
        emit(span)
        return
    with T.If(index < span.first + span.count):
        with T.Then():
            emit(span)
        with T.Else():
            _by_span(spans[1:], index, emit)


def _axes(workload: Workload, params: Params) -> tuple[Axis, Axis]:
    """The rows and the columns."""
    _, height, width, _ = workload.operands[0].shape
    _, tall, wide, _ = workload.operands[1].shape
    strides = product_f32.pair(workload, "strides")
    top, left, bottom, right = product_f32.padding(workload)
    return (
        Axis(height, tall, strides[0], top, bottom, params.rows),
        Axis(width, wide, strides[1], left, right, params.columns),
    )


def _starts(channels: int) -> list[int]:
    """First channel of each block of four."""
    return [min(start, channels - LANES) for start in range(0, channels, LANES)]


def _patches(workload: Workload, params: Params) -> tuple[float, float]:
    """(instructions, FMLA) of one call."""
    down, across = _axes(workload, params)
    after = 1 + epilogue_f32.instructions(workload.epilogue) + epilogue_f32.STORE
    total, products = 0.0, 0.0
    for rows in down.spans:
        for columns in across.spans:
            fmla = down.products(rows) * across.products(columns)
            weights = down.kernel * across.kernel * rows.outputs / 2
            inside = fmla + sum(rows.valid) * sum(columns.valid) + weights
            inside += after * rows.outputs * columns.outputs + LOOP_OVERHEAD + len(rows.valid) + rows.outputs
            total += inside * rows.count * columns.count
            products += fmla * rows.count * columns.count
    images, _, _, channels = workload.operands[0].shape
    calls = images * len(_starts(channels))
    return total * calls, products * calls
