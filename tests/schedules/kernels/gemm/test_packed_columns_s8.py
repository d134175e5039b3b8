# SPDX-License-Identifier: Apache-2.0
"""What stands beside a panel; that both of its forms are exact is shown by the tests of the kernels that read it."""

from dataclasses import replace

import numpy as np

from schedules.kernels.epilogues.requantize_fused import fused_constants
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.k_chunks_s8 import Reading
from schedules.kernels.gemm.packed_columns_s8 import ADDENDS, HEADER, MULTIPLIERS, NOT_FUSED, Headers, Panels
from schedules.kernels.gemm.product import reordered
from schedules.kernels.tiles import sdot_tile
from schedules.numerics.binary32 import MAGIC_BITS
from tests.schedules.products import WIDE, Case, conv

VECTORS, COLUMNS = 2, 8
OUTPUTS = 571  # the last panel has three columns


def headers(case: Case) -> np.ndarray:
    """int32 [panels, HEADER, columns]."""
    # As if most of its panels were proven: this one has of both kinds.
    product = product_s8.products_of(case.workload, "test")[0]
    product = replace(product, fused=product.form == "biased")
    weights = product_s8.weights_by_column(case.workload, case.constants, product)
    weights = reordered(weights, Reading.in_vectors(product.rows, sdot_tile.K_STEP).order())
    panels = Panels(product, COLUMNS, VECTORS, weights.shape[-1])
    packed, header = panels.pack(
        case.workload, case.constants, weights, lambda columns: sdot_tile.pack_columns(columns, VECTORS)
    )
    assert (packed.size, header.size) == panels.sizes
    return header.view(np.int32).reshape(-1, HEADER, COLUMNS)


def test_a_panel_is_fused_if_all_of_its_columns_are_proven():
    case = conv((1, 3, 3, 24), OUTPUTS, (1, 1))
    product = product_s8.products_of(case.workload, "test")[0]
    offset, m = product_s8.offsets_and_multipliers(case.workload, case.constants, product)
    to, bound = product.to, 1 << case.workload.magnitude.accumulator
    fused = fused_constants(m, bound, to.zero_point, to.low, to.high)
    kinds = set()
    for index, (offsets, multipliers, addends) in enumerate(headers(case)):
        own = slice(index * COLUMNS, min((index + 1) * COLUMNS, OUTPUTS))
        real = own.stop - own.start
        whole = bool(fused.proven[own].all())
        kinds.add(whole)
        if whole:
            np.testing.assert_array_equal(offsets[:real], offset[own] - MAGIC_BITS + fused.base[own])
            np.testing.assert_array_equal(multipliers[:real], fused.m[own].view(np.int32))
            np.testing.assert_array_equal(addends[:real], fused.addend[own].view(np.int32))
        else:
            np.testing.assert_array_equal(offsets[:real], offset[own])
            np.testing.assert_array_equal(multipliers[:real], m[own].view(np.int32))
            assert (addends == NOT_FUSED).all()
    assert kinds == {True, False}


def test_other_forms_have_no_fused_panels():
    case = conv((1, 3, 3, 24), 31, (1, 1), quant=WIDE)
    assert product_s8.products_of(case.workload, "test")[0].form != "biased"
    assert (headers(case)[:, -1] == NOT_FUSED).all()


def test_accumulators_and_addends_of_two_rows_are_there_twice():
    product = product_s8.products_of(conv((1, 3, 3, 24), 31, (1, 1)).workload, "test")[0]
    columns = [np.arange(16, dtype=np.int32) + 100 * number for number in range(HEADER)]
    headers = Headers(product, VECTORS, rows=2)
    first, second = headers.pack(columns, 2).reshape(2, headers.bytes).view(np.int32)
    assert first.tolist() == [*range(8), *range(8), *range(100, 108), *range(200, 208), *range(200, 208)]
    assert (second == first + 8).all()
    assert [headers.at(number) for number in (MULTIPLIERS, ADDENDS)] == [64, 96]
