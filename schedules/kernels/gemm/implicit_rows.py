# SPDX-License-Identifier: Apache-2.0
"""The implicit matrix A of a convolution or linear layer: offsets and segments of its rows in the data, no im2col.

A row of A belongs to one output pixel (or is a row of a linear layer's input). Its elements are a few segments, each
contiguous in the data: a convolution in NHWC has one segment per kernel row, since columns and channels are
contiguous.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx


@dataclass(frozen=True)
class ImplicitRows:
    """Layout in the data of the implicit matrix A of one group.

    Attributes:
        shape: Dimensions of the row index: images, output rows, output columns.
        strides: Distance in elements between neighbours along each of these dimensions.
        segments: (offset from the row's start, length) of each contiguous piece, in the order of k.
        start: Offset of the first row.
    """

    shape: tuple[int, int, int]
    strides: tuple[int, int, int]
    segments: tuple[tuple[int, int], ...]
    start: int = 0

    @property
    def count(self) -> int:
        """Number of rows of A."""
        return math.prod(self.shape)

    @property
    def depth(self) -> int:
        """Number of columns of A, the k of the product."""
        return sum(length for _, length in self.segments)

    def starts(self) -> npt.NDArray[np.int64]:
        """Return the offset in the data of the start of each row."""
        axes = (np.arange(size) * step for size, step in zip(self.shape, self.strides, strict=True))
        images, lines, pixels = np.ix_(*axes)
        found: npt.NDArray[np.int64] = (images + lines + pixels).ravel() + self.start
        return found

    def offset(self, row: ir.Expr) -> ir.Expr:
        """Return the int64 offset in the data of the start of row `row`."""
        (_, height, width), (image, line, pixel) = self.shape, self.strides
        if line == width * pixel and (image == height * line or self.shape[0] == 1):
            return row * pixel + self.start
        x, rest = tirx.floormod(row, width), tirx.floordiv(row, width)
        if image == height * line or self.shape[0] == 1:
            return rest * line + x * pixel + self.start
        inside = tirx.floormod(rest, height) * line + x * pixel
        return tirx.floordiv(rest, height) * image + inside + self.start

    def offsets(self, first: ir.Expr, count: int, tile: int) -> list[ir.Expr]:
        """Return the offsets of `count` rows from `first`, a multiple of `tile`; an odd count repeats the last row."""
        rows = [min(row, count - 1) for row in range(count + count % 2)]
        if self.shape[2] % tile == 0:
            start = self.offset(first)
            return [start + row * self.strides[2] for row in rows]
        return [self.offset(first + row) for row in rows]


def linear(rows: int, depth: int) -> ImplicitRows:
    """Return the layout of a dense matrix [rows, depth]."""
    return ImplicitRows((1, 1, rows), (0, 0, depth), ((0, depth),))


def convolution(
    data: tuple[int, int, int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> ImplicitRows:
    """Return the implicit rows of a convolution; `data` is the shape [N, H, W, C] of the data with its border."""
    images, height, width, channels = data
    depth = channels // groups
    out_h = (height - (kernel[0] - 1) * dilation[0] - 1) // strides[0] + 1
    out_w = (width - (kernel[1] - 1) * dilation[1] - 1) // strides[1] + 1
    line = width * channels
    contiguous = groups == 1 and (dilation[1] == 1 or kernel[1] == 1)
    taps = (
        ((0, kernel[1] * depth),)
        if contiguous
        else tuple((column * dilation[1] * channels, depth) for column in range(kernel[1]))
    )
    segments = [(y * dilation[0] * line + start, length) for y in range(kernel[0]) for start, length in taps]
    return ImplicitRows(
        (images, out_h, out_w),
        (height * line, strides[0] * line, strides[1] * channels),
        _joined(segments),
    )


def _joined(segments: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge segments that are contiguous in the data, such as the rows of a kernel that is as wide as the data."""
    joined = segments[:1]
    for start, length in segments[1:]:
        last, size = joined[-1]
        if last + size == start:
            joined[-1] = (last, size + length)
        else:
            joined.append((start, length))
    return tuple(joined)
