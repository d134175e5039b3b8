# SPDX-License-Identifier: Apache-2.0
import itertools

import numpy as np
import pytest

from schedules.kernels.depthwise.input_rows_s8 import GROUP, DepthwiseWindow

WINDOWS = [
    DepthwiseWindow((1, height, width, 8), (kernel, columns), strides, pads)
    for (height, width), (kernel, columns), strides, pads in itertools.product(
        [(5, 4), (9, 31), (12, 7)],
        [(1, 1), (3, 3), (2, 3), (4, 2), (5, 5), (3, 1)],
        [(1, 1), (2, 2), (3, 1)],
        [(0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 1, 2)],
    )
    if height >= kernel and width >= columns
]


@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w.data[1:3]} {w.kernel} {w.strides} {w.pads}")
def test_products_of_a_band_are_the_convolution(window: DepthwiseWindow):
    """Each SDOT takes four input rows; their sums are those of the definition, row by row of the output."""
    _, height, width, _ = window.data
    rng = np.random.default_rng(8)
    x, w = rng.integers(-9, 9, (height, width)), rng.integers(-9, 9, window.kernel)
    top, left, bottom, right = window.pads
    padded = np.pad(x, ((top, bottom + 4 * GROUP), (left, right)))
    rows, columns = window.output
    expected = np.zeros((rows, columns), int)
    for i, j in np.ndindex(*window.kernel):
        seen = padded[i:, j:][: (rows - 1) * window.strides[0] + 1 : window.strides[0]]
        expected += w[i, j] * seen[:, : (columns - 1) * window.strides[1] + 1 : window.strides[1]]
    found = np.zeros((rows + window.band, columns), int)
    for first, count, (band_rows, _) in window.runs():
        for band in range(first, first + count):
            for row, column, group, taps in window.products():
                if row >= band_rows:
                    continue
                start = band * window.band * window.strides[0] + window.groups.firsts[group]
                for offset, tap in enumerate(taps):
                    if tap is not None:
                        line = padded[start + offset, column:][: (columns - 1) * window.strides[1] + 1]
                        found[band * window.band + row] += w[tap, column] * line[:: window.strides[1]]
    np.testing.assert_array_equal(found[:rows], expected)


@pytest.mark.parametrize(
    "window", WINDOWS[::5], ids=lambda w: f"{w.data[1:3]} {w.kernel} {w.strides} {w.pads}"
)
def test_runs_cover_all_bands_and_know_the_border(window: DepthwiseWindow):
    bands = [(first + i, kind) for first, count, kind in window.runs() for i in range(count)]
    assert [band for band, _ in bands] == list(range(-(-window.output[0] // window.band)))
    assert sum(rows for _, (rows, _) in bands) == window.output[0]
    for band, (_, valid) in bands:
        first = band * window.band * window.strides[0] - window.pads[0]
        assert valid == tuple(0 <= first + i < window.data[1] for i in range(len(valid)))


def test_inner_columns_are_those_without_a_border():
    window = DepthwiseWindow((1, 9, 10, 8), (3, 3), (2, 2), (1, 1, 1, 1))
    first, last = window.inner_columns()
    inside = [x for x in range(window.output[1]) if 2 * x - 1 >= 0 and 2 * x + 1 < 10]
    assert list(range(first, last)) == inside


def test_two_rows_of_3_x_3_share_one_group():
    window = DepthwiseWindow((1, 112, 112, 96), (3, 3), (1, 1), (1, 1, 1, 1))
    assert (window.band, window.groups.firsts) == (2, (0,))
    assert len(list(window.products())) == 6
