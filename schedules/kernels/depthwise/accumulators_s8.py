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
    """Return a copy of a product, without the fused requantisation if its addends would be copied and not reloaded.

    On in-order cores the copies make the depthwise layers of DS-CNN 8 % slower (LLVM's model of Cortex-A55).
    """
    return replace(product, fused=product.fused and reload)


def headers_of(product: IntegerProduct, rows: int = 1) -> Headers:
    """Return the layout of the headers of a product's blocks of eight channels; for `rows` see `Headers`."""
    return Headers(product, HALVES, rows)


def pack_headers(workload: Workload, headers: Headers, constants: Sequence[Array], channels: Array) -> Array:
    """Pack the headers of all blocks into a flat int8 array; `channels` [block, 8] are each block's output channels."""
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
    """Emit the requantisation and stores of outputs of eight channels, two outputs at a time.

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
