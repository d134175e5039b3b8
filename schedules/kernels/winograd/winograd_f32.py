# SPDX-License-Identifier: Apache-2.0
"""fp32 convolutions 3 x 3 of stride 1 by Winograd's F(2 x 2, 3 x 3) or F(4 x 4, 3 x 3), epilogue inside.

A tile of the data, 4 x 4 or 6 x 6 pixels, is transformed to 16 or 36 numbers per channel. For each of the 16 or 36
positions, a matrix product sums over the channels, with 2.25 or 4 times fewer multiplications than the convolution. The
sums are transformed to 2 x 2 or 4 x 4 output pixels. Tiles are processed in blocks whose transformed data stays in a
cache, or all at once if the weights are larger than this data.

The rounding errors are different from the convolution's. With eps = 2^-24, C channels and A, B and G of `transforms`:

    |error| <= (C + 26) eps |A|^T [ sum over channels of (|G| |w| |G|^T) * (|B|^T |x| |B|) ] |A|

Rounding errors of random signs are a small part of this bound: with normally distributed data and weights, less than
4e-6 of the maximum |output| for up to 512 channels, while the error of the implicit GEMM is below 2.5e-6.

Transformed weights are 16 / 9 or 4 times larger; if they exceed L2 they are read from memory, which `estimate`
includes; four threads wait for them as long as one, so that the choice counts them more (`SHARED`): F(2 x 2, 3 x 3) for
the last layers below. MiB of weights, and millions of cycles estimated for Neoverse N2 (in parentheses those of reading
more weights), of the layers of ResNet-50:

                    implicit GEMM      F(2 x 2, 3 x 3)      F(4 x 4, 3 x 3)
    56, 64 to 64     0.14   14.5        0.25   7.0           0.56   4.2
    28, 128 to 128   0.56   14.5        1.00   6.7           2.25   4.1 (0.2)
    14, 256 to 256   2.25   14.5        4.00   6.8 (0.2)     9.00   5.8 (0.9)
    7, 512 to 512    9.00   14.5       16.00   9.4 (0.9)    36.00   8.4 (3.5)
"""

import math
from collections.abc import Sequence

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.opaque import opaques
from schedules.intrinsics.pin import pins
from schedules.intrinsics.registers import LANES
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, KernelMatch, declined
from schedules.kernels.common.cost_model import cheapest_by, fetch_cycles
from schedules.kernels.common.threads import PARALLEL_CYCLES
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.gemm import panel_selection, product_float
from schedules.kernels.gemm.gemm_f32 import TILES
from schedules.kernels.tiles import fmla_tile
from schedules.kernels.winograd.transforms import INPUT_OPERATIONS, OUTPUT_OPERATIONS, READS, TAPS
from schedules.kernels.winograd.winograd_stages import WinogradStages
from schedules.kernels.winograd.winograd_tiling import TASK_PARTS, WinogradPlan
from schedules.kernels.winograd.winograd_tiling import Params as Params
from schedules.tir.emit import i64, kernel_function

NAME = "winograd_f32"

OUTPUTS = (4, 2)
"""m of the transforms worth considering."""

SHARED = 1.5
"""Cycles of reading more weights from memory that count beside those of the estimate, per cycle: memory gives four
threads no more bytes than one. The mean of compute c and traffic t over one thread, c + t, and over four, c / 4 + t, as
multiples of what a quarter of the work takes, is c + 2.5 t."""

MOST_NUMBERS = 2
"""Most bytes that the intermediate numbers of a block may take, in multiples of data and result, which are alive at
the same time."""

LEAST_TILES = 8
"""Least tiles of a block: per weight, they take one cycle of two four-lane pipes, and its load half a cycle."""


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept 3 x 3 convolutions in float32 with constant weights, stride 1 and channels that are multiples of four."""
    product = product_float.product_of(workload, NAME)
    if isinstance(product, Diagnostic):
        return product
    if workload.composite != "arm.conv2d":
        return declined(NAME, "composite is no convolution", "arm.conv2d", workload.composite, unfit=True)
    w = workload.operands[1].shape
    for what, limit, actual in (
        ("kernel", (TAPS, TAPS), w[1:3]),
        ("strides", (1, 1), ConvolutionAttributes.of(workload).strides),
        ("dilation", (1, 1), ConvolutionAttributes.of(workload).dilation),
        ("groups", 1, product.groups),
    ):
        if limit != actual:
            return declined(NAME, f"{what} is not supported", str(limit), str(actual), unfit=True)
    if w[0] % LANES or w[3] % LANES:
        return declined(NAME, "channels are not in fours", f"multiples of {LANES}", f"{w[3]} to {w[0]}")
    return KernelMatch(f"float32 3 x 3 of {w[3]} to {w[0]} channels")


def default(workload: Workload, core: Core) -> Params:
    """Return the candidate with the fewest instructions among those that tie with the lowest cycles.

    These are the mean of one thread and of four, see `SHARED`.
    """

    def cycles(params: Params) -> float:
        more = fetch_cycles(0, _more_weights(WinogradPlan(workload, params), core))
        return estimate(workload, params, core) + SHARED * more

    return cheapest_by(
        candidates(workload, core),
        cycles,
        lambda params: instructions(workload, params),
        panel_selection.MODEL_ERROR,
    )


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the parameters of both transforms with every register tile."""
    found = []
    for outputs in OUTPUTS:
        for rows, vectors in TILES:
            whole = Params(
                outputs, rows, vectors, WinogradPlan(workload, Params(outputs, rows, vectors, 1)).tiles
            )
            parallel = estimate(workload, whole, core) >= PARALLEL_CYCLES
            block = _block(WinogradPlan(workload, whole), core, parallel)
            found.append(Params(outputs, rows, vectors, block, parallel))
    return tuple(found)


def _block(cut: WinogradPlan, core: Core, parallel: bool) -> int:
    """Return the number of tiles of a block.

    Their transformed data and sums take at most half of L2, or the size of the weights if that is more.
    """
    weights = cut.products * cut.channels * cut.columns
    room = max(core.l2.size // 2 // np.dtype(np.float32).itemsize, weights)
    pitch = cut.input_pitch + cut.output_pitch
    fitting = room // pitch // cut.params.rows
    if fitting * cut.params.rows >= cut.tiles:
        tensors = math.prod(cut.workload.operands[0].shape) + math.prod(cut.workload.output_shape)
        parts = -(-cut.tiles * pitch // (MOST_NUMBERS * tensors))
        part = -(-cut.tiles // parts // cut.params.rows) * cut.params.rows
        return part if LEAST_TILES <= part < cut.tiles else cut.tiles
    sizes = [cut.params.rows * many for many in range(max(1, fitting), 0, -1)]
    even = (size for size in sizes if -(-cut.tiles // size) % TASK_PARTS == 0)
    return next(even, sizes[0]) if parallel else sizes[0]


def instructions(workload: Workload, params: Params) -> float:
    """Return the number of instructions of one call."""
    cut = WinogradPlan(workload, params)
    segments = ((0, cut.channels),)
    return sum(total for total, _ in _transforms(cut)) + sum(
        count * (fmla_tile.instructions(rows, vectors, segments) + rows * vectors * epilogue_f32.STORE)
        for rows, vectors, count in cut.register_tiles()
    )


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core: transforms, products, and what caches fetch between them."""
    cut = WinogradPlan(workload, params)
    segments = ((0, cut.channels),)
    total = sum(
        count * fmla_tile.cycles(rows, vectors, segments, epilogue_f32.cost(()) * (rows * vectors), core)
        for rows, vectors, count in cut.register_tiles()
    )
    total += sum(
        max(all_ / core.issue_width, vector / core.vector_pipes) for all_, vector in _transforms(cut)
    )
    each = cut.products * np.dtype(np.float32).itemsize
    # Transformed data and products are written and read again, from L2 if L1 does not hold those of a block.
    between = (cut.channels + cut.columns) * each
    kept = min(cut.params.block, cut.tiles) * between <= core.l1d.size
    return total + fetch_cycles(0 if kept else 2 * cut.tiles * between, _more_weights(cut, core))


def _more_weights(cut: WinogradPlan, core: Core) -> float:
    """Return the bytes of transformed weights read from memory, less the bytes of the convolution's weights."""
    weights = cut.channels * cut.columns * cut.products * np.dtype(np.float32).itemsize
    # There are 1.8 or 4 times as many transformed weights as weights of the convolution.
    return (1 - TAPS**2 / cut.products) * weights if weights > core.l2.size else 0.0


def _transforms(cut: WinogradPlan) -> list[tuple[float, float]]:
    """Return (instructions, those on vector pipes) of the padded copy, the data transform and the output transform."""
    m, size = cut.params.outputs, cut.transform.size
    copied = math.prod(cut.padded) / LANES
    data, results = (cut.tiles * channels // LANES for channels in (cut.channels, cut.columns))
    forth = 2 * size * INPUT_OPERATIONS[m] + cut.products
    back = (size + m) * OUTPUT_OPERATIONS[m] + m * m * (1 + epilogue_f32.instructions(cut.workload.epilogue))
    return [
        (copied, copied / 2),
        (data * (forth + READS[m]), data * forth),
        (results * (back + READS[m]), results * back),
    ]


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the transformed weights, [product][panel][K][columns of the panel], the bias, and PReLU slopes, if any."""
    cut = WinogradPlan(workload, params)
    order = fmla_tile.order(((0, cut.channels),))
    u = cut.transform.weights(constants[workload.operands[1].index][..., order])
    width = cut.params.vectors * LANES
    full = cut.full_panels * width
    packed = np.empty((cut.products, cut.channels * cut.columns), np.float32)
    # Both reshapes must return views, because the assignments below write through them into `packed`.
    panels = packed[:, : cut.channels * full].reshape(cut.products, cut.full_panels, cut.channels, width)
    last = packed[:, cut.channels * full :].reshape(cut.products, cut.channels, cut.columns - full)
    by_panel = u[:, :, :full].reshape(cut.products, cut.channels, cut.full_panels, width)
    panels[:] = by_panel.transpose(0, 2, 1, 3)
    last[:] = u[:, :, full:]
    bias = product_float.bias_of(workload, constants, cut.columns)
    slopes = epilogue_f32.slopes_of(workload, constants, cut.columns)
    return packed.ravel(), bias, *slopes


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    cut = WinogradPlan(workload, params)
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    columns = 2 if workload.step(epilogue_f32.PRELU) else 1
    weights = (cut.products * cut.channels * cut.columns,)
    arguments += [(weights, "float32"), *[((cut.columns,), "float32")] * columns]
    arguments.append((workload.output_shape, workload.output_dtype))
    name = "_".join(("arm_winograd_f32", *(step.name for step in workload.epilogue)))
    with kernel_function(name, arguments) as function, opaques(), pins():
        data = workload.operands[0]
        x = function.buffers[data.index]
        if cut.padded != data.shape:
            x = copies.padded(x, data.shape, cut.widths, 0)
        emitter = WinogradStages(cut, x, function.buffers)
        if cut.by_blocks:
            with T.parallel(i64(0), i64(cut.blocks)) as block:
                emitter.block(T.Bind(block * params.block), emitter.numbers(), parallel=False)
        else:
            numbers = emitter.numbers()
            with T.serial(i64(0), i64(cut.blocks)) as block:
                emitter.block(T.Bind(block * params.block), numbers, params.parallel)
    return function.prim_func
