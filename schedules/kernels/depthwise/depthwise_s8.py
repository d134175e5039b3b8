# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolution on SDOT: four input rows at a time, eight channels, columns carried in registers.

Four rows of one column are interleaved to [channel][4 rows], so that one SDOT takes four kernel rows of four
channels; with weights (w0 w1 w2 0) and (0 w0 w1 w2) the same data serves two output rows of a 3 x 3 kernel. Borders
have separate code, with constants instead of loads: there is no padded copy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from schedules.intrinsics.quad import quads
from schedules.intrinsics.registers import VECTOR
from schedules.intrinsics.reload import reloads
from schedules.intrinsics.sdot import FEATURE
from schedules.kernels.common import threads
from schedules.kernels.common.contract import Array, KernelMatch
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.depthwise import band_loops
from schedules.kernels.depthwise.accumulators_s8 import headers_of, pack_headers, requantized
from schedules.kernels.depthwise.band_loops import COLUMN_OVERHEAD, BandEmitter, bands, starts_of
from schedules.kernels.depthwise.input_rows_s8 import GROUP, DepthwiseWindow
from schedules.kernels.depthwise.instructions_s8 import CHANNELS, HALVES, Sdot
from schedules.kernels.gemm.packed_columns_s8 import Headers
from schedules.kernels.gemm.product_s8 import IntegerProduct, requantization_cost
from schedules.tir.emit import kernel_function

NAME = "depthwise_s8"

ENGINE = Sdot()

KEPT_COLUMNS = 3
"""Width of a kernel whose weights stay in registers with two columns of outputs."""


@dataclass(frozen=True)
class Params:
    """Tiling parameters of the kernel.

    Attributes:
        unroll: Output columns of one loop iteration.
        reload: Whether initial accumulators are loaded for each output instead of copied from registers: fewer
            instructions, but LLVM's scheduler moves no other load across these loads.
        parallel: Whether bands of rows are spread over the runtime's threads.
    """

    unroll: int
    reload: bool = True
    parallel: bool = False


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept small int8 depthwise convolutions with one output per input channel, on cores with dotprod."""
    return band_loops.matches(workload, core, NAME, FEATURE)


def default(workload: Workload, core: Core) -> Params:
    """Return parameters with two output columns per iteration for small kernels of stride 1, else with one.

    Two columns are faster if the stride is 1 and the kernel at most `KEPT_COLUMNS` wide: weights then stay in
    registers.
    """
    kept = (
        workload.operands[1].shape[2] <= KEPT_COLUMNS and ConvolutionAttributes.of(workload).strides[1] == 1
    )
    unroll = 2 if kept else 1
    return next(params for params in candidates(workload, core) if params.unroll == unroll)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return parameters with one to four output columns per iteration; those of long calls are parallel."""
    options = [Params(unroll, not core.in_order) for unroll in range(1, 5)]
    return tuple(
        replace(params, parallel=estimate(workload, params, core) >= threads.PARALLEL_CYCLES)
        for params in options
    )


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1."""
    return cost(workload, params).cycles(core)


def cost(workload: Workload, params: Params) -> Cost:
    """Return the cost of one call; border outputs are counted like inner ones."""
    product, window = _read(workload, params)
    new_columns = min(window.kernel[1], window.strides[1]) * len(window.groups.firsts)
    # A group of four rows takes four loads and four permutations.
    column = (scalar(GROUP) + arithmetic(GROUP * (2 if product.flipped else 1))) * new_columns
    # Initial accumulators are copied, or loaded once for two rows; eight channels of a row are requantised and stored.
    column += scalar(-(-window.band // 2)) if params.reload else arithmetic(HALVES * window.band)
    column += arithmetic(HALVES * len(list(window.products())) + window.band)
    column += requantization_cost(product, window.band * CHANNELS, reload=params.reload)
    column += scalar(COLUMN_OVERHEAD / params.unroll)
    count = -(-window.output[0] // window.band) * window.data[0]
    return column * (count * len(starts_of(window)) * window.output[1])


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the weights [block][product][8 channels][4 rows] and the blocks' headers, as two flat arrays."""
    product, window = _read(workload, params)
    channels = np.array([range(start, start + CHANNELS) for start in starts_of(window)])
    # [block][8 channels][row][column]
    w = constants[workload.operands[1].index][channels][..., 0]
    weights = [ENGINE.pack(w[..., column], taps) for _, column, _, taps in window.products()]
    return np.stack(weights, axis=1).ravel(), pack_headers(
        workload, _headers(product, params), constants, channels
    )


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product, window = _read(workload, params)
    blocks = len(starts_of(window))
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    arguments += [((blocks * len(list(window.products())) * CHANNELS * GROUP,), "int8")]
    arguments += [((blocks * _headers(product, params).bytes,), "int8")]
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function("arm_depthwise_s8", arguments) as function, pins(), reloads(), quads():
        headers = _headers(product, params)
        block = partial(_SdotBlock, product, window, params.unroll, params.reload, headers, function.buffers)
        bands(window, params.parallel, block)
    return function.prim_func


class _SdotBlock(BandEmitter):
    """Emitter of eight channels of one band by SDOT."""

    lanes = VECTOR

    def __init__(self, *where: Any) -> None:
        super().__init__(*where)
        products, block = list(self.window.products()), where[-1]
        self.weights = {
            (row, column, group): ENGINE.weights(self.w, (block * len(products) + index) * (CHANNELS * GROUP))
            for index, (row, column, group, _) in enumerate(products)
            if row < self.rows
        }
        self.used = sorted({group for row in range(self.rows) for group, _ in self.window.groups.cover(row)})
        self.parts = HALVES * len(self.used)

    def column(self, place: ir.Expr | None) -> list[ir.Expr]:
        """Return one input column, interleaved for SDOT: two vectors for each group of four rows."""
        loaded: dict[int, ir.Expr] = {}

        def row(index: int) -> ir.Expr:
            # Rows of a group whose weights are zero may be any rows of the data.
            index = min(index, len(self.valid) - 1)
            if index not in loaded:
                loaded[index] = self.row(place, index)
            return loaded[index]

        found = []
        for group in self.used:
            first = self.window.groups.firsts[group]
            found += ENGINE.column([row(first + i) for i in range(GROUP)], self.product.flipped)
        return found

    def sums(self, columns: Iterator[Sequence[ir.Expr]]) -> list[list[ir.Expr]]:
        """Emit the accumulators of each row, from an iterator over the input columns."""
        totals = self.header.starts_of(self.rows)
        for column, values in enumerate(columns):
            for row in range(self.rows):
                for group, taps in self.window.groups.cover(row):
                    part = HALVES * self.used.index(group)
                    data, weights = values[part : part + HALVES], self.weights[row, column, group]
                    totals[row] = ENGINE.add(totals[row], weights, data, taps)
                # With a stride, most columns of an output are not carried, and LLVM would move their loads before
                # the sums.
                if self.header.reload and self.window.strides[1] > 1:
                    totals[row] = [T.Bind(pinned(each)) for each in totals[row]]
        return totals


def _headers(product: IntegerProduct, params: Params) -> Headers:
    """Return the layout of the headers; reloaded initial accumulators are stored twice, for two rows per load."""
    return headers_of(product, 2 if params.reload else 1)


def _read(workload: Workload, params: Params) -> tuple[IntegerProduct, DepthwiseWindow]:
    product = requantized(band_loops.product_of(workload, NAME), reload=params.reload)
    return product, band_loops.window_of(workload, product)
