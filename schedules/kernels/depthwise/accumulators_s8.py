# SPDX-License-Identifier: Apache-2.0
"""Constants and requantisation of int8 depthwise kernels, for blocks of eight channels."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.intrinsics.vector import high, low
from schedules.kernels.common.contract import Array
from schedules.kernels.depthwise.instructions_s8 import CHANNELS, HALVES
from schedules.kernels.epilogues.requantize import Form, Requantization, requantize16
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.packed_columns_s8 import Addends, Headers, fused_by_panel
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.tir.emit import store


def requantized(product: IntegerProduct, *, reload: bool) -> IntegerProduct:
    """Return a product without code for the fused requantisation where that one's addends would be copied.

    Cores that issue in order lose 8 % by it in the depthwise layers of DS-CNN, as Cortex-A55 is modelled.
    """
    return replace(product, fused=product.fused and reload)


def headers_of(product: IntegerProduct, rows: int = 1) -> Headers:
    """Return the headers of the blocks of a product; see `Headers` for the rows."""
    return Headers(product, HALVES, rows)


def pack_headers(workload: Workload, headers: Headers, constants: Sequence[Array], channels: Array) -> Array:
    """Pack the header of each block, of the channels [block, 8] that it holds; flat int8."""
    product = headers.product
    offset, m = product_s8.offsets_and_multipliers(workload, constants, product)
    real = np.ones(channels.size, np.bool_)
    cut = offset[channels].ravel(), m[channels].ravel()
    columns = fused_by_panel(workload, product, CHANNELS, *cut, real)
    return headers.pack(columns, len(channels))


def finish(
    form: Form,
    m: Sequence[ir.Expr],
    addends: Addends | None,
    to: Requantization,
    totals: Sequence[Sequence[ir.Expr]],
    output: tirx.Buffer,
    places: Sequence[ir.Expr],
) -> None:
    """Requantise and store outputs, two at a time.

    Args:
        form: Form of the requantisation.
        m: The multipliers, float32x4.
        addends: Addends of the form "fused"; None for other forms.
        to: Zero point, limits and dtype of the output.
        totals: The accumulators of each output.
        output: Flat buffer of the output.
        places: The offset of each output.
    """
    for first in range(0, len(totals), 2):
        second = min(first + 1, len(totals) - 1)
        values = [*totals[first], *totals[second]]
        added = addends([*range(HALVES)] * 2) if addends else []
        whole = T.Bind(requantize16(form, values, [*m, *m], to, added))
        store(output, low(whole), places[first], CHANNELS)
        if second != first:
            store(output, high(whole), places[second], CHANNELS)
