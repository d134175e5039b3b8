# SPDX-License-Identifier: Apache-2.0
"""Tiling of a Winograd convolution: tiles, blocks of tiles, panels of weights, and buffer sizes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.workload import Workload
from schedules.intrinsics.registers import LANES
from schedules.kernels.tiles import fmla_tile
from schedules.kernels.winograd.transforms import TAPS, Transform

TASK_PARTS = 4
"""Threads that blocks are shared by evenly."""

LINE = 16
"""float32 of a cache line, which separates the memory of one tile from that of the next: otherwise they meet in few
cache sets."""


@dataclass(frozen=True)
class Params:
    """Parameters of a Winograd kernel.

    Attributes:
        outputs: Number of output rows and columns of a Winograd tile, 2 or 4.
        rows: Number of Winograd tiles that a register tile multiplies.
        vectors: Number of vectors of four output channels of a register tile.
        block: Number of Winograd tiles of a block, a multiple of `rows` if there are several blocks.
        parallel: Whether blocks, or the parts of a single block, are spread over the runtime's threads.
    """

    outputs: int
    rows: int
    vectors: int
    block: int
    parallel: bool = False

    def __post_init__(self) -> None:
        fmla_tile.check_registers(self.rows, self.vectors)


@dataclass(frozen=True)
class WinogradPlan:
    """The sizes and offsets of a Winograd convolution, derived from a workload and parameters."""

    workload: Workload
    params: Params

    @property
    def transform(self) -> Transform:
        """The transform F(m x m, 3 x 3)."""
        return Transform(self.params.outputs)

    @property
    def products(self) -> int:
        """Number of matrix products, one per element of a transformed tile."""
        return self.transform.size**2

    @property
    def channels(self) -> int:
        """Number of input channels."""
        return self.workload.operands[0].shape[3]

    @property
    def columns(self) -> int:
        """Number of output channels."""
        return self.workload.output_shape[3]

    @property
    def grid(self) -> tuple[int, int, int]:
        """Number of images, and of rows and columns of tiles per image."""
        images, height, width, _ = self.workload.output_shape
        m = self.params.outputs
        return images, -(-height // m), -(-width // m)

    @property
    def tiles(self) -> int:
        """Number of tiles in all images."""
        return math.prod(self.grid)

    @property
    def blocks(self) -> int:
        """Number of blocks of tiles."""
        return -(-self.tiles // self.params.block)

    @property
    def widths(self) -> tuple[tuple[int, int], ...]:
        """Padding (before, after) of each axis by which the data consists of whole tiles."""
        top, left, _, _ = ConvolutionAttributes.of(self.workload).padding
        _, height, width, _ = self.workload.operands[0].shape
        _, down, across = self.grid
        m, more = self.params.outputs, TAPS - 1
        return (0, 0), (top, down * m + more - top - height), (left, across * m + more - left - width), (0, 0)

    @property
    def padded(self) -> tuple[int, ...]:
        """Shape of the padded data."""
        shape = self.workload.operands[0].shape
        return tuple(size + sum(width) for size, width in zip(shape, self.widths, strict=True))

    @property
    def full_panels(self) -> int:
        """Number of weight panels that are `params.vectors` wide."""
        return self.columns // (self.params.vectors * LANES)

    @property
    def tail_vectors(self) -> int:
        """Width of a narrower last panel in vectors; 0 if there is none."""
        return self.columns // LANES % self.params.vectors

    def register_tiles(self) -> Iterator[tuple[int, int, int]]:
        """Yield (rows, vectors, number of register tiles) for each size of register tile."""
        rows = self.params.rows
        for height, tiles in ((rows, self.tiles // rows), (self.tiles % rows, 1)):
            for vectors, panels in ((self.params.vectors, self.full_panels), (self.tail_vectors, 1)):
                if height and vectors and tiles and panels:
                    yield height, vectors, tiles * panels * self.products

    @property
    def by_blocks(self) -> bool:
        """Whether each block is a separate task."""
        return self.params.parallel and self.blocks >= TASK_PARTS

    @property
    def in_place(self) -> bool:
        """Whether the sums of a product overwrite the transformed data of the product before, which is no longer read.

        If blocks are tasks, each thread has its own buffers in addition to the arena; those of a whole call may reuse
        memory in it.
        """
        return self.by_blocks and self.columns <= self.channels

    @property
    def input_start(self) -> int:
        """Offset in elements of the transformed data in the buffer of a tile; with `in_place`, sums come first."""
        return self.channels if self.in_place else 0

    @property
    def input_pitch(self) -> int:
        """Distance in elements between the transformed data of consecutive tiles."""
        return self.input_start + self.products * self.channels + LINE

    @property
    def sums(self) -> int:
        """Distance in elements between the sums of consecutive products."""
        return self.channels if self.in_place else self.columns

    @property
    def output_pitch(self) -> int:
        """Distance in elements between the sums of consecutive tiles."""
        return self.input_pitch if self.in_place else self.products * self.columns + LINE
