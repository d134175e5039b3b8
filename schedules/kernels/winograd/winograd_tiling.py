# SPDX-License-Identifier: Apache-2.0
"""How a convolution by Winograd's transforms is cut: tiles, blocks of them, panels of weights, and the sizes of all."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from schedules.composites.attributes import Convolution
from schedules.composites.workload import Workload
from schedules.intrinsics.fmla import LANES
from schedules.kernels.tiles import fmla_tile
from schedules.kernels.winograd.transforms import TAPS, Transform

TASK_PARTS = 4
"""Threads that blocks are shared by evenly."""

LINE = 16
"""float32 of a cache line, between what belongs to one tile and to the next: else these meet in few cache sets."""


@dataclass(frozen=True)
class Params:
    """How it is computed.

    Attributes:
        outputs: Rows and columns of a tile's output, 2 or 4.
        rows: Tiles of a register tile.
        vectors: Channels of a register tile, in vectors of four.
        block: Tiles of a block, a multiple of `rows` if there are several.
        parallel: Whether blocks, or the parts of the only one, are spread over the runtime's threads.
    """

    outputs: int
    rows: int
    vectors: int
    block: int
    parallel: bool = False

    def __post_init__(self) -> None:
        fmla_tile.check_registers(self.rows, self.vectors)


@dataclass(frozen=True)
class Plan:
    """The sizes that follow from a workload and its parameters."""

    workload: Workload
    params: Params

    @property
    def transform(self) -> Transform:
        """F(m x m, 3 x 3)."""
        return Transform(self.params.outputs)

    @property
    def products(self) -> int:
        """Numbers of a tile and channel."""
        return self.transform.size**2

    @property
    def channels(self) -> int:
        """Of the data."""
        return self.workload.operands[0].shape[3]

    @property
    def columns(self) -> int:
        """Channels of the output."""
        return self.workload.output_shape[3]

    @property
    def grid(self) -> tuple[int, int, int]:
        """Images, rows and columns of tiles."""
        images, height, width, _ = self.workload.output_shape
        m = self.params.outputs
        return images, -(-height // m), -(-width // m)

    @property
    def tiles(self) -> int:
        """All of them."""
        return math.prod(self.grid)

    @property
    def blocks(self) -> int:
        """Blocks of tiles."""
        return -(-self.tiles // self.params.block)

    @property
    def widths(self) -> tuple[tuple[int, int], ...]:
        """Of the border that makes the data whole tiles."""
        top, left, _, _ = Convolution.of(self.workload).padding
        _, height, width, _ = self.workload.operands[0].shape
        _, down, across = self.grid
        m, more = self.params.outputs, TAPS - 1
        return (0, 0), (top, down * m + more - top - height), (left, across * m + more - left - width), (0, 0)

    @property
    def padded(self) -> tuple[int, ...]:
        """Shape of the data with its border."""
        shape = self.workload.operands[0].shape
        return tuple(size + sum(width) for size, width in zip(shape, self.widths, strict=True))

    @property
    def full_panels(self) -> int:
        """Panels of weights that are `params.vectors` wide."""
        return self.columns // (self.params.vectors * LANES)

    @property
    def tail_vectors(self) -> int:
        """Vectors of the last panel, if it is narrower."""
        return self.columns // LANES % self.params.vectors

    def register_tiles(self) -> Iterator[tuple[int, int, int]]:
        """The kinds of register tile: (rows, vectors, how many)."""
        rows = self.params.rows
        for height, tiles in ((rows, self.tiles // rows), (self.tiles % rows, 1)):
            for vectors, panels in ((self.params.vectors, self.full_panels), (self.tail_vectors, 1)):
                if height and vectors and tiles and panels:
                    yield height, vectors, tiles * panels * self.products

    @property
    def by_blocks(self) -> bool:
        """Whether each block is a task of its own."""
        return self.params.parallel and self.blocks >= TASK_PARTS

    @property
    def in_place(self) -> bool:
        """Whether a product's sums take the room of the product before, whose data is read no more.

        A task's numbers are on top of the arena, once a thread; those of a whole call may find room in it.
        """
        return self.by_blocks and self.columns <= self.channels

    @property
    def input_start(self) -> int:
        """float32 from a tile's room to its transformed data: in place, the room of the first product's sums."""
        return self.channels if self.in_place else 0

    @property
    def input_pitch(self) -> int:
        """float32 from a tile's transformed data to the next's."""
        return self.input_start + self.products * self.channels + LINE

    @property
    def sums(self) -> int:
        """float32 from a product's sums to the next's."""
        return self.channels if self.in_place else self.columns

    @property
    def output_pitch(self) -> int:
        """float32 from a tile's sums to the next's."""
        return self.input_pitch if self.in_place else self.products * self.columns + LINE
