# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolution on SDOT: four input rows at a time, eight channels, columns carried in registers.

Four rows of one column are interleaved to [channel][4 rows], so that one SDOT takes four kernel rows of four
channels; with weights (w0 w1 w2 0) and (0 w0 w1 w2) the same data serves two output rows of a 3 x 3 kernel. Borders are
code with constants where the data would be: there is no padded copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load, store
from schedules.intrinsics.sdot import FEATURE, sdot
from schedules.intrinsics.vector import high, low
from schedules.kernel import Array, Match, Rejection
from schedules.kernels import depthwise_bands, product_s8, threads
from schedules.kernels.cost import VECTOR, Cost, arithmetic, requantization, scalar
from schedules.kernels.depthwise_bands import COLUMN_OVERHEAD, Block, bands, starts_of
from schedules.kernels.depthwise_engines import CHANNELS, HALVES, Sdot
from schedules.kernels.product_s8 import Product
from schedules.kernels.requantize_tile import requantize16
from schedules.kernels.windows import GROUP, Window
from schedules.workload import Workload

NAME = "depthwise_s8"

ENGINE = Sdot()

KEPT_COLUMNS = 3
"""Width of a kernel whose weights stay in registers with two columns of outputs."""


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
    """Takes small depthwise convolutions with one output a channel, on cores with dotprod."""
    return depthwise_bands.matches(workload, core, NAME, FEATURE)


def default(workload: Workload, core: Core) -> Params:
    """Two columns for 3 x 3, whose weights stay in registers with them; one for wider kernels."""
    unroll = 2 if workload.operands[1].shape[2] <= KEPT_COLUMNS else 1
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
    product, window = _read(workload)
    new_columns = min(window.kernel[1], window.strides[1]) * len(window.groups.firsts)
    # Of a group of rows four loads and four permutations.
    column = (scalar(GROUP) + arithmetic(GROUP * (2 if product.flipped else 1))) * new_columns
    # Accumulators start as copies; of an output row eight channels are requantised and stored.
    column += arithmetic(HALVES * (len(list(window.products())) + window.band))
    column += requantization(window.band * CHANNELS, product.form, product.to) + arithmetic(
        window.band * 3 / 2
    )
    column += scalar(COLUMN_OVERHEAD / params.unroll)
    count = -(-window.output[0] // window.band) * window.data[0]
    return column * (count * len(starts_of(window)) * window.output[1])


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Weights [block][product][8 channels][4 rows]; offsets and multipliers [block][8 channels]; all flat."""
    product, window = _read(workload)
    offset, m = product_s8.offsets_and_multipliers(workload, constants, product)
    channels = np.array([range(start, start + CHANNELS) for start in starts_of(window)])
    # [block][8 channels][row][column]
    w = constants[workload.operands[1].index][channels][..., 0]
    weights = [ENGINE.pack(w[..., column], taps) for _, column, _, taps in window.products()]
    return np.stack(weights, axis=1).ravel(), offset[channels].ravel(), m[channels].ravel()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    product, window = _read(workload)
    blocks = len(starts_of(window))
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [((blocks * len(list(window.products())) * CHANNELS * GROUP,), "int8")]
    arguments += [((blocks * CHANNELS,), "int32"), ((blocks * CHANNELS,), "float32")]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function("arm_depthwise_s8", arguments) as function:
        block = partial(_Block, product, window, params.unroll, function.buffers)
        bands(window, params.parallel, block)
    return function.prim_func


class _Block(Block):
    """See `depthwise_bands.Block`."""

    lanes = VECTOR

    def __init__(
        self,
        product: Product,
        window: Window,
        unroll: int,
        buffers: Sequence[tirx.Buffer],
        rows: int,
        valid: tuple[bool, ...],
        where: tuple[ir.Expr, ir.Expr],
        block: ir.Expr,
    ) -> None:
        self.product, self.window, self.unroll, self.rows, self.valid = product, window, unroll, rows, valid
        self.x, self.output, (self.source, self.target) = buffers[0], buffers[-1], where
        w, offset, m = buffers[-4:-1]
        self.start = [load(offset, block * CHANNELS + 4 * v, 4) for v in range(HALVES)]
        self.m = [load(m, block * CHANNELS + 4 * v, 4) for v in range(HALVES)]
        products = list(window.products())
        self.weights = {
            (row, column, group): ENGINE.weights(w, (block * len(products) + index) * (CHANNELS * GROUP))
            for index, (row, column, group, _) in enumerate(products)
            if row < rows
        }
        self.used = sorted({group for row in range(rows) for group, _ in window.groups.cover(row)})
        self.parts = HALVES * len(self.used)

    def column(self, place: ir.Expr | None) -> list[ir.Expr]:
        """The groups of one input column, interleaved: two vectors each."""
        channels, dtype, pad = self.window.data[3], str(self.x.dtype), self.product.pad
        pitch = self.window.data[2] * channels
        border = tirx.Broadcast(tirx.IntImm(dtype, int(pad.value) if pad else 0), CHANNELS)
        loaded: dict[int, ir.Expr] = {}

        def row(index: int) -> ir.Expr:
            # Rows that no kernel row meets are any rows.
            index = min(index, len(self.valid) - 1)
            if index not in loaded:
                inside = place is not None and self.valid[index]
                at = self.source + ((i64(0) if place is None else place) * channels + index * pitch)
                loaded[index] = load(self.x, at, CHANNELS) if inside else border
            return loaded[index]

        found = []
        for group in self.used:
            first = self.window.groups.firsts[group]
            found += ENGINE.column([row(first + i) for i in range(GROUP)], self.product.flipped)
        return found

    def outputs(self, x: ir.Expr, columns: Sequence[Sequence[ir.Expr]]) -> None:
        """Eight channels of one output column."""
        acc = []
        for row in range(self.rows):
            total = list(self.start)
            for column, values in enumerate(columns):
                for group, _ in self.window.groups.cover(row):
                    weights, part = self.weights[row, column, group], HALVES * self.used.index(group)
                    for v in range(HALVES):
                        total[v] = T.Bind(sdot(total[v], weights[v], values[part + v]))
            acc.append(total)
        channels, line = self.window.data[3], self.window.output[1] * self.window.data[3]
        for row in range(0, self.rows, 2):
            below = min(row + 1, self.rows - 1)
            quarter = [*acc[row], *acc[below]]
            values = T.Bind(requantize16(self.product.form, quarter, [*self.m, *self.m], self.product.to))
            at = self.target + (x * channels + row * line)
            store(self.output, low(values), at, CHANNELS)
            if below > row:
                store(self.output, high(values), at + line, CHANNELS)


def _read(workload: Workload) -> tuple[Product, Window]:
    product = depthwise_bands.product_of(workload, NAME)
    return product, depthwise_bands.window_of(workload, product)
