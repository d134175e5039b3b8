# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolution with a kernel of any size: patches of output pixels, eight channels at a time.

Input rows are taken in groups: four for SDOT, interleaved to [channel][4 rows]; two, or one, for SMULL and SMLAL, whose
sum of two products fits 16 bits. All accumulators of a patch stay in registers in the loops over groups and taps: a
vector of weights is loaded once per patch, and a column of a group once per row of taps. A kernel of one row is
transposed: rows and columns exchange their roles.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sdot
from schedules.intrinsics.pin import pinned, pins
from schedules.intrinsics.registers import REGISTERS, VECTOR
from schedules.intrinsics.reload import reloads
from schedules.kernels.common import threads
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.common.cost_model import Cost, arithmetic, cheapest, scalar
from schedules.kernels.depthwise.accumulators_s8 import finish, headers_of, pack_headers, requantized
from schedules.kernels.depthwise.axis_steps import Span
from schedules.kernels.depthwise.geometry import Depthwise, Field, field_of, is_depthwise, prepared
from schedules.kernels.depthwise.input_rows_s8 import Groups
from schedules.kernels.depthwise.instructions_s8 import CHANNELS, ENGINES, HALVES, Engine
from schedules.kernels.depthwise.patch_loops import PatchPosition, patches
from schedules.kernels.epilogues.requantize import Form
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.packed_columns_s8 import Addends, Header
from schedules.kernels.gemm.product_s8 import IntegerProduct, requantization_cost
from schedules.kernels.tiles.int16_chains import chain_of
from schedules.tir.emit import kernel_function, load

NAME = "depthwise_s8_patch"

PATCHES = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1), (8, 1), (1, 6))
"""Sizes of a patch worth considering: outputs along the axis that groups are cut of, and along the other axis."""

SPARE_REGISTERS = 4
"""Registers for weights, and for rows before they are interleaved."""

PATCH_OVERHEAD = 8
"""Scalar instructions of a patch: where its rows lie, the loop over channels."""


@dataclass(frozen=True)
class Params:
    """Tiling parameters of the kernel.

    Attributes:
        down: Number of outputs of a patch along the axis whose inputs form groups.
        across: Number of outputs of a patch along the other axis.
        engine: Instructions that sum products: a key of `ENGINES`.
        ordered: Whether sums are pinned to their order in the code, which needs few registers; if not, LLVM may move
            them, which is better for in-order cores.
        reload: Whether constants that an instruction overwrites are loaded before each use instead of copied.
        parallel: Whether bands of patches are spread over the runtime's threads.
    """

    down: int
    across: int
    engine: str
    ordered: bool = True
    reload: bool = True
    parallel: bool = False


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept int8 depthwise convolutions of any kernel, multiplier, stride and dilation, on every core with NEON."""
    product = product_s8.product_of(workload, NAME)
    if isinstance(product, Diagnostic):
        return product if is_depthwise(workload) else replace(product, unfit=True)
    field = _field_or_why(workload, product)
    if isinstance(field, Diagnostic):
        return field
    if not core.neon:
        return missing_feature(NAME, "neon", core)
    height, width = workload.operands[1].shape[1:3]
    return KernelMatch(f"int8 depthwise {height} x {width} of {product.data[-1]} channels")


def default(workload: Workload, core: Core) -> Params:
    """Return the parameters of the patch with the lowest estimate."""
    return cheapest(candidates(workload, core), lambda params: cost(workload, params), core)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the parameters of every patch whose accumulators and input columns in use fit the registers."""
    engine = "sdot" if sdot.FEATURE in core.features else f"mlal{chain_of(workload)}"
    field = _field(workload)
    options = [
        Params(down, across, engine, not core.in_order or engine != "sdot", not core.in_order)
        for down, across in PATCHES
        if _fits(field, ENGINES[engine], down, across)
    ]
    return tuple(
        replace(params, parallel=estimate(workload, params, core) >= threads.PARALLEL_CYCLES)
        for params in options
    )


def _fits(field: Field, engine: Engine, down: int, across: int) -> bool:
    if down > max(1, field.down.outputs) or across > max(1, field.across.outputs):
        return False
    if down > 1 and field.down.dilation > 1:
        return False
    passing = engine.registers * (across if field.across.kernel > 1 else 1)
    return HALVES * down * across + passing <= REGISTERS - SPARE_REGISTERS


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1."""
    return cost(workload, params).cycles(core)


def cost(workload: Workload, params: Params) -> Cost:
    """Return the cost of one call: loads, products, requantisation and stores of all patches."""
    product, field, engine = _requantized(workload, params), _cut(workload, params), ENGINES[params.engine]
    groups = _groups(field, engine)
    taps = [taps for row in range(groups.band) for _, taps in groups.cover(row)]
    products = sum((engine.adding(tap) for tap in taps), Cost()) * field.across.kernel
    columns = engine.loading(product.flipped) * len(groups.firsts)
    outputs = params.down * params.across
    total = Cost()
    for rows in field.down.spans:
        for span in field.across.spans:
            patch = products * span.outputs + columns * len(span.inputs)
            patch += scalar(len(taps) * field.across.kernel + PATCH_OVERHEAD)
            patch += requantization_cost(product, outputs * CHANNELS, reload=params.reload)
            # Accumulators that the instruction overwrites are initialised by one load each; a store writes eight bytes.
            patch += scalar(outputs * engine.overwrites) + arithmetic(outputs)
            total += patch * (rows.count * span.count)
    calls = field.of.data[0] * len(field.blocks(CHANNELS))
    return total * calls + (scalar(1) + arithmetic(1)) * (field.copied / VECTOR)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the weights as the engine reads them, [block][product], and the blocks' headers; both flat.

    Raises:
        ValueError: The engine's 16-bit sums overflow for these weights.
    """
    product, field, engine = _requantized(workload, params), _cut(workload, params), ENGINES[params.engine]
    w = constants[workload.operands[1].index][..., 0]
    lanes = field.lanes_of(CHANNELS)
    # [block][8 channels][down][across]
    w = (w.transpose(0, 2, 1) if _is_transposed(workload) else w)[lanes]
    products = _groups(field, engine).products(field.across.kernel)
    vectors = [engine.pack(w[..., column], taps) for _, column, _, taps in products]
    return np.stack(vectors, axis=1).ravel(), pack_headers(workload, headers_of(product), constants, lanes)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    field, engine = _cut(workload, params), ENGINES[params.engine]
    size = len(field.blocks(CHANNELS)) * CHANNELS
    weights = len(_groups(field, engine).products(field.across.kernel)) * engine.group * size
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    headers = size // CHANNELS * headers_of(_requantized(workload, params)).bytes
    arguments += [((weights,), "int8"), ((headers,), "int8")]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function(f"arm_{NAME}", arguments) as function, pins(), reloads():
        emitter = _Int8PatchEmitter(workload, params, function.buffers)
        patches(field, CHANNELS, params.parallel, emitter.patch)
    return function.prim_func


class _Int8PatchEmitter:
    """Emits the code of patches of an int8 depthwise convolution."""

    def __init__(self, workload: Workload, params: Params, buffers: Sequence[tirx.Buffer]) -> None:
        self.product, self.field = _requantized(workload, params), _cut(workload, params)
        self.engine, self.ordered, self.reload = ENGINES[params.engine], params.ordered, params.reload
        self.groups = _groups(self.field, self.engine)
        self.products = self.groups.products(self.field.across.kernel)
        self.w, self.headers, self.output = buffers[-3:]
        self.x = prepared(buffers[0], self.field, self.product.pad.value if self.product.pad else 0)

    def patch(self, rows: Span, columns: Span, place: PatchPosition) -> None:
        """Emit the code for eight channels of one patch."""
        across, groups = self.field.across, self.groups
        header = Header(headers_of(self.product), self.headers, place.block, 0, self.reload)
        start = header.starts if self.engine.overwrites else header.offsets
        acc = {(row, column): start() for row in range(rows.outputs) for column in range(columns.outputs)}
        size = CHANNELS * self.engine.group
        data: dict[tuple[int, int], Sequence[ir.Expr]] = {}
        for index, (row, tap, group, taps) in enumerate(self.products):
            if row >= rows.outputs:
                continue
            weights = self.engine.weights(self.w, (place.block * len(self.products) + index) * size)
            for column in range(columns.outputs):
                x = column * across.stride + tap * across.dilation
                if (group, x) not in data:
                    at = place.source + x * self.field.source[2]
                    data[group, x] = self.group(at, groups.firsts[group], groups.rows)
                total = self.engine.add(acc[row, column], weights, data[group, x], taps)
                acc[row, column] = [T.Bind(pinned(each)) if self.ordered else each for each in total]
        _, down, across_pitch = self.field.target
        places = [place.target + (row * down + column * across_pitch) for row, column in acc]
        totals = list(acc.values())

        def put(form: Form, m: Sequence[ir.Expr], addends: Addends | None) -> None:
            finish(form, m, addends, self.product.to, totals, self.output, places)

        header.requantized(put)

    def group(self, at: ir.Expr, first: int, rows: int) -> Sequence[ir.Expr]:
        """Emit the loads of one column of a group of rows, in the layout that the engine multiplies."""
        # Rows of a group whose weights are zero may be any rows of the data.
        inside = [min(first + row, rows - 1) * self.field.down.dilation for row in range(self.engine.group)]
        loaded = {row: load(self.x, at + row * self.field.source[1], CHANNELS) for row in set(inside)}
        return self.engine.column([loaded[row] for row in inside], self.product.flipped)


def _field_or_why(workload: Workload, product: IntegerProduct) -> Field | Diagnostic:
    channels = product.data[-1]
    if workload.composite != "arm.conv2d_s8" or product.groups != channels:
        grouped = f"{product.groups} groups of {channels} channels"
        return declined(NAME, "not depthwise", "a group each channel", grouped, unfit=True)
    images, height, width, _ = workload.operands[0].shape
    (_, (top, bottom), (left, right), _) = product.pad.widths if product.pad else ((0, 0),) * 4
    of = Depthwise(
        (images, height, width, channels),
        (workload.operands[1].shape[1], workload.operands[1].shape[2]),
        ConvolutionAttributes.of(workload).strides,
        ConvolutionAttributes.of(workload).dilation,
        (top, left, bottom, right),
        product.columns,
    )
    field = field_of(of, CHANNELS, transposed=_is_transposed(workload))
    return field if isinstance(field, Field) else declined(NAME, *field)


def _is_transposed(workload: Workload) -> bool:
    """Whether the kernel has a single row; groups are then formed along the columns."""
    _, height, width, _ = workload.operands[1].shape
    return height == 1 < width


def _product(workload: Workload) -> IntegerProduct:
    return taken(product_s8.product_of(workload, NAME), workload)


def _requantized(workload: Workload, params: Params) -> IntegerProduct:
    return requantized(_product(workload), reload=params.reload)


def _field(workload: Workload) -> Field:
    return taken(_field_or_why(workload, _product(workload)), workload)


def _cut(workload: Workload, params: Params) -> Field:
    return _field(workload).cut(params.down, params.across)


def _groups(field: Field, engine: Engine) -> Groups:
    """Return the groups of the input rows that a patch reads, in units of the dilation."""
    down = field.down
    return Groups(down.kernel, down.stride, min(down.step, down.outputs), engine.group)
