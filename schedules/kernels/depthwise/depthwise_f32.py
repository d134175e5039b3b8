# SPDX-License-Identifier: Apache-2.0
"""float32 depthwise convolution: patches of output pixels, four channels at a time.

The sums of a patch, some rows by some columns, stay in registers, while each of its input pixels is loaded once, row by
row; four channels of a pixel are one vector, and so are their weights. 16-bit floats are computed in binary32: data is
converted after each load, weights at compile time.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import bfloat
from schedules.intrinsics.registers import LANES, REGISTERS
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.common.cost_model import Cost, arithmetic, converting, scalar
from schedules.kernels.common.threads import PARALLEL_CYCLES
from schedules.kernels.depthwise.axis_steps import Span
from schedules.kernels.depthwise.geometry import Depthwise, Field, field_of, prepared
from schedules.kernels.depthwise.patch_loops import PatchPosition, patches
from schedules.kernels.epilogues import epilogue_f32, epilogue_half
from schedules.kernels.epilogues.activation_f32 import Vector
from schedules.kernels.gemm import product_float
from schedules.tir.emit import i64, kernel_function, load, store

NAME = "depthwise_f32"

PATCHES = ((2, 8), (2, 7), (2, 4), (1, 8), (1, 6), (1, 4), (1, 2), (1, 1), (8, 1), (4, 1), (2, 1))
"""(rows, columns) of the patches worth considering; larger ones put accumulators on the stack on some cores. Two rows
share hardly any input where the stride is more than 1."""

FEW_COLUMNS = 7
"""Width of a kernel up to which its weights and a row of inputs are held at once; wider ones pass tap by tap."""

LOOPED_COLUMNS = 7
"""Width of a kernel from which its rows are a loop: straight code of them would be long."""

BORDER = 7
"""Reach of a kernel up to which its borders are code of their own, and what lies in them is not computed."""

OPAQUE_ROWS = 3
"""Rows of a kernel up to which a patch has opaque offsets. More rows are out of reach of a load's offset, so that each
takes additions, and a register, for an address of its own."""

LOOP_OVERHEAD = 3
"""Instructions that close one loop iteration: the weights' pointer, the count, the branch."""

REORDERED = 160
"""Instructions in flight, so that short patches overlap (MicroOpBufferSize of LLVM's model of the Neoverse N2)."""


@dataclass(frozen=True)
class Params:
    """Tiling parameters of the kernel.

    Attributes:
        rows: Rows of a patch.
        columns: Columns of a patch.
        parallel: Whether bands of `rows` output rows are spread over the runtime's threads.
    """

    rows: int
    columns: int
    parallel: bool = False


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept float depthwise convolutions of any channel multiplier, stride and dilation."""
    field = _field_or_why(workload)
    if isinstance(field, Diagnostic):
        return field
    data = workload.operands[0]
    if data.dtype == "bfloat16" and bfloat.FEATURE not in core.features:
        return missing_feature(NAME, bfloat.FEATURE, core)
    height, width = workload.operands[1].shape[1:3]
    return KernelMatch(f"{data.dtype} depthwise {height} x {width} of {data.shape[3]} channels")


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the fewest instructions."""
    return min(candidates(workload, core), key=lambda params: instructions(workload, params, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the parameters of every patch whose accumulators, input row and row of weights fit the registers."""
    field = _field(workload)
    down, across = field.down, field.across
    free = REGISTERS - core.spare_registers
    width = min(across.kernel, FEW_COLUMNS)
    shares = down.kernel > 1 and down.stride == down.dilation == 1 and not down.late
    found = []
    for rows, columns in dict.fromkeys((min(r, down.outputs), min(c, across.outputs)) for r, c in PATCHES):
        needed = rows * columns + (columns - 1) * across.stride + 2 * width
        if needed <= free and (rows == 1 or shares):
            found.append((rows, columns))
    options = [Params(rows, columns) for rows, columns in found]
    return tuple(
        replace(params, parallel=estimate(workload, params, core) >= PARALLEL_CYCLES) for params in options
    )


def instructions(workload: Workload, params: Params, core: Core) -> float:
    """Return the number of instructions of one call."""
    return _patches(workload, params, core)[0].instructions


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1.

    The estimate is the maximum of the cycles of dispatch, of the vector pipes and of dependent additions.
    """
    cost, waits = _patches(workload, params, core)
    return max(cost.cycles(core), waits)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return weights [block][tap][4 channels], bias and slopes, if any, [block][4 channels]; flat, float32."""
    field, full = _field(workload), _in_full(workload)
    w = constants[workload.operands[1].index].astype(np.float32)
    w, bias = w.reshape(w.shape[0], -1), product_float.bias_of(full, constants, w.shape[0])
    lanes = field.lanes_of(LANES)
    columns = bias, *epilogue_f32.slopes_of(full, constants, w.shape[0])
    return w[lanes].transpose(0, 2, 1).ravel(), *(each[lanes].ravel().astype(np.float32) for each in columns)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    field = _field(workload).cut(params.rows, params.columns)
    blocks = len(field.blocks(LANES))
    _, height, width, _ = workload.operands[1].shape
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    columns = 2 if workload.step(epilogue_f32.PRELU) else 1
    arguments += [
        ((blocks * height * width * LANES,), "float32"),
        *[((blocks * LANES,), "float32")] * columns,
    ]
    arguments.append((workload.output_shape, workload.output_dtype))
    suffix = product_float.SUFFIXES.get(workload.operands[0].dtype, "_f32")
    name = "_".join((f"arm_depthwise{suffix}", *(step.name for step in workload.epilogue)))
    scope = bfloat.functions() if workload.operands[0].dtype == "bfloat16" else nullcontext()
    with kernel_function(name, arguments) as function, scope:
        buffers = [bfloat.bits(b) if str(b.dtype) == "bfloat16" else b for b in function.buffers]
        emitter = _FloatPatchEmitter(workload, field, buffers)
        patches(field, LANES, params.parallel, emitter.patch)
    return function.prim_func


def _in_full(workload: Workload) -> Workload:
    """Return a copy of the workload with all dtypes float32."""
    return workload if workload.operands[0].dtype == "float32" else product_float.in_full(workload)


def _field_or_why(workload: Workload) -> Field | Diagnostic:
    full, data = workload, workload.operands[0]
    if workload.composite in ("arm.conv2d" + suffix for suffix in product_float.SUFFIXES.values()):
        if workload.output_dtype not in (data.dtype, "float32"):
            return declined(
                NAME,
                "output's dtype is not supported",
                f"{data.dtype} or float32",
                workload.output_dtype,
                unfit=True,
            )
        full = product_float.in_full(workload)
    product = product_float.product_of(full, NAME)
    if isinstance(product, Diagnostic):
        return product
    if full.composite != "arm.conv2d":
        return declined(NAME, "composite is no convolution", "arm.conv2d", workload.composite, unfit=True)
    images, height, width, channels = data.shape
    if product.groups != channels:
        grouped = f"{product.groups} groups of {channels} channels"
        return declined(NAME, "not depthwise", "a group each channel", grouped, unfit=True)
    of = Depthwise(
        (images, height, width, channels),
        (workload.operands[1].shape[1], workload.operands[1].shape[2]),
        ConvolutionAttributes.of(workload).strides,
        ConvolutionAttributes.of(workload).dilation,
        ConvolutionAttributes.of(workload).padding,
        product.columns,
    )
    field = field_of(of, LANES, border=BORDER)
    if not isinstance(field, Field):
        return declined(NAME, *field)
    late = field.down.kernel > 1 and field.across.kernel >= LOOPED_COLUMNS
    return replace(field, down=replace(field.down, late=late))


def _field(workload: Workload) -> Field:
    return taken(_field_or_why(workload), workload)


def _patches(workload: Workload, params: Params, core: Core) -> tuple[Cost, float]:
    """Return the cost of all patches of one call, and the cycles that FMLAs wait for their accumulators."""
    field, dtype = _field(workload).cut(params.rows, params.columns), workload.operands[0].dtype
    # Code that skips border taps at run time executes the same number of products as separate code for borders.
    down, across = replace(field.down, late=False), field.across
    loop = LOOP_OVERHEAD * field.down.late
    # A copy of the bias per accumulator, to which products are added.
    after = arithmetic(1) + (
        epilogue_f32.cost(workload.epilogue) + scalar(epilogue_f32.STORE)
        if dtype == "float32"
        else epilogue_half.cost(workload.epilogue, workload.output_dtype, core)
    )
    total, waits = Cost(), 0.0
    for rows in down.spans:
        for columns in across.spans:
            fmla = down.products(rows) * across.products(columns)
            inputs, outputs = len(rows.inputs) * len(columns.inputs), rows.outputs * columns.outputs
            weights = down.kernel * across.kernel * rows.outputs / 2
            inside = arithmetic(fmla) + (scalar(1) + _widening(dtype, core)) * inputs + after * outputs
            inside += scalar(weights + LOOP_OVERHEAD + (1 + loop) * len(rows.inputs) + rows.outputs)
            chain = core.fmla_latency * fmla / outputs
            total += inside * (rows.count * columns.count)
            waits += chain * min(1, inside.instructions / REORDERED) * rows.count * columns.count
    calls = field.of.data[0] * len(field.blocks(LANES))
    copied = scalar(field.copied / LANES) + arithmetic(field.copied / LANES)
    return total * calls + copied, waits * calls


def _widening(dtype: str, core: Core) -> Cost:
    """Return the cost of converting a vector of the data to binary32, by FCVTL or, from bfloat16, SHLL."""
    if dtype == "float32":
        return Cost()
    return converting(1, core) if dtype == "float16" else arithmetic(1)


class _FloatPatchEmitter:
    """Emits patches of a float depthwise convolution."""

    def __init__(self, workload: Workload, field: Field, buffers: Sequence[tirx.Buffer]) -> None:
        residual = workload.step("residual")
        self.workload, self.field = workload, field
        self.x = prepared(buffers[workload.operands[0].index], field, 0)
        self.w, self.bias, *slopes = buffers[len(workload.inputs) : -1]
        self.output, self.slopes = buffers[-1], slopes[0] if slopes else None
        self.residual = buffers[residual.operand.index] if residual and residual.operand else None

    def patch(self, rows: Span, columns: Span, place: PatchPosition) -> None:
        """Emit the code for four channels of one patch."""
        field, down = self.field, self.field.down
        place = place.opaque() if down.kernel <= OPAQUE_ROWS else place
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
        self.finish(acc, rows.outputs, columns.outputs, place)

    def finish(self, acc: tirx.Buffer, rows: int, columns: int, place: PatchPosition) -> None:
        """Emit the epilogue and stores of a patch."""
        full = self.workload.operands[0].dtype == "float32"
        finish = epilogue_f32.finish if full else epilogue_half.finish
        slopes = epilogue_f32.slopes_at(self.slopes, place.block * LANES)
        _, down, across = self.field.target
        for row in range(rows):
            for column in range(columns):
                offset = place.target + (row * down + column * across)
                at = (row * columns + column) * LANES
                finish(self.workload.epilogue, acc, at, LANES, self.output, offset, self.residual, slopes)

    def row(self, acc: tirx.Buffer, first: int, count: int, inputs: "_Row", taps: ir.Expr) -> None:
        """Emit the products of one kernel row by one input row, into the accumulators from `first`."""
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
    """The inputs of a patch in one row; each is loaded at its first use."""

    def __init__(self, x: tirx.Buffer, start: ir.Expr, pitch: int, inside: Sequence[int]) -> None:
        self._x, self._start, self._pitch, self._inside = x, start, pitch, inside
        self._loaded: dict[int, ir.Expr] = {}

    def at(self, column: int) -> ir.Expr | None:
        """Return four channels of input column `column` as float32x4; None if the column is in the border."""
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
