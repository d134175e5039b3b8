# SPDX-License-Identifier: Apache-2.0
"""fp32 depthwise convolution: a patch of output pixels at a time, four channels after four.

A patch of some rows by some columns stays in accumulators while its input pixels are loaded once each, row by row; all
four channels of a pixel are one vector, and so are their weights. 16-bit floats are computed in binary32: each vector
is widened as it is loaded, weights at compile time.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load, store
from schedules.intrinsics import bfloat
from schedules.intrinsics.fmla import LANES, REGISTERS
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import epilogue_f32, epilogue_half, half, product_f32
from schedules.kernels.activation_f32 import Vector
from schedules.kernels.axes import Span
from schedules.kernels.depthwise_field import Depthwise, Field, field_of, prepared
from schedules.kernels.depthwise_patches import Place, patches
from schedules.kernels.fmla_tile import FMLA_LATENCY, FMLA_PER_CYCLE
from schedules.kernels.threads import PARALLEL_CYCLES
from schedules.workload import Workload

NAME = "depthwise_f32"

PATCHES = ((2, 8), (2, 7), (2, 4), (1, 8), (1, 6), (1, 4), (1, 2), (1, 1), (8, 1), (4, 1), (2, 1))
"""(rows, columns) of the patches worth considering; larger ones put accumulators on the stack on some cores. Two rows
share hardly any input where the stride is more than 1."""

SPARE_REGISTERS = 3
"""What LLVM's schedulers let loads run ahead in."""

FEW_COLUMNS = 7
"""Width of a kernel up to which its weights and a row of inputs are held at once; wider ones pass tap by tap."""

LOOPED_COLUMNS = 7
"""Width of a kernel from which its rows are a loop: straight code of them would be long."""

BORDER = 7
"""Reach of a kernel up to which its borders are code of their own, and what lies in them is not computed."""

LOOP_OVERHEAD = 3
"""Instructions that close one loop iteration: the weights' pointer, the count, the branch."""

REORDERED = 160
"""Instructions in flight, so that short patches overlap (MicroOpBufferSize of LLVM's model of the Neoverse N2)."""

WIDENING = {"float32": 0, "float16": 1, "bfloat16": 1}
"""Instructions that make a vector of the data binary32: FCVTL, or SHLL."""


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
    """Takes depthwise convolutions of any multiplier, stride and dilation."""
    field = _field_or_why(workload)
    if isinstance(field, Rejection):
        return field
    data = workload.operands[0]
    if data.dtype == "bfloat16" and bfloat.FEATURE not in core.features:
        return Rejection(NAME, "the core lacks a feature", bfloat.FEATURE, core.name)
    height, width = workload.operands[1].shape[1:3]
    return Match(f"{data.dtype} depthwise {height} x {width} of {data.shape[3]} channels")


def default(workload: Workload, core: Core) -> Params:
    """The candidate with the fewest instructions."""
    return min(candidates(workload, core), key=lambda params: instructions(workload, params))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Every patch whose accumulators, one row of input and one of weights fit the registers."""
    field = _field(workload)
    down, across = field.down, field.across
    width = min(across.kernel, FEW_COLUMNS)
    shares = down.kernel > 1 and down.stride == down.dilation == 1 and not down.late
    found = []
    for rows, columns in dict.fromkeys((min(r, down.outputs), min(c, across.outputs)) for r, c in PATCHES):
        needed = rows * columns + (columns - 1) * across.stride + 2 * width
        if needed <= REGISTERS - SPARE_REGISTERS and (rows == 1 or shares):
            found.append((rows, columns))
    options = [Params(rows, columns) for rows, columns in found]
    return tuple(
        replace(params, parallel=estimate(workload, params, core) >= PARALLEL_CYCLES) for params in options
    )


def instructions(workload: Workload, params: Params) -> float:
    """Instructions of one call."""
    return _patches(workload, params)[0]


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core with all loads in L1: the slowest of dispatch, FMLA pipes and sums."""
    total, products, waits = _patches(workload, params)
    return max(total / core.issue_width, products / FMLA_PER_CYCLE, waits)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Weights [block][tap][4 channels] and bias [block][4 channels], flat, float32."""
    field, full = _field(workload), _in_full(workload)
    w = constants[workload.operands[1].index].astype(np.float32)
    w, bias = w.reshape(w.shape[0], -1), product_f32.bias_of(full, constants, w.shape[0])
    lanes = field.lanes_of(LANES)
    return w[lanes].transpose(0, 2, 1).ravel(), bias[lanes].ravel().astype(np.float32)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    field = _field(workload).cut(params.rows, params.columns)
    blocks = len(field.blocks(LANES))
    _, height, width, _ = workload.operands[1].shape
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [((blocks * height * width * LANES,), "float32"), ((blocks * LANES,), "float32")]
    arguments.append((workload.output_shape, workload.output_dtype))
    suffix = half.SUFFIXES.get(workload.operands[0].dtype, "_f32")
    name = "_".join((f"arm_depthwise{suffix}", *(step.name for step in workload.epilogue)))
    scope = bfloat.functions() if workload.operands[0].dtype == "bfloat16" else nullcontext()
    with kernel_function(name, arguments) as function, scope:
        buffers = [bfloat.bits(b) if str(b.dtype) == "bfloat16" else b for b in function.buffers]
        emitter = _Emitter(workload, field, buffers)
        patches(field, LANES, params.parallel, emitter.patch)
    return function.prim_func


class _Emitter:
    """Emits patches."""

    def __init__(self, workload: Workload, field: Field, buffers: Sequence[tirx.Buffer]) -> None:
        residual = workload.step("residual")
        self.workload, self.field = workload, field
        self.x = prepared(buffers[workload.operands[0].index], field, 0)
        self.w, self.bias, self.output = buffers[-3:]
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None

    def patch(self, rows: Span, columns: Span, place: Place) -> None:
        """Four channels of one patch."""
        field, down = self.field, self.field.down
        acc = T.alloc_buffer((rows.outputs * columns.outputs * LANES,), "float32", layout=None)
        bias = load(self.bias, place.block * LANES, LANES)
        for index in range(rows.outputs * columns.outputs):
            store(acc, bias, i64(index * LANES), LANES)
        width = field.across.kernel * LANES
        taps = place.block * (down.kernel * width)

        def line(y: ir.Expr | int) -> _Row:
            return _Row(self.x, place.source + y * field.source[1], field.source[2], columns.inputs)

        if down.late:
            start, stop = down.taps(place.top)
            with T.serial(start, stop) as tap:
                self.row(acc, 0, columns.outputs, line(tap * down.dilation), taps + tap * width)
        for y in () if down.late else rows.inputs:
            inputs = line(y)
            for row in range(rows.outputs):
                tap, between = divmod(y - row * down.stride, down.dilation)
                if not between and 0 <= tap < down.kernel:
                    self.row(acc, row * columns.outputs, columns.outputs, inputs, taps + tap * width)
        self.finish(acc, rows.outputs, columns.outputs, place.target)

    def finish(self, acc: tirx.Buffer, rows: int, columns: int, target: ir.Expr) -> None:
        """The epilogue of a patch."""
        full = self.workload.operands[0].dtype == "float32"
        finish = epilogue_f32.finish if full else epilogue_half.finish
        _, down, across = self.field.target
        for row in range(rows):
            for column in range(columns):
                offset = target + (row * down + column * across)
                place = (row * columns + column) * LANES
                finish(self.workload.epilogue, acc, place, LANES, self.output, offset, self.residual)

    def row(self, acc: tirx.Buffer, first: int, count: int, inputs: "_Row", taps: ir.Expr) -> None:
        """One row of the kernel on one row of input, for one row of the patch: accumulators `first` and on."""
        across = self.field.across
        for tap in range(across.kernel):
            weight = load(self.w, taps + tap * LANES, LANES)
            for column in range(count):
                value = inputs.at(column * across.stride + tap * across.dilation)
                if value is not None:
                    place = i64((first + column) * LANES)
                    total = acc.vload([place], "float32x4")
                    store(acc, Vector(LANES).fma(value, weight, total), place, LANES)


class _Row:
    """The inputs of a patch in one row, loaded where they are first asked for."""

    def __init__(self, x: tirx.Buffer, start: ir.Expr, pitch: int, inside: Sequence[int]) -> None:
        self._x, self._start, self._pitch, self._inside = x, start, pitch, inside
        self._loaded: dict[int, ir.Expr] = {}

    def at(self, column: int) -> ir.Expr | None:
        """Four channels as float32x4; None for the border."""
        if column not in self._inside:
            return None
        if column not in self._loaded:
            value = load(self._x, self._start + column * self._pitch, LANES)
            self._loaded[column] = T.Bind(_WIDENED[str(self._x.dtype)](value))
        return self._loaded[column]


_WIDENED: dict[str, Callable[[ir.Expr], ir.Expr]] = {
    "float32": lambda value: value,
    "float16": lambda value: tirx.Cast("float32x4", value),
    "int16": bfloat.widened,
}


def _in_full(workload: Workload) -> Workload:
    """The same in float32."""
    return workload if workload.operands[0].dtype == "float32" else half.in_full(workload)


def _field_or_why(workload: Workload) -> Field | Rejection:
    full, data = workload, workload.operands[0]
    if workload.composite in ("arm.conv2d" + suffix for suffix in half.SUFFIXES.values()):
        if workload.output_dtype not in (data.dtype, "float32"):
            return Rejection(
                NAME, "output has another dtype", f"{data.dtype} or float32", workload.output_dtype
            )
        full = half.in_full(workload)
    product = product_f32.product_of(full, NAME)
    if isinstance(product, Rejection):
        return product
    if full.composite != "arm.conv2d":
        return Rejection(NAME, "composite is no convolution", "arm.conv2d", workload.composite)
    images, height, width, channels = data.shape
    if product.groups != channels:
        grouped = f"{product.groups} groups of {channels} channels"
        return Rejection(NAME, "not depthwise", "a group each channel", grouped)
    of = Depthwise(
        (images, height, width, channels),
        (workload.operands[1].shape[1], workload.operands[1].shape[2]),
        product_f32.pair(workload, "strides"),
        product_f32.pair(workload, "dilation"),
        product_f32.padding(workload),
        product.columns,
    )
    field = field_of(of, LANES, border=BORDER)
    if not isinstance(field, Field):
        return Rejection(NAME, *field)
    late = field.down.kernel > 1 and field.across.kernel >= LOOPED_COLUMNS
    return replace(field, down=replace(field.down, late=late))


def _field(workload: Workload) -> Field:
    return taken(_field_or_why(workload), workload)


def _patches(workload: Workload, params: Params) -> tuple[float, float, float]:
    """(instructions, FMLA, cycles of one FMLA waiting for another on its accumulator) of one call."""
    field = _field(workload).cut(params.rows, params.columns)
    # What a loop leaves out at the borders is what code of its own would.
    down, across = replace(field.down, late=False), field.across
    loop = LOOP_OVERHEAD * field.down.late
    widening = WIDENING[workload.operands[0].dtype]
    if widening:
        after = 1 + epilogue_half.instructions(workload.epilogue, workload.output_dtype)
    else:
        after = 1 + epilogue_f32.instructions(workload.epilogue) + epilogue_f32.STORE
    total, products, waits = 0.0, 0.0, 0.0
    for rows in down.spans:
        for columns in across.spans:
            fmla = down.products(rows) * across.products(columns)
            weights = down.kernel * across.kernel * rows.outputs / 2
            inside = fmla + (1 + widening) * len(rows.inputs) * len(columns.inputs) + weights
            inside += (
                after * rows.outputs * columns.outputs
                + LOOP_OVERHEAD
                + (1 + loop) * len(rows.inputs)
                + rows.outputs
            )
            chain = FMLA_LATENCY * fmla / (rows.outputs * columns.outputs)
            total += inside * rows.count * columns.count
            products += fmla * rows.count * columns.count
            waits += chain * min(1, inside / REORDERED) * rows.count * columns.count
    calls = field.of.data[0] * len(field.blocks(LANES))
    return total * calls + 2 * field.copied / LANES, products * calls, waits * calls
