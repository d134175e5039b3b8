# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import tirx
from tvm.sym import Analyzer

from schedules.kernels.gemm.implicit_rows import ImplicitRows, convolution, linear
from schedules.tir.emit import i64


def _value(expr: tirx.Expr) -> int:
    return int(Analyzer().simplify(expr).value)


def _read(rows: ImplicitRows, data: np.ndarray, group_offset: int = 0) -> np.ndarray:
    """The implicit matrix as it is read."""
    flat, starts = data.ravel(), [_value(rows.offset(i64(row))) + group_offset for row in range(rows.count)]
    return np.array(
        [
            np.concatenate([flat[start + offset :][:length] for offset, length in rows.segments])
            for start in starts
        ]
    )


CASES = [
    ((2, 5, 6, 3), (3, 3), (1, 1), (1, 1), 1),
    ((2, 5, 6, 3), (2, 3), (2, 1), (1, 2), 1),
    ((1, 7, 4, 4), (3, 4), (1, 1), (2, 1), 2),
    ((1, 4, 3, 5), (2, 3), (1, 1), (1, 1), 1),
    ((3, 5, 4, 2), (1, 1), (2, 3), (1, 1), 1),
]


@pytest.mark.parametrize("case", CASES)
def test_rows_are_the_windows_in_the_order_of_the_weights(case):
    shape, kernel, strides, dilation, groups = case
    data = np.arange(np.prod(shape)).reshape(shape)
    rows = convolution(*case)
    windows = []
    for image, y, x in np.ndindex(*rows.shape):
        window = data[image, y * strides[0] :: dilation[0], x * strides[1] :: dilation[1]]
        windows.append(window[: kernel[0], : kernel[1], : shape[3] // groups].ravel())
    np.testing.assert_array_equal(_read(rows, data), windows)
    assert rows.depth == len(windows[0])
    second = shape[3] // groups
    if groups > 1:
        assert _read(rows, data, second)[0, 0] == second


def test_neighbouring_pixels_and_whole_lines_are_one_segment():
    assert convolution((1, 8, 8, 16), (3, 3), (1, 1), (1, 1), 1).segments == ((0, 48), (128, 48), (256, 48))
    assert convolution((1, 8, 3, 16), (3, 3), (1, 1), (1, 1), 1).segments == ((0, 144),)
    assert convolution((1, 8, 8, 16), (1, 1), (2, 2), (1, 1), 1).segments == ((0, 16),)
    assert len(convolution((1, 8, 8, 16), (3, 3), (1, 1), (1, 2), 1).segments) == 9
    assert linear(7, 9).segments == ((0, 9),)


@pytest.mark.parametrize("tile", [1, 3, 4, 6])
def test_offsets_of_a_tile_are_those_of_its_rows(tile: int):
    rows = convolution((1, 6, 7, 3), (3, 2), (1, 1), (1, 1), 1)  # 4 lines of 6 pixels
    for first in range(0, rows.count, tile):
        count = min(tile, rows.count - first)
        found = [_value(offset) for offset in rows.offsets(i64(first), count, tile)]
        expected = [_value(rows.offset(i64(first + row))) for row in range(count)]
        assert found == expected + expected[-1:] * (count % 2)
