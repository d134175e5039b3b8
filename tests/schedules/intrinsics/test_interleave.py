# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.intrinsics.interleave import interleaved
from schedules.intrinsics.vector import lanes_of
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import NEON, assembly, run_on_host


@pytest.mark.parametrize(
    ("count", "lanes", "element", "size"),
    [
        (2, 16, "int64x2", 8),
        (4, 16, "int32x4", 4),
        (8, 16, "int8x16", 1),
        (8, 8, "int8x16", 1),
        (8, 4, "int8x16", 1),
        (4, 4, "int8x16", 1),
        (1, 16, "int8x16", 1),
    ],
)
def test_elements_of_vectors_in_turn(count: int, lanes: int, element: str, size: int):
    with kernel_function("turns", [((count * lanes,), "int8")] * 2) as function:
        x, y = function.buffers
        values = interleaved([load(x, i64(v * lanes), lanes) for v in range(count)], element)
        for index, value in enumerate(values):
            store(y, value, i64(index * lanes_of(value)), lanes_of(value))
    data = np.arange(count * lanes, dtype=np.int8)
    expected = data.reshape(count, -1, size).transpose(1, 0, 2).ravel()
    actual = run_on_host(function.prim_func, [data], data.shape, "int8")
    np.testing.assert_array_equal(actual, expected)
    names = {line.split()[0] for line in assembly(function.prim_func, NEON).splitlines() if line.strip()}
    assert not names & {"tbl", "ins", "umov"}


def test_transposition_of_four_by_four():
    with kernel_function("transposed", [((16,), "float32")] * 2) as function:
        x, y = function.buffers
        for row, value in enumerate(interleaved([load(x, i64(4 * r), 4) for r in range(4)], "float32x4")):
            store(y, value, i64(4 * row), 4)
    data = np.arange(16, dtype=np.float32)
    actual = run_on_host(function.prim_func, [data], (16,), "float32")
    np.testing.assert_array_equal(actual.reshape(4, 4), data.reshape(4, 4).T)
