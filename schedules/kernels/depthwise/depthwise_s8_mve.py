# SPDX-License-Identifier: Apache-2.0
"""int8 depthwise convolutions on Helium: sixteen channels at a time, requantised by `qdq`.

VMULLB and VMULLT multiply the even and odd channels to 16 bits. The products of two taps are added there, which cannot
overflow where no weight is -128, and are then widened and added to 32 bits. A border is a copy in the workspace.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import MVE, Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import mve
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.epilogues.requantize_mve import (
    COLUMNS,
    INSTRUCTIONS,
    LANES,
    VECTOR,
    in_order,
    requantized,
    store_columns,
)
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.product import weights_by_column
from schedules.kernels.gemm.product_s8 import IntegerProduct, flip
from schedules.tir.emit import i64, kernel_function, load, store

NAME = "depthwise_s8_mve"

LEAST = 127
"""Greatest |weight| of which two products with int8 fit 16 bits together."""

MOST_TAPS = 49
"""Most taps, which are unrolled."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel: none."""


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept depthwise convolutions of 8-bit data by constant int8 weights, on cores with MVE and its floats."""
    product = product_s8.converted_product_of(workload, NAME)
    if isinstance(product, Diagnostic):
        return product
    if core.isa.name != MVE.name or not core.isa.rounds:
        return missing_feature(NAME, "mve.fp", core)
    if product.groups == 1 or product.columns > 1 or any(length > 1 for _, length in product.rows.segments):
        actual = f"{product.groups} groups of {product.columns} outputs"
        return declined(NAME, "not depthwise", "an input and an output each group", actual, unfit=True)
    if product.rows.depth > MOST_TAPS:
        return declined(NAME, "kernel is too large", f"{MOST_TAPS} taps", str(product.rows.depth))
    if product.groups % VECTOR and product.pad is None:
        reason = "the last vector of channels would reach behind the data"
        return declined(NAME, reason, f"a multiple of {VECTOR}, or a border", str(product.groups))
    return KernelMatch(f"int8 depthwise convolution of {product.groups} channels, {product.rows.depth} taps")


def default(workload: Workload, core: Core) -> Params:
    """Return the only parameters."""
    return Params()


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the only parameters."""
    return (Params(),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the instructions of one call."""
    product, pairs = _product(workload), len(_taps(workload))
    sums = 4 * product.rows.depth + 10 * pairs + LANES
    border = 2 * np.prod(product.data) / VECTOR if product.pad else 0.0
    return float(border + product.rows.count * (_blocks(product) * (sums + INSTRUCTIONS) + 4))


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the weights [blocks, taps, 16], and offset and multiplier of each channel in the order of the sums."""
    product = _product(workload)
    channels, rest = _blocks(product) * COLUMNS, _blocks(product) * COLUMNS - product.groups
    weights = weights_by_column(workload, constants, product)[:, 0, :]
    offsets, multipliers = product_s8.offsets_and_multipliers(workload, constants, product)
    blocks = np.pad(weights, ((0, rest), (0, 0))).reshape(-1, COLUMNS, product.rows.depth)
    order = in_order(channels)
    return (
        np.ascontiguousarray(blocks.transpose(0, 2, 1)).reshape(-1),
        np.pad(offsets, (0, rest))[order],
        np.pad(multipliers, (0, rest))[order].astype("float32"),
    )


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    product = _product(workload)
    channels = _blocks(product) * COLUMNS
    constants = [((channels * product.rows.depth,), "int8"), ((channels,), "int32"), ((channels,), "float32")]
    arguments = [*((operand.shape, operand.dtype) for operand in workload.inputs), *constants]
    arguments.append((workload.output_shape, workload.output_dtype))
    symbol = "_".join(("arm_depthwise_s8_mve", *(step.name for step in workload.epilogue)))
    with kernel_function(symbol, arguments) as function:
        data = workload.operands[0]
        x = function.buffers[data.index]
        if product.pad is not None:
            x = copies.padded(x, data.shape, product.pad.widths, product.pad.value)
        *_, weights, offsets, multipliers, y = function.buffers
        whole, rest = divmod(product.groups, COLUMNS)
        with T.serial(i64(0), i64(product.rows.count)) as row:
            start, target = T.Bind(product.rows.offset(row)), T.Bind(product.target(row))

            def channels_of(block: ir.Expr, count: int) -> None:
                first = T.Bind(block * COLUMNS)
                acc = _sums(workload, x, start + first, weights, offsets, block)
                scales = [load(multipliers, first + i64(LANES * i), LANES) for i in range(LANES)]
                value = requantized(acc, scales, product.to)
                store_columns(y, value, T.Bind(target + first), count, product.to.dtype)

            if whole:
                with T.serial(i64(0), i64(whole)) as block:
                    channels_of(block, COLUMNS)
            if rest:
                channels_of(i64(whole), rest)
    assert function.prim_func is not None
    return function.prim_func


def _sums(
    workload: Workload,
    x: tirx.Buffer,
    start: ir.Expr,
    weights: tirx.Buffer,
    offsets: tirx.Buffer,
    block: ir.Expr,
) -> list[ir.Expr]:
    """Emit the accumulators of sixteen channels, four vectors in the order of the packed constants."""
    product, depth = _product(workload), _product(workload).rows.depth
    segments = [offset for offset, _ in product.rows.segments]
    start, panel = T.Bind(start), T.Bind(block * (depth * VECTOR))
    acc = T.alloc_buffer((COLUMNS,), "int32", layout=None)
    for four in range(LANES):
        store(acc, load(offsets, block * COLUMNS + LANES * four, LANES), i64(LANES * four), LANES)
    for taps in _taps(workload):
        halves: list[ir.Expr] = []
        for tap in taps:
            data = T.Bind(flip(load(x, start + segments[tap], VECTOR), product.flipped))
            weight = load(weights, panel + tap * VECTOR, VECTOR)
            products = [T.Bind(mve.vmull(data, weight, odd=odd)) for odd in (False, True)]
            halves = [T.Bind(a + b) for a, b in zip(halves, products, strict=True)] if halves else products
        wide = [mve.vmovl(half, odd=odd) for half in halves for odd in (False, True)]
        for four, value in enumerate(wide):
            store(acc, load(acc, i64(LANES * four), LANES) + value, i64(LANES * four), LANES)
    return [load(acc, i64(LANES * four), LANES) for four in range(LANES)]


def _taps(workload: Workload) -> list[range]:
    """Return the taps whose products are added in 16 bits: two each, or one if a weight may be -128."""
    depth, limit = _product(workload).rows.depth, workload.magnitude
    step = 2 if limit is not None and limit.weight <= LEAST else 1
    return [range(first, min(first + step, depth)) for first in range(0, depth, step)]


def _product(workload: Workload) -> IntegerProduct:
    return taken(product_s8.converted_product_of(workload, NAME), workload)


def _blocks(product: IntegerProduct) -> int:
    """Return the number of groups of sixteen channels, the last of which may be in part."""
    return -(-product.groups // COLUMNS)
