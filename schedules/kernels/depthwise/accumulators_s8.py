# SPDX-License-Identifier: Apache-2.0
"""Initial accumulators and requantisation of int8 depthwise kernels, for eight channels of an output."""

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.reload import reloaded
from schedules.intrinsics.vector import high, low
from schedules.kernels.depthwise.instructions_s8 import CHANNELS, HALVES
from schedules.kernels.epilogues.requantize import requantize16
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.tir.emit import load, store

LANES = CHANNELS // HALVES
"""Channels of a vector of 32 bits."""


def by_channel(buffer: tirx.Buffer, block: ir.Expr) -> list[ir.Expr]:
    """Load a 32-bit value for each of a block's eight channels, as two vectors."""
    return [load(buffer, block * CHANNELS + LANES * v, LANES) for v in range(HALVES)]


def anew(buffer: tirx.Buffer, block: ir.Expr) -> list[ir.Expr]:
    """Load int32 values of eight channels in one instruction at this place, for accumulators that are overwritten."""
    pair = T.Bind(reloaded(buffer, block * CHANNELS))
    return [low(pair), high(pair)]


def finish(
    product: IntegerProduct,
    totals: Sequence[Sequence[ir.Expr]],
    m: Sequence[ir.Expr],
    output: tirx.Buffer,
    places: Sequence[ir.Expr],
) -> None:
    """Requantise and store outputs, two at a time.

    Args:
        product: Says how.
        totals: The accumulators of each output.
        m: The multipliers.
        output: Flat buffer of the output.
        places: The offset of each output.
    """
    for first in range(0, len(totals), 2):
        second = min(first + 1, len(totals) - 1)
        values = [*totals[first], *totals[second]]
        whole = T.Bind(requantize16(product.form, values, [*m, *m], product.to))
        store(output, low(whole), places[first], CHANNELS)
        if second != first:
            store(output, high(whole), places[second], CHANNELS)
