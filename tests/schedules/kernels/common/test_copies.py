# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import tirx

from schedules.kernels.common import copies
from schedules.tir.emit import i64, kernel_function
from tests.schedules.programs import run_on_host

COUNTS = (1, 7, 8, 9, 16, 31, 64, 127, 128, 200)


@pytest.mark.parametrize("count", COUNTS)
def test_pieces_are_powers_of_two_side_by_side(count: int):
    found = copies.pieces(count, 16)
    assert [at for at, _ in found] == list(np.cumsum([0, *(lanes for _, lanes in found[:-1])]))
    assert sum(lanes for _, lanes in found) == count
    assert {lanes for _, lanes in found} <= {1, 2, 4, 8, 16}


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
@pytest.mark.parametrize("count", COUNTS)
def test_copy_and_fill_touch_what_they_say(count: int, dtype: str):
    """A border of 3 stays, then copied, then filled."""
    size = 2 * count + 6
    with kernel_function("copy", [((size,), dtype), ((size,), dtype)]) as function:
        source, target = function.buffers
        copies.fill(target, i64(0), 3, 9)
        copies.copy(source, i64(2), target, i64(3), count)
        copies.fill(target, i64(3 + count), count, 7)
    x = np.arange(size).astype(dtype)
    actual = run_on_host(function.prim_func, [x], (size,), dtype)
    np.testing.assert_array_equal(actual, np.concatenate([[9] * 3, x[2 : 2 + count], [7] * count, [99] * 3]))


@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("float32", "float16")])
@pytest.mark.parametrize("count", [1, 7, 31, 64])
def test_copy_converts_to_the_dtype_of_its_target(count: int, dtypes: tuple[str, str]):
    with kernel_function("copy", [((count,), dtype) for dtype in dtypes]) as function:
        source, target = function.buffers
        copies.copy(source, i64(0), target, i64(0), count)
    x = (np.arange(count) / 3).astype(dtypes[0])
    actual = run_on_host(function.prim_func, [x], (count,), dtypes[1])
    np.testing.assert_array_equal(actual, x.astype(dtypes[1]))


@pytest.mark.parametrize("shape", [(2, 3, 5, 1), (1, 1, 1, 31), (1, 4, 7, 16)])
@pytest.mark.parametrize("widths", [((0, 0), (1, 2), (3, 0), (0, 0)), ((0, 0), (0, 0), (0, 1), (0, 0))])
def test_padded(shape: tuple[int, ...], widths: tuple[tuple[int, int], ...]):
    x = np.arange(np.prod(shape)).astype(np.uint8).reshape(shape)
    expected = np.pad(x, widths, constant_values=200)
    actual = run_on_host(_padded(shape, widths, expected.shape), [x], expected.shape, "uint8")
    np.testing.assert_array_equal(actual, expected)


def _padded(
    shape: tuple[int, ...], widths: tuple[tuple[int, int], ...], to: tuple[int, ...]
) -> tirx.PrimFunc:
    with kernel_function("padded", [(shape, "uint8"), (to, "uint8")]) as function:
        source, target = function.buffers
        copy = copies.padded(source, shape, widths, 200)
        copies.copy(copy, i64(0), target, i64(0), int(np.prod(to)))
    return function.prim_func
