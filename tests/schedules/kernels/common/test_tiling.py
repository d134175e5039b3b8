# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest
from tvm import ir

from schedules.cores import CORES
from schedules.kernels.common import tiling
from schedules.kernels.gemm import gemm_s8_mmla, gemm_s8_sdot
from schedules.kernels.gemm.product_s8 import IntegerProduct, product_of
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.products import conv, linear
from tests.schedules.programs import Array, run_on_host


def _product(rows: int, columns: int, groups: int) -> IntegerProduct:
    case = conv((1, 1, rows, groups), groups * columns, (1, 1), groups=groups) if groups > 1 else None
    product = product_of((case or linear((rows,), 1, columns)).workload, "any")
    assert isinstance(product, IntegerProduct)
    return product


def _counts(product: IntegerProduct, rows: int, width: int, blocks: int, parallel: bool) -> Array:
    """How often each element [group][row][column] is visited, with tiles of `rows` by `width`."""
    shape = (product.groups, product.rows.count, product.columns)
    with kernel_function("count", [(shape, "int32"), (shape, "int32")]) as function:
        start, target = function.buffers

        def row_tile(group: ir.Expr, first: ir.Expr, count: int, block: ir.Expr) -> None:
            def tile(index: ir.Expr, columns: int) -> None:
                for row in range(count):
                    base = ((group * shape[1]) + first + row) * shape[2] + index * width
                    for column in range(columns):
                        store(target, load(start, base + column, 1) + 1, base + column, 1)

            tiling.column_tiles(product.columns, width, (block, blocks), tile)

        tiling.tasks(product, rows, blocks, parallel, row_tile)
    return run_on_host(function.prim_func, [np.zeros(shape, np.int32)], shape, "int32")


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "groups", "blocks"),
    [(1, 1, 1, 1), (7, 9, 1, 1), (8, 31, 1, 3), (31, 5, 1, 2), (9, 17, 3, 4), (200, 3, 2, 1)],
)
def test_every_element_is_of_one_tile(rows: int, columns: int, groups: int, blocks: int, parallel: bool):
    counts = _counts(_product(rows, columns, groups), 4, 4, blocks, parallel)
    np.testing.assert_array_equal(counts, np.ones_like(counts))


@pytest.mark.parametrize("count", range(1, 17))
def test_the_first_lanes_are_stored(count: int):
    with kernel_function("part", [((16,), "int8"), ((16,), "int8")]) as function:
        source, target = function.buffers
        tiling.store_part(target, load(source, i64(0), 16), i64(0), count)
    x = np.arange(16, dtype=np.int8)
    actual = run_on_host(function.prim_func, [x], (16,), "int8")
    np.testing.assert_array_equal(actual, np.where(x < count, x, 99))


def test_columns_of_each_group_are_padded():
    product = _product(2, 3, 2)
    padded = tiling.by_group(np.arange(1, 7), product, 4)
    assert padded.tolist() == [1, 2, 3, 0, 4, 5, 6, 0]


def test_staged_rows_lie_at_their_pitch():
    with kernel_function("staged", [((20,), "uint8"), ((16,), "uint8")]) as function:
        source, target = function.buffers
        stage, starts = tiling.staged(source, [i64(1), i64(9)], 5, 8)
        assert [int(start.value) for start in starts] == [0, 8]
        for start in (0, 8):
            store(target, load(stage, i64(start), 4), i64(start), 4)
            store(target, load(stage, i64(start + 4), 1), i64(start + 4), 1)
    x = np.arange(20, dtype=np.uint8)
    actual = run_on_host(function.prim_func, [x], (16,), "uint8")
    assert actual.tolist() == [1, 2, 3, 4, 5, 99, 99, 99, 9, 10, 11, 12, 13, 99, 99, 99]


def test_weights_that_l1_loses_are_cut_into_blocks_of_columns():
    core = CORES["neoverse-n2"]
    # 1 x 1 convolutions of 7 x 7: of 150 KB of weights L1 holds a part, of 36 KB all.
    large, small = (conv((1, 7, 7, 160), columns, (1, 1)).workload for columns in (960, 232))
    for kernel in (gemm_s8_mmla, gemm_s8_sdot):
        tile = kernel.default(large, core)
        assert 160 * 960 / tile.column_blocks <= 0.7 * core.l1d.size
        whole = replace(tile, column_blocks=1)
        assert kernel.estimate(large, whole, core) > 1.05 * kernel.estimate(large, tile, core)
    assert gemm_s8_mmla.default(small, core).column_blocks == 1
