# SPDX-License-Identifier: Apache-2.0
import pytest

from schedules.kernels.threads import PARALLEL_TASKS, column_blocks


@pytest.mark.parametrize(
    ("row_tiles", "column_tiles"), [(1, 63), (1, 3), (5, 20), (17, 32), (32, 9), (500, 4)]
)
def test_columns_are_cut_only_where_rows_give_too_few_tasks(row_tiles: int, column_tiles: int):
    blocks = column_blocks(row_tiles, column_tiles)
    assert 1 <= blocks <= column_tiles
    assert row_tiles * blocks >= min(PARALLEL_TASKS, row_tiles * column_tiles)
    assert blocks == 1 or row_tiles * (blocks - 1) < PARALLEL_TASKS
