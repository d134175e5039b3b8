# SPDX-License-Identifier: Apache-2.0
"""Tiling of products whose A is read unpacked: column panels by blocks of rows, and the tails of both.

A group's last panel is as narrow as its columns allow; the last block of rows includes the rows after the last full
tile.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.kernels.common.contract import Array
from schedules.kernels.common.threads import each
from schedules.kernels.gemm.product import GemmProduct
from schedules.tir.emit import i64

Tile = Callable[["PanelTilePosition", int, int, int], None]
"""Emits one register tile: (position, rows, width, columns); only the first `columns` of its `width` are part of the
result."""

Begin = Callable[[ir.Expr, int], Tile]
"""Emits the beginning of a task for a panel, given its first column (counted through all groups' padded columns) and
its width; returns the function that emits a tile."""


@dataclass(frozen=True)
class PanelTilePosition:
    """The position of a register tile.

    Attributes:
        group: Group of the product.
        row: First row of the tile.
        column: First column of the tile, counted in its group.
    """

    group: ir.Expr
    row: ir.Expr
    column: ir.Expr


@dataclass(frozen=True)
class PanelTiling:
    """The tiling of a product.

    Attributes:
        product: The product that is tiled.
        tile_rows: Rows of a full tile.
        width: Columns of a full panel.
        row_block: Rows that a task multiplies by one panel, a multiple of `tile_rows`.
        lanes: Number of columns per vector; the width of a group's last panel is a multiple of it.
    """

    product: GemmProduct
    tile_rows: int
    width: int
    row_block: int
    lanes: int

    @property
    def rows(self) -> int:
        """Number of rows of A."""
        return self.product.rows.count

    @property
    def columns(self) -> int:
        """Number of columns in a group."""
        return self.product.columns

    @property
    def full_panels(self) -> int:
        """Number of full panels in a group."""
        return self.columns // self.width

    @property
    def tail_width(self) -> int:
        """Width of a group's last panel in columns, padding included; 0 if all panels are full."""
        return -(-(self.columns % self.width) // self.lanes) * self.lanes

    @property
    def panels(self) -> int:
        """Number of panels in a group."""
        return self.full_panels + (self.tail_width > 0)

    @property
    def padded_columns(self) -> int:
        """Total width in columns of a group's panels, padding included."""
        return self.full_panels * self.width + self.tail_width

    @property
    def tiles(self) -> int:
        """Number of full row tiles in A; a tile of `rows % tile_rows` rows follows them."""
        return self.rows // self.tile_rows

    @property
    def blocks(self) -> int:
        """Number of blocks of rows."""
        return max(1, -(-self.tiles // (self.row_block // self.tile_rows)))

    def panel_widths(self) -> list[int]:
        """Return the width in columns of each panel of a group."""
        return [self.width] * self.full_panels + [self.tail_width] * (self.tail_width > 0)

    def register_tiles(self) -> Iterator[tuple[int, int, int]]:
        """Yield each size of register tile: (rows, width, number of tiles)."""
        for rows, tiles in ((self.tile_rows, self.tiles), (self.rows % self.tile_rows, 1)):
            for width, panels in ((self.width, self.full_panels), (self.tail_width, 1)):
                if rows and width and tiles and panels:
                    yield rows, width, tiles * panels * self.product.groups

    def packed(self, b: Array) -> Array:
        """Pack B [groups, rows of a panel, columns] as a flat array [group][N / width][rows of a panel][width]."""
        groups, depth, _ = b.shape
        full = self.full_panels * self.width
        packed = np.zeros((groups, depth * self.padded_columns), b.dtype)
        # Both reshapes must return views, because the assignments below write through them into `packed`.
        panels = packed[:, : depth * full].reshape(groups, self.full_panels, depth, self.width)
        tail = packed[:, depth * full :].reshape(groups, depth, self.tail_width)
        by_panel = b[:, :, :full].reshape(groups, depth, self.full_panels, self.width)
        panels[:] = by_panel.transpose(0, 2, 1, 3)
        tail[:, :, : self.columns - full] = b[:, :, full:]
        return np.asarray(packed.ravel())

    def by_column(self, values: Array) -> Array:
        """Reorder one value per column, [groups, columns], as panels are; return a flat array padded with zeros."""
        padded = np.zeros((self.product.groups, self.padded_columns), values.dtype)
        padded[:, : self.columns] = values.reshape(self.product.groups, self.columns)
        return padded.ravel()

    def place_of(self, place: PanelTilePosition) -> ir.Expr:
        """Return a tile's first column, counted through the padded columns of all groups."""
        return place.group * self.padded_columns + place.column

    def tasks(self, *, parallel: bool, begin: Begin) -> None:
        """Emit a loop over all tasks, each of which is one panel by one block of rows."""
        self.by_block(
            self.panels, parallel, lambda group, block, panel: self.panel(group, block, panel, begin)
        )

    def by_block(self, parts: int, parallel: bool, part: Callable[[ir.Expr, ir.Expr, ir.Expr], None]) -> None:
        """Emit a loop over all blocks of rows, each in `parts` parts, which `part`(group, block, index) emits."""

        def one(task: ir.Expr) -> None:
            row, index = T.Bind(tirx.floordiv(task, parts)), T.Bind(tirx.floormod(task, parts))
            if self.product.groups == 1:
                group, block = i64(0), row
            else:
                group, block = (
                    T.Bind(tirx.floordiv(row, self.blocks)),
                    T.Bind(tirx.floormod(row, self.blocks)),
                )
            part(group, block, index)

        each(self.product.groups * self.blocks * parts, parallel, one)

    def panel(self, group: ir.Expr, block: ir.Expr, panel: ir.Expr, begin: Begin) -> None:
        """Emit the tiles of a block of rows by a panel, with separate code for a narrower last panel."""
        kinds = [(self.width, self.width)] if self.full_panels else []
        kinds += [(self.tail_width, self.columns % self.width)] if self.tail_width else []
        column = T.Bind(panel * self.width)

        def rows(width: int, columns: int) -> None:
            tile = begin(T.Bind(group * self.padded_columns + column), width)
            self._rows(PanelTilePosition(group, block, column), width, columns, tile)

        if len(kinds) == 1:
            rows(*kinds[0])
            return
        with T.If(panel < i64(self.full_panels)):
            with T.Then():
                rows(*kinds[0])
            with T.Else():
                rows(*kinds[1])

    def _rows(self, place: PanelTilePosition, width: int, columns: int, tile: Tile) -> None:
        """Emit the tiles of a block of rows; `place.row` is the index of the block."""
        block_tiles, block = self.row_block // self.tile_rows, place.row
        if self.tiles:
            first = block * block_tiles
            count = i64(self.tiles) if self.blocks == 1 else tirx.min(i64(block_tiles), self.tiles - first)
            with T.serial(i64(0), count) as index:
                row = T.Bind((first + index) * self.tile_rows)
                tile(PanelTilePosition(place.group, row, place.column), self.tile_rows, width, columns)
        if rest := self.rows % self.tile_rows:
            with T.If(block == i64(self.blocks - 1)), T.Then():
                tile(
                    PanelTilePosition(place.group, i64(self.rows - rest), place.column), rest, width, columns
                )
