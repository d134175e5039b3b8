# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest

from schedules.kernels.gemm.product import NOTHING
from schedules.kernels.tiles.bfmmla_tile import is_staged, order, pack_columns, pack_rows, steps_of
from schedules.tir.emit import i64, kernel_function
from tests.schedules.programs import run_on_host


@pytest.mark.parametrize("segments", [((0, 16),), ((0, 9), (40, 9)), ((3, 5),), ((0, 31), (64, 8), (90, 1))])
def test_order_has_each_k_once_and_whole_vectors(segments):
    found = order(segments)
    depth = sum(length for _, length in segments)
    assert sorted(k for k in found if k != NOTHING) == list(range(depth))
    assert len(found) % 8 == 0
    assert steps_of(segments) == len(found) // 4


def test_short_pieces_are_staged():
    assert is_staged([(0, 9), (40, 7)])
    assert order([(0, 9), (40, 7)]).tolist() == list(range(16))
    assert not is_staged([(0, 9)])
    assert order([(0, 9)]).tolist() == [*range(8), *[NOTHING] * 7, 8]


def test_columns_are_packed_in_pairs_of_four_k():
    b = np.arange(4 * 8, dtype=np.float32).reshape(4, 8).astype(ml_dtypes.bfloat16)
    (panel,) = pack_columns(b, 2).view(ml_dtypes.bfloat16).astype(int)
    # k 0 to 3 of columns 0, 1, 2, 3; then k 4 to 7.
    assert panel.tolist() == [8 * c + k + at for at in (0, 4) for c in range(4) for k in range(4)]


@pytest.mark.parametrize(
    "segments", [((0, 16),), ((1, 9), (20, 24)), ((3, 5),), ((0, 7), (9, 9)), ((0, 3), (40, 3))]
)
def test_rows_are_packed_in_pairs_of_four_k(segments):
    rows, pitch, steps = 4, 50, steps_of(segments)
    arguments = [((rows * pitch,), "int16"), ((rows * 4 * steps,), "int16")]
    with kernel_function("pack", arguments) as function:
        x, panel = function.buffers
        pack_rows(segments, x, panel, [i64(row * pitch) for row in range(rows)])
    data = np.arange(1, rows * pitch + 1, dtype=np.int16).reshape(rows, pitch)
    actual = run_on_host(function.prim_func, [data.ravel()], (rows * 4 * steps,), "int16")
    k = np.concatenate([np.arange(at, at + length) for at, length in segments])
    found = order(segments)
    by_row = actual.reshape(steps, rows // 2, 2, 4).transpose(1, 2, 0, 3).reshape(rows, -1)
    np.testing.assert_array_equal(by_row[:, found != NOTHING], data[:, k[found[found != NOTHING]]])
    # What meets a weight of zero is a number of the same row, or zero.
    again = by_row[:, found == NOTHING]
    assert all(value == 0 or value in data[row] for row in range(rows) for value in again[row])
    assert is_staged(segments) == (not again.any() and again.size > 0) or not again.size
