# SPDX-License-Identifier: Apache-2.0
"""The implicit matrix A of a convolution or linear layer: where its rows lie in the data, without im2col.

Row p of A is an output pixel (or a row of a linear layer's input) and its k run over a few segments of contiguous
bytes: of a k x k convolution in NHWC one a kernel row, since the kernel's columns times the channels are contiguous.
"""

import math
from dataclasses import dataclass

from tvm import ir, tirx


@dataclass(frozen=True)
class ImplicitRows:
    """The implicit matrix A of one group.

    Attributes:
        shape: Dimensions of the row index, the fastest last: images, output rows, output columns.
        strides: Elements between neighbours of each.
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

    def offset(self, row: ir.Expr) -> ir.Expr:
        """Return the offset of the start of row `row` (int64)."""
        (_, height, width), (image, line, pixel) = self.shape, self.strides
        if line == width * pixel and (image == height * line or self.shape[0] == 1):
            return row * pixel + self.start
        x, rest = tirx.floormod(row, width), tirx.floordiv(row, width)
        if image == height * line or self.shape[0] == 1:
            return rest * line + x * pixel + self.start
        inside = tirx.floormod(rest, height) * line + x * pixel
        return tirx.floordiv(rest, height) * image + inside + self.start

    def offsets(self, first: ir.Expr, count: int, tile: int) -> list[ir.Expr]:
        """Return the offsets of `count` rows from `first`, a multiple of `tile`; an odd last row is repeated."""
        rows = [min(row, count - 1) for row in range(count + count % 2)]
        if self.shape[2] % tile == 0:
            start = self.offset(first)
            return [start + row * self.strides[2] for row in rows]
        return [self.offset(first + row) for row in rows]


def linear(rows: int, depth: int) -> ImplicitRows:
    """Return the rows of a dense matrix."""
    return ImplicitRows((1, 1, rows), (0, 0, depth), ((0, depth),))


def convolution(
    data: tuple[int, int, int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> ImplicitRows:
    """Return the implicit rows of a convolution of data [N, H, W, C] that is already padded."""
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
    """Merge neighbouring segments, such as the rows of a kernel as wide as the data."""
    joined = segments[:1]
    for start, length in segments[1:]:
        last, size = joined[-1]
        if last + size == start:
            joined[-1] = (last, size + length)
        else:
            joined.append((start, length))
    return tuple(joined)
